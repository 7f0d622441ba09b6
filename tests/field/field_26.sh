#!/usr/bin/env bash
# A loss scale with a floor of 1 blocks models whose gradients overflow fp16 as they are. scale_min may
# be below 1, and such a model trains; with the default floor the run says what is wrong and stops.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,y 8 'i % 4 + 1, 1, 3 * (i % 4) + 3'
net() {
    echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), y: f32)'
    echo 'module Net() { fc1 = Linear(2, 8); fc2 = Linear(8, 1); forward(x) { return fc2(tanh(fc1(x)))[:, 0] } }'
}
# A loss of about 1e6 and more, whose gradients for the outputs are above 65504.
loss='loss = mse_loss(model(batch.x), batch.y) * 1e5'
epochs=40
for optimizer in 'SGD(model, lr = 1e-7)' 'Adam(model, lr = 0.02)'; do
    kind=${optimizer%%(*}
    { net; scaler_args='scale_min = 2 ** -14' loop "$optimizer" f16 "$loss"; } | compile low_$kind
    train low_$kind
    first=$(field loss step low_${kind}_run | head -n 1)
    holds "$first > 1e6" || fail "$kind: the loss begins at $first"
    holds "$(last loss step low_$kind) < 0.7 * $first" || fail "$kind: $first to $(last loss step low_$kind)"
    scale=$(last scale step low_$kind)
    holds "$scale < 1 && $scale >= 1 / 16384" || fail "$kind: the scale ends at $scale"
    # The floor itself is kept.
    { net; scaler_args='scale_min = 0.5, max_skips = 30' loop "$optimizer" f16 "$loss"; } | compile floor_$kind
    run 1 'skipped.*loss scale 0\.5' ./floor_$kind --out floor_${kind}_run --log none
    same "$(field scale_new overflow floor_${kind}_run | sort -g | head -n 1)" 0.5 "$kind: the lowest scale"
done
{ net; loop 'SGD(model, lr = 1e-7)' f16 "$loss"; } | compile default
run 1 '20 updates in a row were skipped.*loss scale 1: the gradient of fc1[.]weight is not finite [(]matmul, line [0-9]+[)]$' ./default --out default_run --log none
{ net; scaler_args='scale_min = 4, scale_max = 2' loop 'SGD(model, lr = 1e-7)' f16 "$loss"; } |
    refused swapped 'scale_min is greater than scale_max'
finish
