#!/usr/bin/env bash
# fashion.sh: the main job. Fashion-MNIST by the trainer form: accuracy at least 0.88 on the test
# set, and the three precisions agree within 0.7 points (means of three seeds).
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
need_fashion

for precision in f32 fp16 bf16; do
    train=$(program fashion_mlp --precision=$precision)
    sum=0
    for seed in 1 2 3; do
        quietly "$train" --seed $seed --out "$tmp/$precision$seed"
        accuracy=$(field accuracy eval "$tmp/$precision$seed" | tail -n 1)
        echo "$precision, seed $seed: accuracy ${accuracy:-missing}," \
            "$(field seconds end "$tmp/$precision$seed") s, $(field skips end "$tmp/$precision$seed") skips"
        holds "${accuracy:-0} >= 0.88" || fail "$precision, seed $seed: accuracy ${accuracy:-missing}"
        sum=$(awk "BEGIN { print $sum + ${accuracy:-0} }")
    done
    awk "BEGIN { printf \"%.5f\\n\", $sum / 3 }" >>"$tmp/means"
done
spread=$(sort -g "$tmp/means" | awk 'NR == 1 { low = $1 } { high = $1 } END { print high - low }')
echo "means of the three precisions: $(tr '\n' ' ' <"$tmp/means"), spread $spread"
holds "$spread <= 0.007" || fail "the precisions differ by $spread"
finish
