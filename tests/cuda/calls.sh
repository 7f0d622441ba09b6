#!/usr/bin/env bash
# calls.sh: what a step costs in calls of the driver: one launch of a graph once it was seen, one copy
# of the batch, no launch of a kernel.
source "$(dirname "${BASH_SOURCE[0]}")/cuda_lib.sh"
cd "$tmp"
write_model
quietly "$mpc" net.mpt -O0 --cpu=generic --target=cuda -o net
export MPC_CUDA_LIB=$twin

# calls EPOCHS: how often each function is called in that many epochs of 8 batches.
calls() {
    quietly env TWIN_COUNTS="$tmp/counts.$1" ./net --epochs "$1" --out "of_$1" --log none --checkpoint-every never
}
calls 4
calls 8
# of NAME: calls in 32 steps that were seen before
of() {
    echo $(($(sed -n "s/^$1 //p" counts.8) - $(sed -n "s/^$1 //p" counts.4)))
}
[[ $(of cuMemcpyHtoDAsync) == 32 ]] || fail "$(of cuMemcpyHtoDAsync) copies in for 32 batches"
[[ $(of cuGraphLaunch) == 32 ]] || fail "$(of cuGraphLaunch) launches of graphs in 32 steps"
for name in cuLaunchKernel cuMemAlloc cuMemHostAlloc cuModuleLoadData cuStreamBeginCapture cuMemcpyDtoH \
    cuMemcpyHtoD cuMemcpyDtoHAsync cuGraphInstantiateWithFlags; do
    [[ $(of $name) == 0 ]] || fail "$(of $name) calls of $name in 32 steps"
done
(($(of kernels) > 32 * 5)) || fail "the graphs run $(of kernels) kernels in 32 steps"
finish
