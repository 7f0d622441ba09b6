#!/usr/bin/env bash
# gpu.sh: what only a machine with a GPU can show, in a few minutes: the correctness suite with --target=cuda on the
# first GPU, then what the examples take in f32, fp16 and bf16, as a table.
#
#     MPC=build/release/bin/mpc tests/gpu.sh            all
#     MPC=build/release/bin/mpc tests/gpu.sh --quick    one piece of each part
#
# Needs a build with tests. Prints why and ends with 77 where there is no NVRTC or no GPU. Stand-ins named in
# $MPC_NVRTC_LIB and $MPC_CUDA_LIB are taken like the real ones; their times mean nothing.
source "$(dirname "${BASH_SOURCE[0]}")/e2e/e2e_lib.sh"
export MPC_SOURCE_DIR=$src MPC_CACHE=
tests=$(dirname "$mpc")/../tests/bin
quick=0
[[ ${1-} != --quick ]] || quick=1
cd "$tmp"

# ---- is there a GPU? ----------------------------------------------------------------------------

"$mpc" "$examples/digits.mpt" -O0 --target=cuda -o probe 2>said || {
    grep 'NVRTC' said >/dev/null && skip "$(head -n 1 said)"
    cat said >&2
    exit 1
}
./probe --device cuda --max-steps 1 --out of_probe --log none >said 2>&1 || {
    grep 'error: --device cuda' said >/dev/null && skip "$(grep -m 1 'error: --device cuda' said)"
    cat said >&2
    exit 1
}
grep 'on cuda' said || fail "the program does not say where it runs"
[[ ! -e $tmp/.failed ]] || exit 1

# ---- correctness --------------------------------------------------------------------------------

# check NAME ARGUMENT...: a program of the tests, on the GPU.
check() {
    local start=$SECONDS
    if "$tests/$1" "${@:2}" -O0 --target=cuda >said 2>&1; then
        printf 'ok      %3d s  %s\n' $((SECONDS - start)) "$*"
    else
        tail -n 20 said
        fail "$*"
    fi
}
echo "correctness, against PyTorch's results"
if ((quick)); then
    check model_curve mlp bf16 bf16
else
    check ops_golden 0 1 f32 generic
    check ops_golden 0 1 bf16 generic
    check ops_golden 0 1 f16 generic
    check ops_random 1 16 16 generic
    check optimizer_program
    for model in mlp cnn resnet; do
        check model_curve $model f32 f32
        check model_curve $model bf16 bf16
        check model_curve $model fp16_gradscaler fp16
    done
fi

# ---- time ---------------------------------------------------------------------------------------

# speed EXAMPLE PRECISION STEPS: samples per second, the median of the log's records behind the first ten.
speed() {
    "$mpc" "$examples/$1.mpt" $level --target=cuda --precision="$2" -o run 2>said || { cat said >&2; return 1; }
    rm -rf of_run
    timeout 60 ./run --max-steps "$3" --out of_run --log none >said 2>&1 || { tail -n 3 said >&2; return 1; }
    sed -n 's/.*"event":"step".*"samples_per_s":\([0-9.e+]*\).*/\1/p' of_run/log.jsonl | tail -n +11 | sort -g |
        awk '{ v[NR] = $1 } END { if (NR == 0) exit 1; printf "%.0f", v[int((NR + 1) / 2)] }'
}
list=(digits digits_cnn fashion_mlp fashion_cnn) types=(f32 fp16 bf16) steps=2000 level=-O3
((!quick)) || list=(digits) types=(bf16) steps=12 level=-O0
printf '\nsamples per second\n%-14s' example
printf ' %12s' "${types[@]}"
echo
for name in "${list[@]}"; do
    [[ $name != fashion_* || -e $fashion/train-images-idx3-ubyte.gz ]] || continue
    row=()
    for precision in "${types[@]}"; do
        if ! row[${#row[@]}]=$(speed "$name" $precision $steps); then
            fail "$name in $precision"
        fi
    done
    printf '%-14s' "$name"
    printf ' %12s' "${row[@]}"
    echo
done
finish
