#!/usr/bin/env bash
# A batch whose labels are all ignored: the mean is 0 / 0, and the epoch's mean is NaN. Its loss is 0,
# its gradients are 0, and the means of an evaluation are those of the labels that count.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# Rows 4 to 7 (one batch) and some others are ignored.
table rows.csv a,b,c,label 12 'rand(), rand(), -rand(), (i > 3 && i < 8) || i == 9 ? -100 : i % 3'
awk -F, 'NR == 1 || $4 != -100' rows.csv >valid.csv
# net FILE IGNORE
net() {
    echo "data rows = csv(\"$1\") -> (x: f32[3] = columns(\"a\"..\"c\"), label: i32)"
    echo 'module Net() { fc1 = Linear(3, 8); fc2 = Linear(8, 3); forward(x) { return fc2(relu(fc1(x))) } }'
}
# ignored NAME TYPE OPTIMIZER LOSS
ignored() {
    { net rows.csv; after='seen = evaluate(rows, batch_size = 4) { '"$4"' }; print("seen", seen)' \
        loop "$3" $2 "loss = $4" 'low = amin(model(batch.x))'; } | compile "$1_$2"
    train "$1_$2"
    same "$(field loss step "$1_$2_run" | sed -nE '2s/^-?0(\.0)?$/0/p')" 0 "$1 in $2: the loss of the ignored batch"
    same "$(field grad_norm step "$1_$2_run" | sed -n 2p)" 0 "$1 in $2: its gradient"
    grep -qi 'nan\|inf"' "$1_$2_run/log.jsonl" && fail "$1 in $2: NaN in the log"
    same "$(last skips end "$1_$2")" 0 "$1 in $2: skipped steps"
    while read -r seen; do
        holds "$seen > 0.1 && $seen < 5" || fail "$1 in $2: the evaluation's mean is $seen"
    done < <(printed seen "$1_$2")
    return 0
}
ce='cross_entropy(model(batch.x), batch.label)'
nll='nll_loss(log_softmax(model(batch.x)), batch.label)'
clip=1.0 ignored ce f16 'SGD(model, lr = 0.1)' "$ce"
clip=1.0 ignored ce f32 'Adam(model, lr = 0.01)' "$ce"
clip=1.0 ignored nll bf16 'Adam(model, lr = 0.01)' \
    "cross_entropy(model(batch.x), batch.label, label_smoothing = 0.1) + $nll"

# SGD does not move on such a batch: the run is that without it.
{ net without.csv; loop 'SGD(model, lr = 0.1)' f16 "loss = $ce"; } | compile without
sed -n '1,5p;10,13p' rows.csv >without.csv
train without
{ net rows.csv; loop 'SGD(model, lr = 0.1)' f16 "loss = $ce"; } | compile with
train with
same_weights with_run without_run "a batch of ignored labels"

# An ignored label beside others counts as no item, in training and in an evaluation.
{ net three.csv; batch=3 loop 'SGD(model, lr = 0.1)' f32 "loss = $ce"; } | compile three
sed -n '1p;10p;12,13p' rows.csv >three.csv
{ net four.csv; batch=4 loop 'SGD(model, lr = 0.1)' f32 "loss = $ce"; } | compile four
sed -n '1p;10,13p' rows.csv >four.csv
train three
train four
near "$(last loss step four)" "$(last loss step three)" 1e-6 "one ignored of four"
near "$(weights four fc1.weight 1 | xargs)" "$(weights three fc1.weight 1 | xargs)" 1e-6 "one ignored of four: weights"
finish
