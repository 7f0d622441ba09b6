#!/usr/bin/env bash
# allocations.sh: what a program allocates is what --plan says. From the arena's mapping on, which holds the scratch
# of the threads and the batches as well, a run allocates no other piece above 64 KiB: before it only the data, and
# after it the buffers of files that are written between steps.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
if grep -q 'MPC_SANITIZE:STRING=[a-z]' "$(dirname "$mpc")/../CMakeCache.txt" 2>/dev/null; then
    skip "a sanitizer has the allocator"
fi
cc -O1 -shared -fPIC -o "$tmp/allocations.so" "$(dirname "${BASH_SOURCE[0]}")/allocations.c" -ldl 2>"$tmp/said" ||
    skip "no library can be preloaded here: $(head -n 1 "$tmp/said")"
[[ $(ldd --version 2>&1 | head -n 1) == *GLIBC* || $(ldd --version 2>&1 | head -n 1) == *GNU* ]] || skip "needs glibc"

writer=262144 # runtime/rt_file.c
train=$(program digits)
cd "$tmp"
# bytes NAME FILE
bytes() {
    awk -v name="$1" 'index($0, name "  ") == 1 { gsub(",", ""); for (i = 1; i <= NF; i++) if ($(i + 1) == "bytes") n = $i } END { print n }' "$2"
}

"$mpc" "$examples/digits.mpt" --plan >mpc.plan
for threads in 1 3; do
    "$train" --plan --threads $threads >plan
    piece=$(bytes "in one piece" plan)
    (($(bytes arena plan) + $(bytes "scratch of the threads" plan) + $(bytes "variables and metrics" plan) + $(bytes batches plan) == piece)) ||
        fail "the parts of one piece are not $piece bytes"
    [[ $(bytes batches plan) == "$(bytes batches mpc.plan)" ]] || fail "mpc plans $(bytes batches mpc.plan) bytes of batches"
    if ! LD_PRELOAD=$tmp/allocations.so "$train" --threads $threads --max-steps 90 --out run$threads 2>said >/dev/null; then
        fail "the run with $threads threads: $(tail -n 3 said)"
        continue
    fi
    # The arena is the one mapping of its size: pages and what aligns it come on top.
    sed -n 's/^allocates //p' said >large
    awk -v piece="$piece" '$1 == "mmap" && $2 >= piece && $2 <= piece + 8192 { n++ } END { exit n != 1 }' large ||
        fail "$threads threads: one mapping of $piece bytes is planned, and there were: $(paste -sd' ' large)"
    awk -v piece="$piece" '$1 == "mmap" && $2 >= piece { on = 1; next } on' large >later
    grep -vx "malloc $writer" later && fail "$threads threads: allocated besides the arena"
    (($(wc -l <later) > 0)) || fail "not even the buffer of a file that is written was seen"
done
finish
