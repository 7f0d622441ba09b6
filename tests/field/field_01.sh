#!/usr/bin/env bash
# A residual stream beyond f16's 65504 makes a deep pre-norm network NaN. It stays f32.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d,word,label 8 'rand(), rand(), -rand(), rand(), i % 5, i % 3'

# net NORM INPUT [BLOCKS]: blocks that add about 108000 together, and more.
net() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"), word: i32, label: i32)
module Block() {
    $1
    fc1 = Linear(16, 32)
    param weight: f32[16, 32] = uniform(-2000, 2000)
    param bias: f32[16] = constant($((108000 / ${3:-12})))
    forward(x) { return x + linear(gelu(fc1(norm(x))), weight, bias) }
}
module Net() {
    table  = Embedding(5, 16)
    blocks = [Block() for i in 0..${3:-12}]
    norm   = LayerNorm(16)
    head   = Linear(16, 3)
    forward(batch) {
        x = $2
        for block in blocks { x = block(x) }
        size = amax(abs(x))
        return head(norm(x)), size
    }
}
END
}
layer_norm='norm = LayerNorm(16)'
rms_norm='norm = Rms()'
rms='module Rms() { param weight: f32[16] = ones(); forward(x) { return rms_norm(x, [16], weight) } }'
step=('logits, size = model(batch)' 'loss = cross_entropy(logits, batch.label)')
after='print("size", size)' epochs=5

# stream NAME NORM INPUT OPTIMIZER BLOCKS: in f32 and f16.
stream() {
    local type
    for type in f32 f16; do
        { echo "$rms"; net "$2" "$3" "$5"; loop "$4" $type "${step[@]}"; } | compile "$1_$type"
        train "$1_$type"
    done
    holds "$(printed size "$1_f16" | tail -n 1) > 1e5" || fail "$1: the stream does not reach 1e5"
    near "$(last loss step "$1_f16")" "$(last loss step "$1_f32")" 0.01 "$1: loss in f16"
    same "$(last skips end "$1_f16")" 0 "$1: skipped steps"
    dump "$1_f16" autocast
    grep -E '= add .*: f16\[B,16\]' "$1_f16.autocast" && fail "$1: the residual stream is f16"
    grep -qE '= add .*: f32\[B,16\]' "$1_f16.autocast" || fail "$1: no residual stream in the dump"
}
stream words "$layer_norm" 'table(batch.word)' 'AdamW(model, lr = 1e-4)' 12
stream numbers "$rms_norm" 'cat([batch.x * 1e5, batch.x, batch.x, batch.x], dim = 1)' 'SGD(model, lr = 1e-3)' 4

# Where the stream is f16, as behind a Linear, it does overflow: said, with the line, never trained on.
{
    net "$layer_norm" 'first(batch.x)' 4 | sed 's/^    table .*/    first = Linear(4, 16)/'
    batch=1 epochs=20 after= loop 'SGD(model, lr = 0.01)' f16 "${step[@]}"
} | compile behind_linear
run 1 'not finite|infinite|overflow|20 .*skipped|skipped' ./behind_linear --out behind --log none
grep -q 'nan' behind/model.safetensors 2>/dev/null && fail "a model of NaNs was saved"
finish
