#!/usr/bin/env bash
# resume_trainer.sh: a trainer with all that a run remembers (windows of accumulated gradients, BatchNorm, an
# average of the weights, a schedule that follows a metric, the best weights, patience, evaluations in the middle of an epoch) is killed at
# any moment and continued: the weights and the records of an unbroken run, bit for bit. And what the loop that
# --emit=loop prints gives, what --init takes, what a folder that cannot be written costs.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/kill_lib.sh"
RANDOM=11

cat >"$tmp/all.mpt" <<'END'
option patience = 3
option limit    = 600
data train_set = csv("digits_train.csv")
                 -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: u8)
data test_set  = csv("digits_validation.csv")
                 -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: u8)
module Net() {
    conv = Conv2d(1, 4, 3, padding = 1)
    norm = BatchNorm2d(4)
    fc   = Linear(256, 10)
    forward(x) {
        return fc(flatten(relu(norm(conv(x.reshape(-1, 1, 8, 8) / 16))), 1))
    }
}
trainer {
    model                       = Net()
    train_dataset               = train_set
    eval_dataset                = test_set
    compute_metrics             = [accuracy, f1]
    num_train_epochs            = 16
    per_device_train_batch_size = 64
    gradient_accumulation_steps = 3
    optim                       = "sgd"
    momentum                    = 0.9
    learning_rate               = 0.3
    lr_scheduler_type           = "reduce_lr_on_plateau"
    lr_patience                 = 0
    lr_gamma                    = 0.5
    lr_cooldown                 = 1
    eval_strategy               = "steps"
    eval_steps                  = 5
    eval_on_start               = true
    logging_steps               = 3
    metric_for_best_model       = "f1"
    load_best_model_at_end      = true
    early_stopping_patience     = patience
    early_stopping_threshold    = 0.002
    max_time                    = limit
    ema_decay                   = 0.5
    ema_warmup                  = true
    save_total_limit            = 3
}
END
quietly "$mpc" -O1 --cpu=generic "$tmp/all.mpt" -o "$tmp/all"
most=4 killed all 15 "$tmp/all" --data "$examples/data" --threads 2

# What happened in it is what the keys say: an early end, rates that fell, the best weights at the end.
run=$tmp/whole_all
[[ $(field lr step "$run" | sort -u | wc -l) -ge 2 ]] || fail "the rate never fell: the test shows nothing"
[[ $(field step eval "$run" | head -n 1) == 0 ]] || fail "no evaluation before the first update"
cmp -s "$run/best.safetensors" "$run/model.safetensors" || fail "the weights at the end are not the best ones"
field f1 eval "$run" | awk 'NR == 1 { next } # the one at the start counts for nothing
    { if (NR == 2 || ($1 > best && $1 - best > 0.002)) waited = 0; else waited++
      if (NR == 2 || $1 > best) best = $1
      if (done) { print "went on for " ++more > "/dev/stderr"; exit 1 }
      done = waited >= 3 }
    END { if (!done) exit 1 }' || fail "the early end is not where Hugging Face's callback has it"

# The printed loop is the same program; --max-steps and --max-time end it, too.
"$mpc" "$tmp/all.mpt" --emit=loop >"$tmp/printed.mpt"
quietly "$mpc" -O1 --cpu=generic "$tmp/printed.mpt" -o "$tmp/printed"
quietly "$tmp/printed" --data "$examples/data" --out "$tmp/printed_run"
same_weights "$run" "$tmp/printed_run" "what --emit=loop prints"
diff <(records "$run") <(records "$tmp/printed_run") >"$tmp/diff" || fail "what it logs: $(head -n 4 "$tmp/diff")"
quietly "$tmp/all" --data "$examples/data" --limit 0 --out "$tmp/late"
[[ $(field steps end "$tmp/late") == 1 ]] || fail "max_time 0 ends after $(field steps end "$tmp/late") updates"

# Weights of a checkpoint as initial ones, in a run of its own; at 2 kept, the newest 2 are there.
quietly "$tmp/all" --data "$examples/data" --max-steps 12 --checkpoint-every 3 --keep-checkpoints 2 --out "$tmp/short"
[[ $(echo "$tmp"/short/checkpoints/step-*) == *step-11*step-12 ]] || fail "kept: $(ls "$tmp/short/checkpoints")"
quietly "$tmp/all" --data "$examples/data" --max-steps 1 --init "$tmp/short/checkpoints/step-12/state.safetensors" \
    --out "$tmp/from"
run 0 'f1=' "$tmp/all" --data "$examples/data" --eval --init "$tmp/short/checkpoints/step-12/state.safetensors"
first=$(grep -m 1 '"event":"eval"' "$tmp/from/log.jsonl" | sed -E 's/.*"f1":([^,]*).*/\1/')
grep -F "f1=$(printf '%.6g' "$first")" "$tmp/said" >/dev/null || fail "--init: other weights: $first, not $(cat "$tmp/said")"
run 0 '' "$tmp/all" --data "$examples/data" --checkpoint-every never --max-steps 20 --out "$tmp/never"
ls "$tmp"/never/checkpoints/step-* >/dev/null 2>&1 && fail "checkpoints in spite of never"

# SIGTERM near the end, when the best weights are taken back: a checkpoint or the end, then what remains.
took=$(field seconds end "$run")
for share in 0.8 0.9 0.97; do
    rm -rf "$tmp/term"
    status=0
    timeout --preserve-status -s TERM "$(awk "BEGIN { print $took * $share }")" \
        "$tmp/all" --data "$examples/data" --out "$tmp/term" >"$tmp/said" 2>&1 || status=$?
    ((status == 143 || status == 0)) || fail "SIGTERM after $share of a run: status $status: $(cat "$tmp/said")"
    run 0 'continues|finished' "$tmp/all" --data "$examples/data" --resume "$tmp/term" --out "$tmp/term"
    same_weights "$run" "$tmp/term" "SIGTERM after $share of a run"
done

# In another folder the best weights come along.
quietly "$tmp/all" --data "$examples/data" --resume "$tmp/short" --max-steps 100000 --out "$tmp/elsewhere"
same_weights "$run" "$tmp/elsewhere" "continued in another folder"

# A folder that cannot be written any more: said, status 1, the last checkpoint leads to the end.
if [[ $(id -u) == 0 ]]; then
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    "${as[@]}" true 2>/dev/null || as=()
    chmod 755 "$tmp"
else
    as=(env)
fi
if ((${#as[@]})); then
    quietly "$tmp/all" --data "$examples/data" --max-steps 6 --checkpoint-every 3 --out "$tmp/shut"
    [[ ${as[0]} == env ]] || chown -R 65534 "$tmp/shut"
    chmod a-w "$tmp/shut/checkpoints"
    run 1 "cannot .*shut/checkpoints" "${as[@]}" "$tmp/all" --data "$examples/data" --max-steps 100000 \
        --checkpoint-every 3 --resume "$tmp/shut"
    chmod u+w "$tmp/shut/checkpoints"
    run 0 'continues' "${as[@]}" "$tmp/all" --data "$examples/data" --max-steps 100000 --resume "$tmp/shut"
    same_weights "$run" "$tmp/shut" "after a folder that was shut"
fi
finish
