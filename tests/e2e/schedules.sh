#!/usr/bin/env bash
# schedules.sh: learning rates of a run, as the log has them, are those that PyTorch gives for the same
# arguments: each argument reaches the program, whichever way the file says it.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

# rates NAME SCHEDULER RATE...: the rates of the first updates under that scheduler of a rate of 1, which steps by
# $metric.
rates() {
    local name=$1 scheduler=$2 got
    shift 2
    cat >"$tmp/$name.mpt" <<END
option first = 2
data train_set = csv("digits_train.csv") -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: u8)
module Net() {
    fc = Linear(64, 10)
    forward(x) { return fc(x) }
}
model     = Net()
optimizer = SGD(model, lr = 1.0)
scheduler = $scheduler
n         = 0
for batch in loader(train_set, batch_size = 128) {
    loss = cross_entropy(model(batch.image), batch.label)
    backward(loss)
    optimizer.step()
    n += 1
    scheduler.step(${metric:-})
    zero_grad(optimizer)
    log(loss)
}
END
    quietly "$mpc" -O0 "$tmp/$name.mpt" -o "$tmp/$name"
    quietly "$tmp/$name" --data "$examples/data" --out "$tmp/${name}_run" --max-steps $#
    got=$(field lr step "$tmp/${name}_run" | tr '\n' ' ')
    [[ ${got% } == "$*" ]] || fail "$scheduler: rates $got, not $*"
}

rates milestones 'MultiStepLR(optimizer, milestones = [2, 3, 5], gamma = 0.5)' 1 1 0.5 0.25 0.25 0.125
rates one_milestone 'MultiStepLR(optimizer, [4], 0.25)' 1 1 1 1 0.25 0.25
rates option 'MultiStepLR(optimizer, milestones = [first, 2 * first], gamma = 0.5)' 1 1 0.5 0.5 0.25 0.25
rates step 'StepLR(optimizer, gamma = 0.5, step_size = first)' 1 1 0.5 0.5 0.25 0.25
rates constant 'ConstantLR(optimizer, factor = 0.5, total_iters = 3)' 0.5 0.5 0.5 1 1 1
rates polynomial 'PolynomialLR(optimizer, power = 2, total_iters = 4)' 1 0.5625 0.25 0.0625 0 0
rates warmup 'get_scheduler("linear", optimizer, num_warmup_steps = 4, num_training_steps = 8)' 0 0.25 0.5 0.75 1 0.75
rates stable 'get_scheduler("warmup_stable_decay", optimizer, num_warmup_steps = first, num_training_steps = 8, num_decay_steps = 4, decay_type = "linear", min_lr_ratio = 0.5)' \
    0.5 0.75 1 1 1 0.875 0.75 0.625 0.5
rates wsd 'get_wsd_schedule(optimizer, 1, 2, num_stable_steps = 1)' 0 1 1 0.5 0 0
# 1, 1/2, 1/3, 1/3 ...: better until the third; then one bad one is suffered, the next is answered, and again.
metric='1.0 / min(n, 3)'
rates plateau 'ReduceLROnPlateau(optimizer, factor = 0.5, patience = 1, min_lr = 0.2)' 1 1 1 1 1 0.5 0.5 0.25 0.25 0.2
metric='0.0 - n'
rates plateau_max 'ReduceLROnPlateau(optimizer, mode = "max", factor = 0.5, patience = 0, cooldown = 1)' 1 1 0.5 0.5 0.25 0.25
metric=
sed 's/scheduler.step(.*)/scheduler.step()/' "$tmp/plateau.mpt" >"$tmp/bad.mpt"
run 2 'follows a metric: scheduler.step\(loss\)' "$mpc" "$tmp/bad.mpt" -o "$tmp/bad"
finish
