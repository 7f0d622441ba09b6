#!/usr/bin/env bash
# After a resume the same samples come again, in the same order. A run that is stopped anywhere goes on
# with the sample that would have been next: the losses in the log are those of the unbroken run.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv id,b,label 23 'i + 1, rand(), i % 2'
# sampled NAME TYPE OPTIMIZER BATCH: logs what tells the samples apart.
sampled() {
    {
        echo 'data rows = csv("rows.csv") -> (id: f32, x: f32[2] = columns("id", "b"), label: i32)'
        echo 'module Net() { fc = Linear(2, 2); drop = Dropout(0.25); forward(x) { return fc(drop(x * 0.01)) } }'
        epochs=3 batch=$4 loop "$3" $2 'ids = sum(batch.id * batch.id)' \
            'loss = cross_entropy(model(batch.x), batch.label)' |
            sed 's/shuffle = false/shuffle = true/; s/log(loss)/log(loss, ids)/'
    } | compile "$1"
    local whole=${1}_whole steps at
    train "$1" --seed 5
    mv "${1}_run" "$whole"
    steps=$(last steps end "$1" 2>/dev/null || field steps end "$whole")
    for at in 1 $((steps / 3)) $((steps / 2 + 1)) $((steps - 1)); do
        rm -rf "${1}_run"
        train "$1" --seed 5 --max-steps "$at"
        train "$1" --resume --max-steps 1000
        same "$(field ids step "${1}_run" | xargs)" "$(field ids step "$whole" | xargs)" "$1: samples, stopped at $at"
        same "$(field loss step "${1}_run" | xargs)" "$(field loss step "$whole" | xargs)" "$1: losses, stopped at $at"
        same_weights "${1}_run" "$whole" "$1: stopped at $at"
    done
    # Every epoch sees every sample once, in another order.
    same "$(field ids step "$whole" | awk '{ s += $1 } END { print s }')" $((3 * 4324)) "$1: samples of three epochs"
    [[ $(field ids step "$whole" | head -n $((steps / 3)) | xargs) != "$(field ids step "$whole" | tail -n $((steps / 3)) | xargs)" ]] ||
        fail "$1: two epochs have the same order"
}
sampled one f16 'AdamW(model, lr = 0.01)' 1
sampled four bf16 'SGD(model, lr = 0.1, momentum = 0.9)' 4
finish
