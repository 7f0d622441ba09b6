#!/usr/bin/env bash
# evaluation_strategy was renamed eval_strategy, and tutorials break. Both spellings work, the old one
# with a note; other keys have a nearest name.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 16 'rand(), rand(), i % 2'
# trainer KEYS
trainer() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)
module Net() { fc = Linear(2, 2); forward(x) { return fc(x) } }
trainer {
    model = Net()
    train_dataset = rows
    eval_dataset = rows
    compute_metrics = [accuracy]
    num_train_epochs = 2
$1
}
END
}
for value in epoch steps no; do
    more=
    [[ $value == steps ]] && more=$'\n    eval_steps = 1'
    trainer "    evaluation_strategy = \"$value\"$more" >old.mpt
    trainer "    eval_strategy = \"$value\"$more" >new.mpt
    for which in old new; do
        quietly "$mpc" $which.mpt -O0 --cpu=generic -o $which
        cp quiet $which.notes
        "$mpc" $which.mpt --emit=loop >$which.loop 2>/dev/null
    done
    grep -qE "^old\.mpt:9:[0-9]+: .*evaluation_strategy.*eval_strategy" old.notes || fail "$value: no note about the old name"
    [[ ! -s new.notes ]] || fail "$value: something is said about the new name: $(head -n 1 new.notes)"
    cmp -s old.loop new.loop || fail "$value: the spellings make different loops"
    train old
    train new
    same_weights old_run new_run "$value: the spellings"
    want=$(case $value in epoch) echo 2 ;; steps) echo 4 ;; no) echo 0 ;; esac)
    same "$(grep -c '"event": *"eval"' old_run/log.jsonl)" "$want" "$value: evaluations"
    rm -rf old_run new_run
done
trainer '    per_gpu_train_batch_size = 4' >gpu.mpt
run 0 'gpu\.mpt:9:.*per_device_train_batch_size' "$mpc" gpu.mpt --emit=loop
trainer '    evaluation_stratgy = "epoch"' | refused typo 'error.*evaluation_stratgy'
grep -qE "did you mean .*eval(uation)?_strategy" said || fail "no nearest name"
trainer '    eval_strategy = "epochs"' | refused choice 'error: eval_strategy is one of'
trainer $'    evaluation_strategy = "epoch"\n    eval_strategy = "no"' | refused both 'error.*eval'
finish
