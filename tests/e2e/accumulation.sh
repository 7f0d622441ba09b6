#!/usr/bin/env bash
# accumulation.sh: gradients of several batches in one update. Four batches of 32, averaged over their
# samples, are one batch of 128 within the rounding of f32, also where the last window and its last
# batch are short; a window in which a gradient overflows leaves no trace; the passes keep the meaning.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

# made NAME SED-COMMAND EPOCHS: accumulation.mpt, changed, compiled and run.
made() {
    sed "$2; s/0\.\.2/0..$3/" "$src/tests/e2e/accumulation.mpt" >"$tmp/$1.mpt"
    quietly "$mpc" -O1 --verify-passes "$tmp/$1.mpt" -o "$tmp/$1"
    quietly "$tmp/$1" --seed 1 --data "$examples/data" --out "$tmp/$1_run"
}

# numbers RUN: the weights, in the order of the file.
numbers() {
    local file=$1/model.safetensors head
    head=$(od -A n -t u8 -N 8 "$file")
    od -A n -v -t f4 -j $((8 + head)) -w4 "$file"
}

# worst_of NAME NAME: the largest difference of their weights.
worst_of() {
    paste <(numbers "$tmp/$1_run") <(numbers "$tmp/$2_run") |
        awk '{ d = $1 - $2; d = d < 0 ? -d : d; worst = d > worst ? d : worst } END { print worst + 0 }'
}

f32='s/autocast(f16)/precision(f32)/; s/GradScaler()/GradScaler(enabled = false)/'
made small "$f32" 2
made big "$f32; s/batch_size = 32/batch_size = 128/; s/ % 4 == 0/ % 1 == 0/" 2
[[ $(field steps end "$tmp/small_run") == 24 ]] || fail "1412 samples in windows of 128 are 12 updates an epoch"
worst=$(worst_of small big)
holds "$worst < 1e-6" || fail "4 batches of 32 and one of 128: weights differ by $worst"
cmp -s "$tmp/small_run/model.safetensors" "$tmp/big_run/model.safetensors" &&
    fail "nothing was accumulated: the sums of 4 x 32 and 128 have the same bits"

# Clipping element by element is of the mean of the window, too.
clipped='s/clip_grad_norm(model, 1.0)/clip_grad_value(model, 0.002)/'
made clip_small "$f32; $clipped" 1
made clip_big "$f32; $clipped; s/batch_size = 32/batch_size = 128/; s/ % 4 == 0/ % 1 == 0/" 1
quietly "$tmp/small" --seed 1 --epochs 1 --data "$examples/data" --out "$tmp/small_run"
worst=$(worst_of clip_small clip_big)
holds "$worst < 1e-6" || fail "clip_grad_value, 4 batches of 32 and one of 128: weights differ by $worst"
holds "$(worst_of clip_small small) > 1e-3" || fail "clip_grad_value clips nothing: the test shows nothing"

# Every window overflows: one and two epochs end with the first weights, and each halves the scale once.
high='s/GradScaler()/GradScaler(init_scale = 1099511627776.0, scale_max = 1e13)/'
made one "$high; s/ % 4 == 0/ % 64 == 0/" 1
made two "$high; s/ % 4 == 0/ % 64 == 0/" 2
[[ $(field skips end "$tmp/two_run") == 2 ]] || fail "two windows that overflow are two skips"
same_weights "$tmp/one_run" "$tmp/two_run" "one and two skipped windows"

# A trainer block with 4 batches an update is that loop.
made loop 's/SGD(model, lr = 0.1, momentum = 0.9)/AdamW(model, lr = 0.01, weight_decay = 0.0)/' 2
{
    sed -n '1,/^}$/p' "$src/tests/e2e/accumulation.mpt"
    sed -n '/^module/,/^}$/p' "$src/tests/e2e/accumulation.mpt"
    cat <<'END'
trainer {
    model                       = Mlp()
    train_dataset               = train_set
    shuffle                     = false
    num_train_epochs            = 2
    per_device_train_batch_size = 32
    gradient_accumulation_steps = 4
    learning_rate               = 0.01
    lr_scheduler_type           = "constant"
    fp16                        = true
}
END
} >"$tmp/trainer.mpt"
made_of() {
    quietly "$mpc" -O1 --verify-passes "$tmp/$1.mpt" -o "$tmp/$1"
    quietly "$tmp/$1" --seed 1 --data "$examples/data" --out "$tmp/$1_run"
}
made_of trainer
same_weights "$tmp/loop_run" "$tmp/trainer_run" "trainer block and explicit loop, 4 batches an update"
"$mpc" "$tmp/trainer.mpt" --emit=loop >"$tmp/printed.mpt"
made_of printed
same_weights "$tmp/loop_run" "$tmp/printed_run" "what --emit=loop prints"
finish
