#!/usr/bin/env bash
# Parameters that do not reach the loss hang or fail at run time, without names. The compiler lists
# them, with their lines, and the program trains.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 8 'rand(), rand(), i % 2'
cat >head <<'END'
data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)
module Extra() {
    param gain: f32[4] = ones()
    forward(x) { return x * gain }
}
module Net() {
    fc1    = Linear(2, 4)
    unused = Linear(4, 4)
    extras = [Extra() for i in 0..3]
    param lonely: f32[3] = zeros()
    head   = Linear(4, 2)
    forward(x) {
        y = extras[1](relu(fc1(x)))
        return head(y)
    }
}
END
dead=(unused.weight unused.bias extras.0.gain extras.2.gain lonely)
alive=(fc1.weight fc1.bias extras.1.gain head.weight head.bias)
for pair in 'f16:AdamW(model, lr = 0.01, weight_decay = 0.1)' 'bf16:SGD(model, lr = 0.1)' 'f32:Adam(model, lr = 0.01)'; do
    type=${pair%%:*}
    { cat head; loop "${pair#*:}" $type 'loss = cross_entropy(model(batch.x), batch.label)'; } >$type.mpt
    run 0 'warning' "$mpc" $type.mpt -O0 --cpu=generic -o $type
    for name in "${dead[@]}"; do
        grep -E "^$type\.mpt:[0-9]+:[0-9]+: (warning|note)" said | grep -qF "$name" || fail "$type: $name is not listed"
    done
    for name in "${alive[@]}"; do
        grep -E 'warning|note' said | grep -qwF "$name" && fail "$type: $name is listed, but it is used"
    done
    rm -rf ${type}_run
    train $type --epochs 0
    declare -A start=()
    for name in "${dead[@]}"; do start[$name]=$(weights $type "$name"); done
    rm -rf ${type}_run
    train $type
    for name in "${dead[@]}"; do
        same "$(weights $type "$name")" "${start[$name]}" "$type: $name, which has no gradient"
    done
done
# Behind a detach, or where only an evaluation looks at it.
{ cat head; loop 'SGD(model, lr = 0.1)' f32 'loss = cross_entropy(detach(model(batch.x)) + mean(model.lonely), batch.label)'; } >detached.mpt
if "$mpc" detached.mpt --emit=ir >/dev/null 2>said; then
    grep -qF fc1.weight said || fail "a parameter behind detach is not listed"
fi
finish
