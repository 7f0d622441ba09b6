#!/usr/bin/env bash
# The loss scale appeared to jump by orders of magnitude in one step, and nothing said why. Every
# change is in the log with step, old and new value; at most one halving or doubling a step.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# Every fifth row is beyond f16; rows 11 to 13 in a row.
table rows.csv a,b,label 24 '(i % 5 == 4 || (i > 9 && i < 13)) ? 1e5 : rand(), rand(), i % 2'
net() {
    echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
    echo 'module Net() { fc = Linear(2, 2); forward(x) { return fc(x) } }'
}
# history NAME FACTOR BACKOFF INTERVAL: the log's scales against the rule.
history() {
    paste -d' ' <(field step step "$1_run") <(field scale step "$1_run") <(field skipped step "$1_run") >steps
    paste -d' ' <(field step overflow "$1_run") <(field scale_old overflow "$1_run") \
        <(field scale_new overflow "$1_run") >overflows
    awk -v up="$2" -v down="$3" -v every="$4" '
        FILENAME == "overflows" { old[$1] = $2; new[$1] = $3; next }
        FNR > 1 && $2 != want { print "step " $1 ": the scale is " $2 ", not " want; bad = 1 }
        $3 == "true" && !($1 in old) { print "step " $1 ": skipped, no overflow record"; bad = 1 }
        $3 != "true" && ($1 in old) { print "step " $1 ": an overflow record, not skipped"; bad = 1 }
        ($1 in old) && (old[$1] != $2 || new[$1] != $2 * down) { print "step " $1 ": " old[$1] " to " new[$1]; bad = 1 }
        { good = $3 == "true" ? 0 : good + 1
          want = $3 == "true" ? $2 * down : good == every ? $2 * up : $2
          good = good == every ? 0 : good }
        END { exit bad || FNR != 24 }' overflows steps || fail "$1: the history of the scale"
    same "$(last skips end "$1")" "$(wc -l <overflows)" "$1: skips counted at the end"
    (($(wc -l <overflows) >= 7)) || fail "$1: $(wc -l <overflows) overflows"
    # The last line tells a person.
    tail -n 3 "$1_run/said" | grep -qE "skip(s|ped)[^0-9]*$(wc -l <overflows)\b|\b$(wc -l <overflows) .*skip" ||
        fail "$1: the closing line does not count the skips: $(tail -n 3 "$1_run/said")"
}
batch=1
step=('loss = cross_entropy(model(batch.x), batch.label)')
{ net; loop 'SGD(model, lr = 0.1)' f16 "${step[@]}"; } | compile plain
train plain --log text
history plain 2 0.5 2000
{ net; scaler_args='init_scale = 1024, growth_interval = 2' loop 'Adam(model, lr = 0.01)' f16 "${step[@]}"; } | compile grows
train grows --log text
history grows 2 0.5 2
{ net; clip=1.0 scaler_args='growth_factor = 4, backoff_factor = 0.25, growth_interval = 3' \
    loop 'AdamW(model, lr = 0.01)' f16 "${step[@]}"; } | compile factors
train factors --log text
history factors 4 0.25 3
finish
