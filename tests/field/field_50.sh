#!/usr/bin/env bash
# The precision that was asked for is silently ignored. A program prints, logs and keeps the one that it
# runs in; what it cannot run in is an error; a CPU without the types computes the same numbers.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 8 'rand(), rand(), i % 2'
net() {
    echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
    echo 'module Net() { param w: f32[2] = ones(); forward(x) { return x * w } }'
}
step=('loss = cross_entropy(model(batch.x), batch.label)')
# effective NAME KEY WORD: what the program NAME says of itself.
effective() {
    train "$1" --log text
    grep -qE "precision=$2\b" "$1_run/said" || fail "$1: the first line does not say $2: $(head -n 1 "$1_run/said")"
    grep '"event": *"start"' "$1_run/log.jsonl" | grep -q "\"precision\": *\"$2\"" || fail "$1: the log does not say $2"
    grep -q "\"precision\": *\"$2" "$1_run/config.json" || fail "$1: config.json does not say $2"
    "./$1" --summary | grep -qE "\b$2\b" || fail "$1: --summary does not say $2"
    "./$1" --plan | head -n 1 | grep -qE "\b$2\b" || fail "$1: --plan does not say $2"
    "$mpc" "$1.mpt" ${3:-} --explain | head -n 1 | grep -qE "^precision +$2\b" || fail "$1: --explain does not say $2"
}
declare -A key=([f16]=fp16 [bf16]=bf16 [f32]=f32)
for type in f16 bf16 f32; do
    { net; loop 'SGD(model, lr = 0.1)' $type "${step[@]}"; } | compile of_$type --cpu=native
    effective of_$type ${key[$type]}
done
for precision in fp16 bf16 f32; do
    { net; loop 'SGD(model, lr = 0.1)' f16 "${step[@]}"; } | compile asked_$precision --precision=$precision
    effective asked_$precision $precision --precision=$precision
done
{ net; loop 'SGD(model, lr = 0.1)' f32 "${step[@]}"; } | compile added --precision=fp16
effective added fp16 --precision=fp16
{ net; loop 'SGD(model, lr = 0.1)' bf16 "${step[@]}" | sed 's/autocast(bf16)/autocast(bf16, enabled = false)/'; } | compile off
effective off f32

# On a CPU without half arithmetic: the same weights.
compile plain_cpu <of_f16.mpt
effective plain_cpu fp16
same_weights of_f16_run plain_cpu_run "fp16 on any CPU"

run 2 'precision.*f32.*fp16.*bf16|fp16' "$mpc" of_f16.mpt --precision=fp8 -o x
run 2 'precision' "$mpc" of_f16.mpt --precision=half -o x
{ net; loop 'SGD(model, lr = 0.1)' f32 'with autocast(i32) { loss = cross_entropy(model(batch.x), batch.label) }'; } |
    refused whole 'error: .*autocast'
run 2 'cuda|CPU' ./of_f16 --device cuda --out x
finish
