#!/usr/bin/env bash
# The first step is skipped, the scheduler moves on and warns. The schedule belongs to the updates that
# were made: after skipped steps the rate is that of the first step that counts.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table bad.csv a,b,label 12 'i == 0 || i == 1 || i == 5 ? 1e5 : rand(), rand(), i % 2'
table good.csv a,b,label 12 'rand(), rand(), i % 2'
# scheduled NAME SCHEDULER OPTIMIZER
scheduled() {
    {
        echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
        echo 'module Net() { fc = Linear(2, 2); forward(x) { return fc(x) } }'
        scheduler=$2 batch=1 loop "$3" f16 'loss = cross_entropy(model(batch.x), batch.label)'
    } | compile "$1"
    mkdir bad good 2>/dev/null || true
    cp bad.csv bad/rows.csv
    cp good.csv good/rows.csv
    train "$1" --data good
    local without
    without=$(field lr step "$1_run" | tr '\n' ' ')
    rm -r "$1_run"
    train "$1" --data bad
    same "$(field skipped step "$1_run" | tr '\n' ' ')" \
        'true true false false false true false false false false false false ' "$1: skipped steps"
    # The rates of the updates that were made are those of the run without skips, in order.
    local made
    made=$(paste -d' ' <(field lr step "$1_run") <(field skipped step "$1_run") | awk '$2 == "false" { printf "%s ", $1 }')
    same "$made" "$(echo "$without" | cut -d' ' -f1-9) " "$1: rates of the updates made"
    (($(echo "$without" | tr ' ' '\n' | sort -u | wc -l) > 2)) || fail "$1: the rate does not move: $without"
    grep -qi 'warn' "$1_run/said" && fail "$1: a warning: $(cat "$1_run/said")"
    true
}
scheduled warmup 'get_linear_schedule_with_warmup(optimizer, 4, 12)' 'AdamW(model, lr = 0.1)'
scheduled step 'StepLR(optimizer, step_size = 2, gamma = 0.5)' 'SGD(model, lr = 0.1)'
scheduled cosine 'get_scheduler("cosine", optimizer, num_warmup_steps = 2, num_training_steps = 12)' \
    'SGD(model, lr = 0.1, momentum = 0.9)'
scheduled exponential 'ExponentialLR(optimizer, gamma = 0.9)' 'Adam(model, lr = 0.1)'
finish
