#!/usr/bin/env bash
# devices.sh: one program, CPU or GPU: where there is no usable GPU it says why and gives the CPU program's bits; on a
# GPU it gives the same numbers within rounding, whatever the order of threads; runs move between the two.
source "$(dirname "${BASH_SOURCE[0]}")/cuda_lib.sh"
cd "$tmp"
write_model
quietly "$mpc" net.mpt -O0 --cpu=generic -o plain
quietly "$mpc" net.mpt -O0 --cpu=generic --target=cpu+cuda --gpu=sm_80,sm_90 -o both
quietly "$mpc" net.mpt -O0 --cpu=generic --target=cuda -o only
quietly ./plain --out of_plain --log none

# Nothing is linked, nothing is needed.
if command -v ldd >/dev/null; then
    ldd both >needed
    grep -iE 'cuda|nvrtc|nvidia' needed >/dev/null && fail "the program is linked to CUDA"
fi

# on_cpu REASON ENV...: trains on the CPU and says why; the weights are those of the CPU-only program.
on_cpu() {
    local reason=$1
    shift
    run 0 "note: on the CPU: .*$reason" env "$@" ./both --out of_cpu --log none
    same_weights of_plain of_cpu "on the CPU, $reason"
    rm -rf of_cpu
    run 1 "error: --device cuda: .*$reason" env "$@" ./both --device cuda --out of_cpu --log none
    run 1 "$reason" env "$@" ./only --out of_cpu --log none
    [[ ! -e of_cpu/model.safetensors ]] || fail "--device cuda trained on the CPU"
    rm -rf of_cpu
}
on_cpu 'no NVIDIA driver' MPC_CUDA_LIB="$tmp/nowhere.so"
on_cpu 'finds no GPU' MPC_CUDA_LIB="$twin" TWIN_DEVICES=0
on_cpu 'too old: it lacks cuGraphLaunch' MPC_CUDA_LIB="$twin" TWIN_LACKS=cuGraphLaunch
on_cpu 'compute capability 7.5' MPC_CUDA_LIB="$twin" TWIN_ARCH=sm_75
on_cpu 'the run takes .*has .* free' MPC_CUDA_LIB="$twin" TWIN_MEMORY=4096
on_cpu 'cannot be used: out of memory' MPC_CUDA_LIB="$twin" TWIN_FAIL=cuDevicePrimaryCtxRetain:1:2
on_cpu 'driver cannot be used' MPC_CUDA_LIB="$twin" TWIN_FAIL=cuInit:1:3
run 1 'no GPU 3' env MPC_CUDA_LIB="$twin" ./both --device cuda:3
run 2 'none of auto, cpu, cuda, cuda:N' ./both --device cuda:x
run 2 'for a GPU only' ./only --device cpu
run 2 'compiled for the CPU only' ./plain --device cuda
run 0 'device .*auto' ./both --print-config

# The GPU: any order of threads and blocks gives the same bits; a later architecture takes the code or the PTX.
export MPC_CUDA_LIB=$twin
quietly ./both --out of_forward --log none
[[ $(field device start of_forward) == cuda:0 ]] || fail "the log does not name the GPU"
for variant in TWIN_ORDER=reverse TWIN_ORDER=random TWIN_ARCH=sm_86 TWIN_ARCH=sm_90 TWIN_ARCH=sm_120 MPC_FORCE_PTX=1; do
    quietly env $variant ./both --out of_variant --log none
    same_weights of_forward of_variant "on the GPU with $variant"
    rm -rf of_variant
done
run 0 'on cuda:1' env TWIN_DEVICES=2 ./both --device cuda:1 --out of_second --log none
same_weights of_forward of_second "the second GPU"

# The same numbers as on the CPU: 16 steps in f16 of losses about 1.
paste <(field loss step of_plain) <(field loss step of_forward) >losses
[[ $(wc -l <losses) == 16 ]] || fail "$(wc -l <losses) steps, not 16"
awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 0.002 * $1) { print; bad = 1 } } END { exit bad }' losses ||
    fail "the losses differ between CPU and GPU"

# A checkpoint of one goes on on the other.
for turn in "cuda cpu" "cpu cuda"; do
    read -r first then <<<"$turn"
    quietly ./both --device $first --out moved --epochs 1 --log none
    quietly ./both --device $then --out moved --resume --epochs 2 --log none
    [[ $(field steps end moved | tail -n 1) == 16 ]] || fail "from $first to $then: $(field steps end moved)"
    rm -rf moved
done
quietly ./both --out unbroken --log none
quietly ./both --out broken --epochs 1 --log none
quietly ./both --out broken --resume --epochs 2 --log none
same_weights unbroken broken "continued on the GPU"
finish
