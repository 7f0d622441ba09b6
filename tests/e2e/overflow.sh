#!/usr/bin/env bash
# overflow.sh: a loss scale far too high. Steps whose gradients are not finite are skipped, seen in
# the log, halve the scale, and leave parameters, moments and step counter bitwise as they were: a
# run that starts at the scale at which the first one began to step ends with the same weights.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

# at SCALE NAME EPOCHS: runs the program with that initial scale.
at() {
    sed "s/1073741824.0/$1.0/; s/0\.\.12/0..$3/" "$src/tests/e2e/overflow.mpt" >"$tmp/$2.mpt"
    quietly "$mpc" -O1 "$tmp/$2.mpt" -o "$tmp/$2"
    quietly "$tmp/$2" --seed 1 --data "$examples/data" --out "$tmp/$2_run"
}

at 1073741824 high 12
log=$tmp/high_run/log.jsonl

# The first steps overflow, each halving the scale; then a step counts.
skips=0
scale=1073741824
while read -r old new; do
    ((old == scale)) || break
    ((new * 2 == old)) || fail "an overflow at scale $old leads to $new, not half of it"
    skips=$((skips + 1))
    scale=$new
done < <(paste -d' ' <(field scale_old overflow "$tmp/high_run") <(field scale_new overflow "$tmp/high_run"))
((skips >= 2)) || fail "expected at least two overflows at scale 2^30, found $skips"
((skips < 12)) || fail "no step was ever taken"

# With growth interval 2 the scale doubles after two good steps and overflows again now and then.
grep -q '"event": *"overflow"' "$log" || fail "the log has no overflow events"
total=$(field scale_old overflow "$tmp/high_run" | wc -l)
((total > skips)) || fail "the scale never grew back to where it overflows ($total overflows)"
skipped=$(field skips end "$tmp/high_run")
[[ $skipped == "$total" ]] || fail "the end event counts '$skipped' skips, the log has $total overflows"

at "$scale" fitting $((12 - skips))
same_weights "$tmp/high_run" "$tmp/fitting_run" "after $skips skipped steps"

# A run of skipped steps alone is as good as no step.
at 1073741824 two 2
at 1073741824 one 1
same_weights "$tmp/one_run" "$tmp/two_run" "one and two skipped steps"
finish
