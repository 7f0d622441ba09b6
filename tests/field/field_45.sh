#!/usr/bin/env bash
# rms_norm on the f32 list added casts of whole tensors around it: more memory, slower. Here "f32" says
# where a norm computes: between two bf16 products no f32 tensor of its size is in memory.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 4 'rand(), rand(), i % 2'
# between NAME TYPE NORM: fc -> NORM -> fc, evaluated: no gradient keeps anything.
between() {
    cat >"$1_$2.mpt" <<END
data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)
module Net() {
    fc0 = Linear(2, 48); fc1 = Linear(48, 48); fc2 = Linear(48, 2)
    norm = LayerNorm(48)
    param gain: f32[48] = ones()
    forward(x) { return fc2($3) }
}
model = Net()
correct = evaluate(rows, batch_size = 256) {
    with autocast($2) { logits = model(batch.x) }
    accuracy(logits, batch.label)
}
print(correct)
END
    quietly "$mpc" "$1_$2.mpt" -O0 --cpu=generic -o "$1_$2"
    ./"$1_$2" --plan=full >plan
    grep -E ' f32 .*\(B, 48\)' plan && fail "$1 in $2: an f32 tensor of the norm's size in memory"
    grep -qE " $2 .*\(B, 48\)" plan || fail "$1 in $2: no $2 tensor of the norm's size"
    "$mpc" "$1_$2.mpt" --dump-after=autocast 2>/dev/null | grep -E '= (mean|var|rsqrt) ' | grep -vE ': f32' &&
        fail "$1 in $2: statistics that are not f32"
    true
}
between rms bf16 'rms_norm(fc1(fc0(x)), [48], gain)'
between rms f16 'rms_norm(fc1(fc0(x)), [48], gain)'
between layer f16 'norm(fc1(fc0(x)))'
between softmax bf16 'softmax(fc1(fc0(x)))'
between gelu bf16 'gelu(fc1(fc0(x))) * gain'
finish
