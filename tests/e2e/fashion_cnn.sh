#!/usr/bin/env bash
# fashion_cnn.sh: the convolutional network on Fashion-MNIST learns: 40 of its 2,345 updates are enough for 0.7 of
# the test set, of which a guess gets 0.1.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
need_fashion

train=$(program fashion_cnn)
quietly "$train" --seed 1 --max-steps 40 --out "$tmp/run"
accuracy=$(field accuracy eval "$tmp/run" | tail -n 1)
holds "${accuracy:-0} >= 0.7" || fail "accuracy ${accuracy:-missing}, expected 0.7"
finish
