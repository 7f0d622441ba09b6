#!/usr/bin/env bash
# levels.sh: the trainer block and the loop that a person would write for it are the same training:
# bitwise the same weights after a number of steps, in each precision.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
need_fashion

a=$(program fashion_mlp)
b=$(program fashion_loop)
quietly "$a" --seed 3 --max-steps 40 --out "$tmp/trainer"
quietly "$b" --seed 3 --max-steps 40 --out "$tmp/loop"
same_weights "$tmp/trainer" "$tmp/loop" "trainer block and explicit loop"
quietly "$b" --seed 3 --max-steps 40 --threads 1 --out "$tmp/loop1"
same_weights "$tmp/trainer" "$tmp/loop1" "explicit loop on one thread"

# The loop that --emit=loop prints is a program of the language, and the same one.
"$mpc" "$examples/digits.mpt" --emit=loop >"$tmp/printed.mpt"
grep -q 'trainer *{' "$tmp/printed.mpt" && fail "--emit=loop still has a trainer block"
quietly "$mpc" "$tmp/printed.mpt" -o "$tmp/printed"
quietly "$tmp/printed" --seed 3 --epochs 3 --data "$examples" --out "$tmp/printed_run"
quietly "$(program digits)" --seed 3 --epochs 3 --out "$tmp/digits_run"
same_weights "$tmp/digits_run" "$tmp/printed_run" "what --emit=loop prints"
finish
