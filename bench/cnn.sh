#!/usr/bin/env bash
# cnn.sh: a training step of cnn.mpt, and what compiling it takes, beside PyTorch's step of the same network.
#
#     MPC=build/release/bin/mpc bench/cnn.sh [-r ROUNDS] [-s STEPS] [-t THREADS] [-d DIR] [-p "TYPE..."] [-f] [MPC...]
#
# Each round runs every program in turn, so that all see the same minutes of the machine; the first tenth of a
# turn's steps is left out. Two figures each: the median of all steps, and the step that a tenth are faster than,
# which is what an undisturbed machine would show. MPC names further compilers to compare with (of another
# commit); -p the types (f32 bf16 fp16), -d the folder of the data. Without PyTorch its rows are missing; fp16
# is left out of them too, as PyTorch's convolutions of fp16 on a CPU take seconds (-f runs them).
set -euo pipefail
export MPC_CACHE= # every compilation is a real one
here=$(dirname "${BASH_SOURCE[0]}")
: "${MPC:=$here/../build/release/bin/mpc}"
rounds=5 steps=60 threads=$(nproc) types="f32 bf16 fp16" data=() peer_fp16=false
while getopts r:s:t:d:p:f option; do
    case $option in
    r) rounds=$OPTARG ;; s) steps=$OPTARG ;; t) threads=$OPTARG ;; p) types=$OPTARG ;;
    d) data=(--data "$OPTARG") ;; f) peer_fp16=true ;;
    *) sed -n '4p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
compilers=("$MPC" "$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
peer=false
python3 -c 'import torch' 2>"$scratch/said" && peer=true

# seconds COMMAND...: how long it takes
seconds() {
    local start=$EPOCHREALTIME
    "$@"
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }'
}

# turn NAME LESS: milliseconds of steps on stdin, less the first ones, into NAME's file
turn() {
    tail -n +$(($2 / 10 + 1)) >>"$scratch/$1.ms"
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $threads threads," \
    "load $(cut -d' ' -f1 /proc/loadavg), $(cc --version | head -n 1)"
for n in "${!compilers[@]}"; do
    for type in $types; do
        mpc=(${compilers[n]} "$here/cnn.mpt" "--precision=$type")
        to_c=$(seconds "${mpc[@]}" --emit=c -o "$scratch/$n.c")
        whole=$(seconds "${mpc[@]}" -o "$scratch/$n-$type")
        echo "${compilers[n]} $type: $to_c s to C, $whole s to the program"
    done
done
for ((round = 0; round < rounds; round++)); do
    for type in $types; do
        for n in "${!compilers[@]}"; do
            rm -rf "$scratch/run"
            "$scratch/$n-$type" --threads "$threads" --max-steps "$steps" --log none "${data[@]}" \
                --out "$scratch/run" >"$scratch/said"
            sed -n 's/.*"event":"step".*"samples_per_s":\([0-9.e+]*\).*/\1/p' "$scratch/run/log.jsonl" |
                awk '{ print 64e3 / $1 }' | turn "$n-$type" "$steps"
        done
        if $peer && { $peer_fp16 || [[ $type != fp16 ]]; }; then
            python3 "$here/cnn_torch.py" "$type" "$steps" "$threads" 2>"$scratch/said" |
                turn "torch-$type" "$steps"
        fi
    done
done
for type in $types; do
    for n in "${!compilers[@]}" torch; do
        [[ -s $scratch/$n-$type.ms ]] || continue # no peer
        name=PyTorch
        [[ $n == torch ]] || name=${compilers[n]}
        sort -g "$scratch/$n-$type.ms" | awk -v type="$type" -v name="$name" '{ v[NR] = $1 } END {
            printf "%-5s %7.2f ms median %7.2f ms fastest tenth  %s\n", type,
                v[int((NR + 1) / 2)], v[int((NR + 9) / 10)], name }'
    done
done
