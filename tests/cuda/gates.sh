#!/usr/bin/env bash
# gates.sh: NVIDIA's own compiler takes every kernel of every example, for two architectures and as PTX: no registers
# are spilled, nothing lies in local memory. Prints what each kernel takes.
source "$(dirname "${BASH_SOURCE[0]}")/cuda_lib.sh"
unset MPC_NVRTC_LIB
cd "$tmp"
"$mpc" "$examples/digits.mpt" --emit=ptx -o first.ptx 2>said || {
    grep 'NVRTC' said >/dev/null && skip "$(head -n 1 said)"
    fail "digits: $(head -n 3 said)"
}
for file in "$examples"/*.mpt "$examples"/levels/loop.mpt; do
    name=$(basename "$file" .mpt)
    for gpu in sm_80 sm_90; do
        "$mpc" "$file" --emit=cubin --gpu=$gpu -v -o code.cubin 2>said || fail "$name for $gpu: $(head -n 3 said)"
        [[ -s code.cubin ]] || fail "$name for $gpu: no code"
        awk -v name="$name" -v gpu=$gpu '
            /Compiling entry function/ { split($0, part, "\x27"); kernel = part[2]; n++ }
            /bytes stack frame/ {
                if ($0 !~ / 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/) { print "spills: " kernel; bad = 1 }
            }
            /Used [0-9]+ registers/ {
                match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5) + 0
                shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
                printf "%-12s %-6s %-40s %4d registers %7d bytes shared\n", name, gpu, kernel, registers, shared
                if (registers > 255) { print "registers: " kernel; bad = 1 }
            }
            END { if (n == 0) { print "no kernel"; bad = 1 } exit bad }' said >table || fail "$name for $gpu: $(grep -v registers table)"
        cat table
    done
    "$mpc" "$file" --emit=ptx --gpu=sm_80 -o code.ptx || fail "$name: no PTX"
    grep -F '.target sm_80' code.ptx >/dev/null || fail "$name: this is no PTX for sm_80"
done
# Products of 16-bit numbers are the tensor cores' work.
"$mpc" "$examples/digits.mpt" --emit=ptx --gpu=sm_80 -o code.ptx
(($(grep -c 'mma.sync.aligned.m16n8k16' code.ptx) > 0)) || fail "no tensor cores in digits"
finish
