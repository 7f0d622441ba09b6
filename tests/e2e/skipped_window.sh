#!/usr/bin/env bash
# skipped_window.sh: an update over four batches that is skipped because of one of them leaves no trace, also not
# of what the forwards of all four wrote: batch norm's statistics and its count. So it is behind a checkpoint
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
scaler    = GradScaler(init_scale = 1024)
train     = loader(table, batch_size = 4)

for epoch in 0..epochs {
    for i, batch in enumerate(train) {
        with autocast(f16) {
            loss = cross_entropy(model(batch.x), batch.label)
        }
        backward(scaler.scale(loss), average = true)
        if (i + 1) % 4 == 0 {
            scaler.step(optimizer)
            scaler.update()
            zero_grad(optimizer)
            log(loss)
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

# tensors FILE: name, first and last byte of each, by name.
tensors() {
    local head
    head=$(od -A n -t u8 -N 8 "$1")
    tail -c +9 "$1" | head -c "$head" | grep -oE '"[^"]+":\{"dtype":[^}]*\}' |
        sed -E 's/^"([^"]+)".*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2 \3/' | sort |
        awk -v at=$((8 + head)) '{ print $1, at + $2, at + $3 }'
}

# changed A B: the names of the tensors whose bits differ.
changed() {
    paste -d' ' <(tensors "$1") <(tensors "$2") | while read -r name from to other from2 to2; do
        [[ $name == "$other" && $((to - from)) == $((to2 - from2)) ]] || fail "$name and $other"
        cmp -s -n $((to - from)) -i "$from:$from2" "$1" "$2" || echo "$name"
    done
}

table 22 >"$tmp/table.csv" # the second batch of the second window
quietly "$mpc" -O1 --verify-passes "$tmp/net.mpt" -o "$tmp/net"
quietly "$tmp/net" --checkpoint-every 1 --max-steps 2 --out "$tmp/two"
[[ $(field skips end "$tmp/two") == 1 ]] || fail "the second update is not skipped"
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
