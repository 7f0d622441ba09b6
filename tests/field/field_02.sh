#!/usr/bin/env bash
# Pretrained weights that are infinite once cast to f16 make the first batch NaN. The program names
# the tensor, the number and the type before it trains.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d,label 8 'rand(), rand(), rand(), rand(), i % 3'

# net WEIGHT BIAS
net() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"), label: i32)
module Layer(inputs, outputs) {
    param weight: f32[outputs, inputs] = $1
    param bias: f32[outputs] = $2
    forward(x) { return linear(x, weight, bias) }
}
module Net() {
    norm = LayerNorm(4)
    fc1  = Layer(4, 8)
    fc2  = Linear(8, 3)
    param gain: f32[8] = ones()
    forward(x) { return fc2(tanh(fc1(norm(x)) * gain)) }
}
END
}
step=('loss = cross_entropy(model(batch.x), batch.label)')

zero='\x00\x00\x00\x00' one='\x00\x00\x80\x3f' tenth='\xcd\xcc\xcc\x3d'
# pretrained NAME WEIGHT BIAS GAIN: a model whose fc1 holds these numbers, four bytes of f32 each.
pretrained() {
    local head='{' body='' at=0 name count bytes n
    for name in norm.weight:4:$one norm.bias:4:$zero "fc1.weight:8,4:$2" "fc1.bias:8:$3" \
        fc2.weight:3,8:$tenth fc2.bias:3:$zero "gain:8:$4"; do
        IFS=: read -r name count bytes <<<"$name"
        n=$((${count/,/*}))
        [[ $head == '{' ]] || head+=','
        head+="\"$name\":{\"dtype\":\"F32\",\"shape\":[$count],\"data_offsets\":[$at,$((at + 4 * n))]}"
        at=$((at + 4 * n))
        body+=$(for ((i = 0; i < n; i++)); do echo -n "$bytes"; done)
    done
    head+='}'
    while ((${#head} % 8 != 0)); do head+=' '; done
    mkdir "$1_run"
    {
        printf "$(printf '\\x%x\\x%x' $((${#head} % 256)) $((${#head} / 256)))\0\0\0\0\0\0"
        printf '%s' "$head"
        printf '%b' "$body"
    } >"$1_run/model.safetensors"
}
seventy='\x00\xb8\x88\x47' # 70000
pretrained weight "$seventy" "$zero" "$one"
pretrained negative '\x00\xf5\x7f\xc7' "$zero" "$one" # -65525
pretrained bias "$zero" '\xca\xf2\x49\x71' "$one"     # 1e30
pretrained gain "$tenth" "$zero" "$seventy"
pretrained largest '\x00\xe0\x7f\x47' "$zero" "$one" # 65504
pretrained huge '\x9e\xc9\x7f\x7f' "$zero" "$one"    # 3.4e38

for type in f16 bf16; do
    { net 'zeros()' 'zeros()'; loop 'AdamW(model, lr = 1e-3)' $type "${step[@]}"; } | compile $type
done
# load TYPE MODEL STATUS REGEX
load() {
    run "$3" "$4" "./$1" --init "$2_run/model.safetensors" --out "$2_$1" --log none
}
load f16 weight 1 "fc1\.weight.*70000.*f16"
load f16 negative 1 "fc1\.weight.*-6552[0-9].*f16"
load f16 bias 1 "fc1\.bias.*1e\+?30.*f16"
load bf16 huge 1 "fc1\.weight.*3\.4.*bf16"
[[ ! -e weight_f16/model.safetensors ]] || fail "the refused weights were saved"

# What fits, or is not cast, is loaded and trains.
for pair in f16:largest bf16:weight bf16:bias f16:gain; do
    out=${pair#*:}_${pair%:*}
    quietly "./${pair%:*}" --init "${pair#*:}_run/model.safetensors" --out "$out" --log none
    grep -qE '"loss": *"' "$out/log.jsonl" && fail "$pair: a loss is not finite"
done

# Initialisers of the file's own are as good as loaded weights.
{ net 'constant(70000)' 'zeros()'; loop 'SGD(model, lr = 0.1)' f16 "${step[@]}"; } >own.mpt
if "$mpc" own.mpt -O0 -o own 2>own.err; then
    run 1 'fc1\.weight.*f16' ./own --out own_run --log none
else
    grep -q 'own.mpt:[0-9]*:' own.err || fail "the initialiser is refused without a line"
fi
finish
