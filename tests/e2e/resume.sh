#!/usr/bin/env bash
# resume.sh: runs that are killed at any moment, also while a checkpoint is written, and continued until they
# are finished, end with the weights of an unbroken run, bit for bit; what else --resume promises.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/kill_lib.sh"
RANDOM=7

# A loop with counters of its own, nested conditions, an evaluation in the middle of a pass, a second loop
# inside and one behind.
cat >"$tmp/loop.mpt" <<'END'
option lr = 0.05
option epochs = 4
data train_set = csv("data/digits_train.csv")
                 -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: u8)
data test_set  = csv("data/digits_validation.csv")
                 -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: u8)
module Net() {
    fc1  = Linear(64, 32)
    drop = Dropout(0.2)
    fc2  = Linear(32, 10)
    forward(x) { return fc2(drop(relu(fc1(x / 16)))) }
}
model     = Net()
optimizer = SGD(model, lr = lr, momentum = 0.9)
scheduler = StepLR(optimizer, step_size = 30)
train     = loader(train_set, batch_size = 32, shuffle = true)
few       = loader(test_set, batch_size = 64, shuffle = true)
best      = 1e9
seen      = 0
quiet     = false

for round in 0..epochs {
    for part in 0..2 {
        if part == 0 {
            for batch in train {
                loss = cross_entropy(model(batch.image), batch.label)
                backward(loss)
                optimizer.step()
                zero_grad(optimizer)
                scheduler.step()
                seen = seen + 1
                if seen % 17 == 0 {
                    test_loss = evaluate(test_set, batch_size = 128) {
                        cross_entropy(model(batch.image), batch.label)
                    }
                    if test_loss < best {
                        best = test_loss
                        save("best")
                    } else {
                        quiet = not quiet
                    }
                }
                if round == 2 and seen % 45 == 40 { break }
                log(loss, best)
            }
        } else {
            for batch in few {
                loss = cross_entropy(model(batch.image), batch.label)
                backward(loss)
                optimizer.step()
                zero_grad(optimizer)
                if quiet { continue }
                log(loss)
            }
        }
    }
}
END
quietly "$mpc" -O1 "$tmp/loop.mpt" -o "$tmp/loop"

# The same model with a loop over batches inside another one.
sed '/^for round/,$d' "$tmp/loop.mpt" >"$tmp/nested.mpt"
cat >>"$tmp/nested.mpt" <<'END'
for round in 0..2 {
    for batch in train {
        for inner in few {
            loss = cross_entropy(model(inner.image), inner.label)
            backward(loss)
            optimizer.step()
            zero_grad(optimizer)
            seen = seen + 1
            if seen % 5 == 0 { break }
        }
        loss = cross_entropy(model(batch.image), batch.label)
        backward(loss)
        optimizer.step()
        zero_grad(optimizer)
        log(loss)
    }
}
END
quietly "$mpc" -O1 "$tmp/nested.mpt" -o "$tmp/nested"

digits=$(program digits)
killed loop 20 "$tmp/loop" --data "$examples" --threads 1
killed nested 10 "$tmp/nested" --data "$examples" --threads 1
killed trainer 15 "$digits" --epochs 5 --threads 2

# SIGTERM: a checkpoint first, status 143; then what remains.
for at in 0.02 0.1 0.25; do
    rm -rf "$tmp/term"
    status=0
    timeout --preserve-status -s TERM $at "$digits" --epochs 5 --out "$tmp/term" >"$tmp/said" 2>&1 || status=$?
    ((status == 143 || status == 0)) || fail "SIGTERM after $at s: status $status"
    run 0 'continues|finished|no checkpoint' "$digits" --resume --epochs 5 --out "$tmp/term"
    same_weights "$tmp/whole_trainer" "$tmp/term" "SIGTERM after $at s"
done

# A finished run; another option; another model; two at once.
run 0 'is finished \(step 225\)' "$digits" --resume "$tmp/term"
run 2 'lr is 0.5, the run has 0.002' "$digits" --resume "$tmp/term" --lr 0.5 --epochs 9
quietly "$mpc" -O0 "$tmp/loop.mpt" -o "$tmp/other" # to be refused before it trains
run 1 "another model: (it has no tensor '|'[^']+' has the shape |it has a tensor ')" "$tmp/other" --resume "$tmp/term" --data "$examples" --epochs 9
"$digits" --epochs 100000 --out "$tmp/long" >/dev/null 2>&1 &
long=$!
for ((i = 0; i < 100; i++)); do
    [[ -s $tmp/long/.lock ]] && break
    sleep 0.05
done
run 1 "in use by another run, process $long" "$digits" --resume --out "$tmp/long"
run 1 "in use by another run, process $long" "$digits" --out "$tmp/long"
kill -KILL "$long"
wait "$long" 2>/dev/null || true

# Disk full in mid-run: the last checkpoint stays, and leads to the end.
quietly "$digits" --epochs 5 --max-steps 20 --out "$tmp/full"
(
    ulimit -f 40
    run 1 'cannot write .*File too large' "$digits" --resume --epochs 5 --max-steps 100 \
        --checkpoint-every 10 --out "$tmp/full"
)
run 0 'continues' "$digits" --resume --epochs 5 --max-steps 1000 --out "$tmp/full"
same_weights "$tmp/whole_trainer" "$tmp/full" "a full disk"
finish
