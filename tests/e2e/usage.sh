#!/usr/bin/env bash
# usage.sh: the two command lines. Unknown flags are errors with status 2 and the nearest valid one;
# help and version go to stdout with status 0.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
digits=$examples/digits.mpt
train=$(program digits)

for command in "$mpc" "$train"; do
    for flag in --help --version; do
        "$command" "$flag" >out 2>err || fail "$command $flag ends with $?"
        [[ -s out && ! -s err ]] || fail "$command $flag: not to stdout"
    done
done
grep -q '0\.1' <<<"$("$mpc" --version)" || fail "mpc --version: no 0.1"
help=$("$train" --help)
for flag in --seed --threads --epochs --max-steps --out --data --init --plan --summary --print-config \
    --eval --help --version; do
    grep -qe "$flag" <<<"$help" || fail "the program's --help does not name $flag"
done

# typo COMMAND... WRONG RIGHT: status 2, and the right flag is named.
typo() {
    local wrong=${*: -2:1} right=${*: -1}
    run 2 "$wrong" "${@:1:$#-1}"
    grep -qe "did you mean.*$right" said || fail "$wrong: $right is not named, but: $(cat said)"
}
typo "$mpc" "$digits" --explian --explain
typo "$mpc" "$digits" --emti=ir --emit
typo "$mpc" "$digits" --verify-pases --verify-passes
typo "$mpc" "$digits" --list-op --list-ops
typo "$mpc" "$digits" --precison=bf16 --precision
typo "$train" --epoch --epochs
typo "$train" --sed --seed
typo "$train" --max-step --max-steps
typo "$train" --thread --threads

run 2 'emit' "$mpc" "$digits" --emit=irr
run 2 'precision|fp15' "$mpc" "$digits" --precision=fp15
run 2 'nosuchpass|pass' "$mpc" "$digits" --dump-after=nosuchpass -o x
run 2 'nosuchpass|pass' "$mpc" "$digits" --pass=-nosuchpass -o x
run 2 'nosuchoption|option' "$mpc" "$digits" -D nosuchoption=1 -o x
run 2 '.' "$mpc"
run 2 '-o' "$mpc" "$digits" -o
run 2 'nosuch\.mpt' "$mpc" nosuch.mpt -o x
run 2 'mpt' "$mpc" "$tmp" -o x
touch file.txt
run 2 'file\.txt|\.mpt' "$mpc" file.txt -o x
for value in x -1 1.5 '' 99999999999999999999; do
    run 2 'epochs' "$train" --epochs "$value"
done
run 2 'seed' "$train" --seed seven
run 2 'threads' "$train" --threads 0
run 2 'threads' "$train" --threads
run 2 'stray' "$train" stray

# Lists, and views that do not train.
"$mpc" --list-passes >list || fail "--list-passes"
for pass in autocast autodiff scaling master simplify; do
    grep -qw "$pass" list || fail "--list-passes: no $pass"
done
"$mpc" --list-ops >list || fail "--list-ops"
for op in add matmul softmax cross_entropy; do
    grep -qw "$op" list || fail "--list-ops: no $op"
done
"$mpc" --emit=std >std || fail "--emit=std"
for module in Linear Dropout Flatten LayerNorm Embedding; do
    grep -q "module $module" std || fail "--emit=std: no $module"
done
for emit in tokens ast loop ir kernels c; do
    "$mpc" "$digits" --emit=$emit >out 2>err || fail "--emit=$emit ends with $?"
    [[ -s out ]] || fail "--emit=$emit prints nothing"
done
for flag in --plan --summary --print-config; do
    "$train" $flag >out 2>err || fail "$flag ends with $?"
    [[ -s out ]] || fail "$flag prints nothing"
done
grep -qE 'seed.*7' <<<"$("$train" --print-config --seed 7)" || fail "--print-config: no seed 7"
[[ ! -e runs ]] || fail "a view left a run folder"
finish
