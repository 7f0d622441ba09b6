#!/usr/bin/env bash
# skipped_window.sh: an update over four batches that is skipped because of one of them leaves no trace, also not
# of what the forwards of all four wrote, batch norm's statistics and its count, nor of the average of the weights. So it is behind a checkpoint
# in the middle of a window.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
RANDOM=11

cat >"$tmp/net.mpt" <<'END'
option epochs = 2000
data table = csv("table.csv") -> (x: f32[64] = columns("x0".."x63"), label: u8)

module Net() {
    conv = Conv2d(1, 4, 3, padding = 1)
    norm = BatchNorm2d(4)
    fc   = Linear(4, 3)
    forward(x) {
        return fc(mean(relu(norm(conv(x.reshape(-1, 1, 8, 8)))), dim = [2, 3]))
    }
}

model     = Net()
optimizer = Adam(model, lr = 0.01)
ema       = EMA(model, decay = 0.9, warmup = true)
scaler    = GradScaler(init_scale = 1024)
train     = loader(table, batch_size = 4)
missed    = 0

for epoch in 0..epochs {
    for i, batch in enumerate(train) {
        with autocast(f16) {
            loss = cross_entropy(model(batch.x), batch.label)
        }
        backward(scaler.scale(loss), average = true)
        if (i + 1) % 4 == 0 {
            scaler.step(optimizer)
            scaler.update()
            ema.update()
            zero_grad(optimizer)
            log(loss)
            if step_was_skipped() { missed += 1 }
        }
    }
}
END

# table [SAMPLE]: three windows; a pixel of one sample is infinite in f16.
table() {
    awk -v bad="${1:--1}" 'BEGIN {
        for (i = 0; i < 64; i++) printf "x%d,", i
        print "label"
        for (r = 0; r < 48; r++) {
            for (i = 0; i < 64; i++) printf "%s,", r == bad && i == 5 ? 1e30 : (r * 37 + i * i * 11) % 101 / 101
            print r % 3
        }
    }'
}

table 22 >"$tmp/table.csv" # the second batch of the second window
quietly "$mpc" -O1 --verify-passes "$tmp/net.mpt" -o "$tmp/net"
quietly "$tmp/net" --checkpoint-every 1 --max-steps 2 --out "$tmp/two"
[[ $(field skips end "$tmp/two") == 1 ]] || fail "the second update is not skipped"
for step in 1 2; do
    grep "\"missed\":{\"type\":\"int\",\"value\":$((step - 1))}" "$tmp/two/checkpoints/step-$step/host.json" >/dev/null ||
        fail "step_was_skipped() is wrong behind update $step"
done
steps=$tmp/two/checkpoints
changed "$steps/step-1/state.safetensors" "$steps/step-2/state.safetensors" >"$tmp/changed"
grep -vE '^scaler\.|\.grad$|\.before$|^accumulated\.weight$' "$tmp/changed" >"$tmp/traces" &&
    fail "a skipped update changes $(tr '\n' ' ' <"$tmp/traces")"
grep -x 'scaler.scale' "$tmp/changed" >/dev/null || fail "the skip does not change the scale"
tensors "$steps/step-2/state.safetensors" | grep '^norm.num_batches_tracked ' >/dev/null ||
    fail "the checkpoint has no count of batches"
quietly "$tmp/net" --max-steps 2 --data "$tmp" --out "$tmp/again"
same_weights "$tmp/two" "$tmp/again" "checkpoints or none"

# Without the bad sample the second window does write all of them.
mkdir "$tmp/good"
table >"$tmp/good/table.csv"
quietly "$tmp/net" --data "$tmp/good" --checkpoint-every 1 --max-steps 2 --out "$tmp/applied"
steps=$tmp/applied/checkpoints
changed "$steps/step-1/state.safetensors" "$steps/step-2/state.safetensors" >"$tmp/changed"
for name in running_mean running_var num_batches_tracked weight; do
    grep -x "norm.$name" "$tmp/changed" >/dev/null || fail "an update does not change norm.$name"
done

# The average moves once a window: the first update copies, the second keeps 2/11.
[[ $(integer "$steps/step-2/state.safetensors" ema.updates) == 2 ]] || fail "an average moves other than once an update"
[[ $(integer "$tmp/two/checkpoints/step-2/state.safetensors" ema.updates) == 1 ]] || fail "a skipped update counts"
paste <(floats "$steps/step-1/state.safetensors" fc.weight) <(floats "$steps/step-2/state.safetensors" fc.weight) \
    <(floats "$steps/step-2/state.safetensors" ema.fc.weight) |
    awk '{ d = $1 + 9 / 11 * ($2 - $1) - $3; n++; bad += d * d > 1e-13 } END { exit !(n == 12 && !bad) }' ||
    fail "the second average is not 2/11 of the first weights and 9/11 of the second"

# Interrupted wherever it is, mostly within a window, and continued.
inside=0
quietly "$tmp/net" --log none --out "$tmp/whole"
for ((i = 0; i < 60 && inside < 4; i++)); do
    timeout --preserve-status -s TERM "0.0$((RANDOM % 60 + 20))" \
        "$tmp/net" --log none --resume --out "$tmp/parts" >"$tmp/said" 2>&1 && break
    cat "$tmp"/parts/checkpoints/step-*/host.json 2>/dev/null | tail -n 1 |
        grep '"no_gradients":{"type":"bool","value":false}' >/dev/null && inside=$((inside + 1))
done
((inside)) || fail "no checkpoint was in the middle of a window"
quietly "$tmp/net" --log none --resume --out "$tmp/parts"
same_weights "$tmp/whole" "$tmp/parts" "interrupted and continued"
finish
