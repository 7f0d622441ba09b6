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
    param gain: f32[8] = constant(${3:-1})
    forward(x) { return fc2(tanh(fc1(norm(x)) * gain)) }
}
END
}
step=('loss = cross_entropy(model(batch.x), batch.label)')

# pretrained NAME WEIGHT BIAS [GAIN]: a model of such weights, written by a run without steps.
pretrained() {
    { net "$2" "$3" "${4:-1}"; loop 'SGD(model, lr = 0.1)' f32 "${step[@]}"; } | compile "$1"
    train "$1" --epochs 0
}
pretrained weight 'constant(70000)' 'zeros()'
pretrained negative 'uniform(-65530, -65525)' 'zeros()'
pretrained bias 'zeros()' 'constant(1e30)'
pretrained gain 'uniform(0, 1)' 'zeros()' 70000
pretrained largest 'constant(65504)' 'zeros()'
pretrained huge 'constant(3.4e38)' 'zeros()'

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
