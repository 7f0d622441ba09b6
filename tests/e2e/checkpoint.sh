#!/usr/bin/env bash
# checkpoint.sh: `with checkpoint` changes the memory of a step and not a bit of what it computes: the masks of
# dropout come again as they were, the running statistics of batch norm move once. Every dump of a pass is the same
# program; each pass means what the one before it did.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cp "$(dirname "${BASH_SOURCE[0]}")/checkpoint.mpt" "$tmp"
cd "$tmp"
sed 's/with checkpoint {/if true {/' checkpoint.mpt >plain.mpt

# number NAME FILE: of the totals of a plan; 0 where they do not have it.
number() {
    awk -v name="$1" 'index($0, name "  ") == 1 { gsub(",", ""); n = substr($0, length(name) + 1) + 0 } END { print n + 0 }' "$2"
}

for precision in f32 fp16; do
    for name in checkpoint plain; do
        quietly "$mpc" $name.mpt --precision=$precision -O0 --cpu=generic -o $name.$precision
        quietly ./$name.$precision --data "$examples/data" --seed 3 --threads 2 --log none --out run.$name.$precision
        "$mpc" $name.mpt --precision=$precision --cpu=generic --plan >$name.plan
    done
    same_weights run.checkpoint.$precision run.plain.$precision "$precision, with checkpoint and without"
    again=$(number arena checkpoint.plan) kept=$(number arena plain.plan)
    ((again < kept * 9 / 10)) || fail "$precision: $again bytes with checkpoint, $kept without"
    (($(number "recomputed in the backward" checkpoint.plan) > 8)) || fail "$precision: the plan does not say what is recomputed"
    (($(number "recomputed in the backward" plain.plan) == 0)) || fail "$precision: a plan without regions says that ops are recomputed"
done
./checkpoint.f32 --plan >said
(($(number "recomputed in the backward" said) > 8)) || fail "the program's plan does not say what is recomputed"

quietly "$mpc" checkpoint.mpt --verify-passes --verify-ir --emit=c -o checked.c
mkdir dumps
quietly "$mpc" checkpoint.mpt --dump-after=all --dump-dir=dumps --emit=c -o straight.c
for dump in dumps/*.ir; do
    quietly "$mpc" "$dump" --emit=c -o resumed.c
    diff <(sed 's/from [^ ]*$//; /mpc .*-o/d' straight.c) <(sed 's/from [^ ]*$//; /mpc .*-o/d' resumed.c) >/dev/null ||
        fail "the C made from $dump differs"
done
finish
