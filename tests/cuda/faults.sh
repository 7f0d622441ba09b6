#!/usr/bin/env bash
# faults.sh: errors of the driver in the middle of a run end it with a message that names step, kernel and line, status 1
# and the last checkpoint intact; whichever call of the driver fails, nothing worse happens.
source "$(dirname "${BASH_SOURCE[0]}")/cuda_lib.sh"
cd "$tmp"
write_model
quietly "$mpc" net.mpt -O0 --cpu=generic --target=cpu+cuda --gpu=sm_80 -o net
export MPC_CUDA_LIB=$twin
quietly env TWIN_COUNTS="$tmp/counts" ./net --out whole --log none

run 1 'step 1: the GPU failed in [a-z0-9_]* \(line [0-9]+: .*\): an illegal memory access' \
    env TWIN_FAIL=cuLaunchKernel:9 ./net --out bad --log none
rm -rf bad
run 1 'step [0-9]+: the GPU failed in step.* \(line [0-9]+\): an illegal memory access' \
    env TWIN_FAIL=cuGraphLaunch:6 ./net --out bad --log none
rm -rf bad
run 1 'smaller batch' env TWIN_FAIL=cuGraphInstantiateWithFlags:1:2 ./net --out bad --log none

# Between two checkpoints: the first one is whole, and continuing from it gives the unbroken run's weights.
rm -rf bad
run 1 'step 1[0-9]: the GPU failed' env TWIN_FAIL=cuGraphLaunch:11 ./net --out bad --checkpoint-every 4 --log none
grep '"event":"end"' bad/log.jsonl | grep 'the GPU failed' >/dev/null || fail "the log does not say how the run ended"
quietly ./net --out bad --resume --log none
same_weights whole bad "continued behind a fault of the GPU"

# Every function of the driver, its first call and one in the middle: a sentence, or the CPU instead; never a crash.
while read -r name calls; do
    [[ $name == cu* && $name != cuGetErrorString ]] && ((calls > 0)) || continue
    for at in 1 $(((calls + 1) / 2)); do
        status=0
        TWIN_FAIL=$name:$at timeout 60 ./net --out any --log none >said 2>&1 || status=$?
        ((status == 0 || status == 1)) || fail "$name failing at call $at: status $status: $(tail -n 3 said)"
        if ((status == 1)); then
            grep -E 'error: .*(GPU|stand-in|driver)' said >/dev/null || fail "$name at call $at: $(tail -n 3 said)"
        else
            grep -E 'note: on (the CPU: |cuda:0)' said >/dev/null || fail "$name at call $at is not told"
        fi
        rm -rf any
    done
done <counts
finish
