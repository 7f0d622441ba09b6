#!/usr/bin/env bash
# three_levels.sh: one training as a loop, with an accelerator and as a trainer block: 4 batches an update and 10 an
# epoch, clipping, two groups of parameters, a schedule, f16. All end with the same weights, bit for bit, and so do
# the loops that --emit=loop prints of the second and the third.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

# trained NAME FILE
trained() {
    quietly "$mpc" -O0 --cpu=generic "$2" -o "$tmp/$1"
    quietly "$tmp/$1" --seed 1 --epochs 2 --data "$examples/levels" --out "$tmp/of_$1"
}

trained loop "$examples/levels/loop.mpt"
[[ $(field steps end "$tmp/of_loop") == 6 ]] || fail "10 batches in windows of 4 are 3 updates an epoch"
grep -E 'step=6 loss=[0-9]' "$tmp/quiet" >"$tmp/shown" || fail "an update of several batches shows no loss"
for level in accelerator trainer; do
    trained $level "$examples/levels/$level.mpt"
    same_weights "$tmp/of_loop" "$tmp/of_$level" "loop.mpt and $level.mpt"
    "$mpc" "$examples/levels/$level.mpt" --emit=loop >"$tmp/printed.mpt"
    grep -vE '^ *#' "$tmp/printed.mpt" | grep -E 'accelerator|trainer *\{' >"$tmp/left" && fail "$level.mpt is not expanded"
    trained printed_$level "$tmp/printed.mpt"
    same_weights "$tmp/of_loop" "$tmp/of_printed_$level" "loop.mpt and what --emit=loop prints of $level.mpt"
done
finish
