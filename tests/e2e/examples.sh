#!/usr/bin/env bash
# examples.sh: every example compiles without a warning, is sound pass by pass, explains itself, and
# takes a few steps.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

for file in "$examples"/*.mpt; do
    name=$(basename "$file" .mpt)
    # The interpreter takes 20 s for the two large networks, whose layers are those of digits_cnn.
    verify=--verify-passes
    [[ $name != cells && $name != fashion_cnn ]] || verify=
    quietly "$mpc" "$file" $verify --verify-ir --emit=c
    "$mpc" "$file" --explain >explain.txt || fail "$name: --explain ends with $?"
    grep -q '^line' explain.txt || fail "$name: --explain has no head line"
    "$mpc" "$file" --explain=json >explain.json || fail "$name: --explain=json ends with $?"
    grep -q '^"ops": *\[' explain.json || fail "$name: --explain=json has no list of ops"
    for key in line name op type class why; do
        grep -q "\"$key\":" explain.json || fail "$name: --explain=json has no \"$key\""
    done
    # No warning of ours or of the C compiler.
    "$mpc" "$file" -O1 -o "$name" 2>said || { fail "$name: does not compile"; cat said >&2; }
    [[ ! -s said ]] || fail "$name: mpc is not silent: $(head -n 3 said)"
    [[ $name != fashion* || -e $fashion ]] || continue
    quietly "./$name" --max-steps 3 --data "$examples" --out "run_$name"
    [[ -s run_$name/model.safetensors ]] || fail "$name: no model"
done

# Every precision of the command line.
for precision in f32 fp16 bf16; do
    quietly "$mpc" "$examples/digits.mpt" --precision=$precision --verify-passes -O1 -o digits_$precision
    quietly ./digits_$precision --seed 1 --out run_$precision
    accuracy=$(field accuracy eval run_$precision | tail -n 1)
    holds "${accuracy:-0} >= 0.94" || fail "$precision: accuracy ${accuracy:-missing}"
    # A run can go on from another's weights, and --eval measures them without training.
    "./digits_$precision" --init run_$precision/model.safetensors --eval --out eval_$precision >out 2>&1 ||
        fail "$precision: --eval ends with $?"
done
finish
