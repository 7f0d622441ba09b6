#!/usr/bin/env bash
# digits.sh: the first example learns: median validation accuracy of seeds 1, 2, 3 at least 0.96.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

train=$(program digits)
for seed in 1 2 3; do
    quietly "$train" --seed "$seed" --out "$tmp/$seed"
    for file in model.safetensors log.jsonl; do
        [[ -s $tmp/$seed/$file ]] || fail "the run left no $file"
    done
    field accuracy eval "$tmp/$seed" | tail -n 1
    echo "seed $seed: accuracy $(field accuracy eval "$tmp/$seed" | tail -n 1)," \
        "$(field seconds end "$tmp/$seed") s, first step $(field first_step_s end "$tmp/$seed") s" >&2
done >"$tmp/accuracies"
median=$(sort -g "$tmp/accuracies" | sed -n 2p)
holds "${median:-0} >= 0.96" || fail "median accuracy ${median:-missing}, expected 0.96"

# Two runs without --out leave two folders: a run never overwrites another.
cd "$tmp"
quietly "$train" --epochs 1
quietly "$train" --epochs 1
[[ -s runs/digits/model.safetensors && -s runs/digits-2/model.safetensors ]] ||
    fail "expected runs/digits and runs/digits-2, found: $(ls runs)"
finish
