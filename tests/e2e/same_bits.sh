#!/usr/bin/env bash
# same_bits.sh: what must not change a bit of the weights: the number of threads, running again,
# compiling again, going by way of the IR's text.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

train=$(program digits)
quietly "$train" --seed 5 --epochs 6 --threads 1 --out "$tmp/one"
for threads in 1 2 3 7; do
    quietly "$train" --seed 5 --epochs 6 --threads "$threads" --out "$tmp/threads$threads"
    same_weights "$tmp/one" "$tmp/threads$threads" "$threads threads"
done
quietly "$train" --seed 6 --epochs 6 --threads 1 --out "$tmp/other"
cmp -s "$tmp/one/model.safetensors" "$tmp/other/model.safetensors" &&
    fail "another seed gives the same weights"

# The same source gives the same C and the same program.
cd "$tmp"
"$mpc" "$examples/digits.mpt" --emit=c >a.c
"$mpc" "$examples/digits.mpt" --emit=c >b.c
cmp -s a.c b.c || fail "the emitted C differs between two runs of mpc"
quietly "$mpc" "$examples/digits.mpt" -o again
cmp -s again "$train" || fail "the program differs between two runs of mpc"

# By way of the IR, as printed by default and after every single pass.
"$mpc" "$examples/digits.mpt" --emit=ir >digits.ir
quietly "$mpc" -O1 digits.ir -o from_ir # other optimisation, the same bits
quietly ./from_ir --seed 5 --epochs 6 --data "$examples" --out "$tmp/from_ir_run"
same_weights "$tmp/one" "$tmp/from_ir_run" "the program made from --emit=ir"

mkdir dumps
quietly "$mpc" "$examples/digits.mpt" --dump-after=all --dump-dir=dumps --emit=c
n=0
for dump in dumps/*.ir; do
    quietly "$mpc" "$dump" --emit=c -o resumed.c
    if ! diff <(sed 's/from [^ ]*$//; /mpc .*-o/d' a.c) <(sed 's/from [^ ]*$//; /mpc .*-o/d' resumed.c) >diff.txt; then
        fail "the C made from $dump differs:"
        head -n 10 diff.txt >&2
    fi
    n=$((n + 1))
done
((n >= 5)) || fail "--dump-after=all wrote only $n dumps"
finish
