#!/usr/bin/env bash
# A loss scale tuned by hand for each model, or NaN. The default dynamic scaler trains models whose
# gradients are tiny, ordinary and huge, to the loss of f32, with nothing tuned.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d,label 32 'rand()-0.5, rand()-0.5, rand()-0.5, rand()-0.5, (i * 7) % 3'
# The rows' labels follow from them, so that there is something to learn.
awk -F, -v OFS=, 'NR > 1 { $5 = $1 > $2 ? 0 : $3 > $4 ? 1 : 2 } { print }' rows.csv >x && mv x rows.csv
cat >head <<'END'
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"), label: i32)
END
wide='module Net() { fc1 = Linear(4, 64); fc2 = Linear(64, 3); forward(x) { return fc2(relu(fc1(x))) } }'
deep='module Net() { fc = [Linear(4, 4) for i in 0..6]; out = Linear(4, 3)
    forward(x) { for f in fc { x = x + tanh(f(x)) }; return out(x) } }'
# epoch_loss NAME: the mean over the last epoch.
epoch_loss() {
    field loss step "$1_run" | tail -n 4 | awk '{ s += $1 } END { print s / NR }'
}
# made NAME NET OPTIMIZER
made() {
    local type
    for type in f32 f16; do
        { echo 'option factor = 1.0'; cat head; echo "$2"
          loop "$3" $type 'loss = cross_entropy(model(batch.x), batch.label) * factor'; } | compile $1_$type
    done
}
# trains NAME FACTOR: the loss is multiplied by FACTOR, as a weight of a task would.
epochs=30 batch=8
trains() {
    local type first low full
    for type in f32 f16; do
        rm -rf $1_${type}_run
        train $1_$type --factor $2
    done
    first=$(field loss step $1_f32_run | head -n 1)
    full=$(epoch_loss $1_f32)
    low=$(epoch_loss $1_f16)
    holds "$full < 0.8 * $first" || fail "$1 $2: f32 does not learn: $first to $full"
    # Skipped steps at the start cost that many updates of the f32 run.
    holds "$low < 1.2 * $full + 0.02 * $2 && $low > 0.7 * $full - 0.02 * $2" ||
        fail "$1 $2: the loss in f16 is $low, in f32 $full"
    (($(last skips end $1_f16) <= 16)) || fail "$1 $2: $(last skips end $1_f16) skipped steps"
}
made wide "$wide" 'AdamW(model, lr = 5e-3)'
trains wide 1
trains wide 1e-5
trains wide 1e3
made deep "$deep" 'SGD(model, lr = 0.05, momentum = 0.9)'
trains deep 1
finish
