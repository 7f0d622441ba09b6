#!/usr/bin/env bash
# Gradients are not cleared after an overflow, every later step overflows, and the scale decays to 0.
# One overflow halves the scale once, and the next step is made.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table bad.csv a,b,label 10 'i == 4 ? 1e5 : rand(), rand(), i % 2'
awk 'NR != 6' bad.csv >without.csv
# overflow NAME OPTIMIZER [CLIP]
overflow() {
    {
        echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
        echo 'module Net() { fc = Linear(2, 4); out = Linear(4, 2); forward(x) { return out(relu(fc(x))) } }'
        batch=1 clip=${3:-} loop "$2" f16 'loss = cross_entropy(model(batch.x), batch.label)'
    } | compile "$1"
    mkdir -p bad without
    cp bad.csv bad/rows.csv
    cp without.csv without/rows.csv
    train "$1" --data bad
    same "$(field skipped step "$1_run" | tr '\n' ' ')" \
        'false false false false true false false false false false ' "$1: skipped steps"
    same "$(field scale step "$1_run" | tr '\n' ' ')" \
        '65536 65536 65536 65536 65536 32768 32768 32768 32768 32768 ' "$1: scales"
    same "$(field scale_new overflow "$1_run")" 32768 "$1: overflow records"
    mv "$1_run" "$1_bad"
    # The skipped row might as well not have been there: another scale is no difference but for rounding.
    train "$1" --data without
    paste -d' ' <(weights "$1" fc.weight | tr ' ' '\n') \
        <(cp -r "$1_bad" x_run && weights x fc.weight | tr ' ' '\n') |
        awk '$1 != "" { n++; d = $1 - $2; if (d > 1e-3 || d < -1e-3) bad = 1 } END { exit bad || n != 8 }' ||
        fail "$1: the skipped row left a trace"
    rm -r x_run
}
overflow sgd 'SGD(model, lr = 0.1)'
overflow momentum 'SGD(model, lr = 0.1, momentum = 0.9, nesterov = true)' 1.0
overflow adam 'Adam(model, lr = 0.01)'
overflow adamw 'AdamW(model, lr = 0.01, weight_decay = 0.1)' 0.5
finish
