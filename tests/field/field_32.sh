#!/usr/bin/env bash
# The scaler's state is missing from checkpoints, or half of it. A checkpoint holds scale, tracker,
# optimizer, step, epoch, cursor and seed; one that lacks any of them is refused by name.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 16 'i == 2 ? 1e5 : rand(), rand(), i % 2'
# resumable NAME OPTIMIZER BUFFER...
resumable() {
    local name=$1 optimizer=$2
    shift 2
    {
        echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
        echo 'module Net() { fc = Linear(2, 2); drop = Dropout(0.5); forward(x) { return fc(drop(x)) } }'
        scaler_args='growth_interval = 5' epochs=2 batch=2 \
            loop "$optimizer" f16 'loss = cross_entropy(model(batch.x), batch.label)' |
            sed 's/shuffle = false/shuffle = true/'
    } | compile "$name"
    train "$name" --seed 3
    mv "${name}_run" "${name}_whole"
    # The scale has been halved and doubled by then: its place in the rule matters.
    train "$name" --seed 3 --max-steps 7
    cp -r "${name}_run" "${name}_cut"
    local at=${name}_run/checkpoints/step-7 field
    for field in scaler.scale scaler.tracker fc.weight fc.bias "$@"; do
        grep -aqF "\"$field\"" "$at/state.safetensors" || fail "$name: the checkpoint has no $field"
    done
    for field in step skips epoch loaders taken pass seed skips_in_row options vars; do
        grep -qE "\"$field\":" "$at/host.json" || fail "$name: the checkpoint has no $field"
    done
    train "$name" --resume --max-steps 100
    same_weights "${name}_whole" "${name}_run" "$name: stopped and continued"
    same "$(field scale step "${name}_run" | xargs)" "$(field scale step "${name}_whole" | xargs)" "$name: scales"

    # lacks FIELD FILE SED: without it the run does not continue.
    lacks() {
        rm -rf "${name}_run"
        cp -r "${name}_cut" "${name}_run"
        sed -E "$3" "${name}_cut/checkpoints/step-7/$2" >"$at/$2"
        cmp -s "$at/$2" "${name}_cut/checkpoints/step-7/$2" && fail "$name: $1 was not taken out"
        run 1 "$1" "./$name" --out "${name}_run" --resume --max-steps 100 --log none
    }
    for field in scaler.scale scaler.tracker "$@"; do
        lacks "$field" state.safetensors "s/\"$field\"/\"${field/[st]/x}\"/"
    done
    for field in step epoch seed taken loaders skips; do
        lacks "$field" host.json "s/\"$field\":/\"x$field\":/"
    done
}
resumable adam 'Adam(model, lr = 0.01)' optimizer.step optimizer.exp_avg.fc.weight optimizer.exp_avg_sq.fc.bias
resumable sgd 'SGD(model, lr = 0.1, momentum = 0.9)' optimizer.momentum_buffer.fc.weight optimizer.step
finish
