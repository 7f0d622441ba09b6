#!/usr/bin/env bash
# checkpoint.sh: `with checkpoint` and a limit of memory change what a step takes and not a bit of what it computes:
# the masks of dropout come again as they were, the running statistics of batch norm move once. Every dump of a pass
# is the same program; each pass means what the one before it did.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cp "$(dirname "${BASH_SOURCE[0]}")/checkpoint.mpt" "$tmp"
cd "$tmp"
sed 's/with checkpoint {/if true {/' checkpoint.mpt >plain.mpt

# number NAME FILE: of the totals of a plan; 0 where they do not have it.
number() {
    awk -v name="$1" 'index($0, name "  ") == 1 { gsub(",", ""); n = substr($0, length(name) + 1) + 0 } END { print n + 0 }' "$2"
}
# made FILE NAME [FLAG...]: plan, program and run of it.
made() {
    local file=$1 name=$2
    shift 2
    "$mpc" "$file" -O1 --cpu=generic --plan "$@" >"$name.plan"
    quietly "$mpc" "$file" -O1 --cpu=generic -o "$name" "$@"
    quietly "./$name" --data "$examples/data" --seed 3 --threads 2 --log none --out "run.$name"
}
again="recomputed in the backward"

declare -A share=([f32]=65 [fp16]=85) # of the memory that it takes without recomputing
for precision in f32 fp16; do
    made plain.mpt plain.$precision --precision=$precision
    made checkpoint.mpt again.$precision --precision=$precision
    kept=$(number arena plain.$precision.plan)
    (($(number arena again.$precision.plan) < kept)) || fail "$precision: with checkpoint makes the arena no smaller"
    (($(number "$again" again.$precision.plan) > 8)) || fail "$precision: the plan does not say what is recomputed"
    (($(number "$again" plain.$precision.plan) == 0)) || fail "$precision: a plan without regions says that ops are recomputed"
    same_weights run.plain.$precision run.again.$precision "$precision, with checkpoint and without"

    most=$((kept * share[$precision] / 100))
    made plain.mpt least.$precision --precision=$precision --memory=$most
    (($(number arena least.$precision.plan) <= most)) || fail "$precision: more than $most bytes"
    same_weights run.plain.$precision run.least.$precision "$precision, in $most bytes and in $kept"
done
# With convolutions: the sums of a norm stand in other kernels then, and are taken in the same order.
cnn() {
    quietly "$mpc" "$examples/digits_cnn.mpt" --precision=f32 -O0 --cpu=generic -o "$@"
    quietly "./$1" --seed 3 --threads 2 --max-steps 4 --log none --out "run.$1"
}
"$mpc" "$examples/digits_cnn.mpt" --precision=f32 --cpu=generic --plan >cnn.plan
cnn cnn
cnn cnn_again --memory=$(($(number arena cnn.plan) - 1))
same_weights run.cnn run.cnn_again "a convolutional network in less memory"

./least.fp16 --plan >said
grep "$again .* ops    so that the arena fits" said >/dev/null || fail "the program's plan does not say why ops are recomputed"
"$mpc" plain.mpt --precision=f32 --cpu=generic --memory=1GiB --plan | sed 1d >wide.plan
diff <(sed 1d plain.f32.plan) wide.plan >/dev/null || fail "where memory is not short, something changes"

# Both together, by way of every dump: more is computed again than the file says.
least=$(($(number arena again.fp16.plan) - 1))
{ sed '/^model = /,$d' checkpoint.mpt && echo "set_memory(\"$least\")" && sed -n '/^model = /,$p' checkpoint.mpt; } >both.mpt
quietly "$mpc" both.mpt --cpu=generic --verify-passes --verify-ir --emit=c -o checked.c
mkdir dumps
quietly "$mpc" both.mpt --cpu=generic --dump-after=all --dump-dir=dumps --emit=c -o straight.c
grep 'checkpoint(-' dumps/*-checkpoint.ir >/dev/null ||
    fail "nothing more is computed again than the file says"
for dump in dumps/*.ir; do
    quietly "$mpc" "$dump" --cpu=generic --emit=c -o resumed.c
    diff <(sed 's/from [^ ]*$//; /mpc .*-o/d' straight.c) <(sed 's/from [^ ]*$//; /mpc .*-o/d' resumed.c) >/dev/null ||
        fail "the C made from $dump differs"
done
run 2 "memory comes too late" "$mpc" dumps/*-simplify.ir --memory=1GB
sed "s/\"$least\"/\"4 KiB\"/" both.mpt >none.mpt
run 2 "none.mpt:[0-9]+:12: error: the program cannot do with 4.0 KiB: it takes at least" "$mpc" none.mpt --plan
finish
