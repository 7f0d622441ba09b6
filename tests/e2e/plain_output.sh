#!/usr/bin/env bash
# plain_output.sh: where nobody looks (no terminal) there is no colour, no carriage return, no bar,
# and the log's keys are the promised ones.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
train=$(program digits)

"$train" --epochs 3 --out run >out 2>err
! grep -q $'[\r\033]' out err || fail "carriage returns or colours where there is no terminal"
grep -qE 'loss[= ][0-9.]+' out err || fail "no plain line tells the loss"
[[ $(wc -l <err) -ge 3 || $(wc -l <out) -ge 3 ]] || fail "fewer than three lines for three epochs"

# The keys of log.jsonl are stable.
keys() {
    local event=$1 line key
    shift
    line=$(grep -m 1 -E "\"event\": ?\"$event\"" run/log.jsonl || true)
    [[ -n $line ]] || { fail "log.jsonl: no $event"; return; }
    for key in "$@"; do
        grep -qE "\"$key\":" <<<"$line" || fail "log.jsonl, $event: no $key in $line"
    done
}
keys start program version device threads precision parameters plan_bytes seed
keys step step epoch loss lr scale skipped samples_per_s
keys eval step epoch set loss accuracy
keys save step path
keys end status steps skips seconds first_step_s peak_bytes
head -n 1 run/log.jsonl | grep -q '"start"' || fail "log.jsonl does not begin with start"
tail -n 1 run/log.jsonl | grep -q '"end"' || fail "log.jsonl does not finish with end"
bad=$(grep -cvE '^\{.*\}$' run/log.jsonl || true)
((bad == 0)) || fail "log.jsonl: $bad lines that are no object"

# Diagnostics without colour, unless asked for.
echo 'x = nosuch(1)' >bad.mpt
"$mpc" bad.mpt 2>err && fail "bad.mpt compiles"
! grep -q $'\033' err || fail "colour in a message to a file"
"$mpc" bad.mpt --color=always 2>err && fail "bad.mpt compiles"
grep -q $'\033' err || fail "--color=always: no colour"
finish
