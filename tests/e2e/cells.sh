#!/usr/bin/env bash
# cells.sh: a convolutional network on blood cells, with augmentation: 3 of its 12 epochs are enough for a test
# accuracy of 0.97. A short schedule, so the whole of it is run through.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

train=$(program cells)
quietly "$train" --seed 1 --epochs 3 --out "$tmp/run"
accuracy=$(field accuracy eval "$tmp/run" | tail -n 1)
holds "${accuracy:-0} >= 0.97" || fail "accuracy ${accuracy:-missing}, expected 0.97"
finish
