#!/usr/bin/env bash
# memory.sh: the memory plan. Of every example: low precision takes no more than f32, the plan lies at most 5 % above
# what no placing could beat, its parts add up, and the folded text fits 100 columns. What a program says under
# --plan is what mpc says; its peak is 0 to 10 % above what the system measures.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

# bytes NAME FILE: the number of a line of totals.
bytes() {
    awk -v name="$1" 'index($0, name "  ") == 1 { gsub(",", ""); for (i = 1; i <= NF; i++) if ($(i + 1) == "bytes") { print $i; exit } }' "$2"
}
# parts FILE: the sum of what the arena holds at its fullest.
parts() {
    awk '/^arena /{ exit } on { gsub(",", ""); for (i = 1; i <= NF; i++) if ($(i + 1) == "bytes") s += $i }
        /^the arena at its fullest/{ on = 1 } END { print s }' "$1"
}

shopt -s globstar
for example in "$examples"/**/*.mpt; do
    name=${example#"$examples/"}
    for precision in f32 fp16 bf16; do
        if ! "$mpc" "$example" --precision=$precision --plan --cpu=generic >plan.$precision 2>said; then
            fail "$name: no plan in $precision: $(head -n 3 said)"
            continue 2
        fi
        arena=$(bytes arena plan.$precision) bound=$(bytes "lower bound" plan.$precision)
        holds "$arena >= $bound && $arena <= 1.05 * $bound" || fail "$name: $arena bytes in $precision, the bound is $bound"
        [[ $(parts plan.$precision) == "$arena" ]] || fail "$name, $precision: $(parts plan.$precision) of $arena bytes told"
        awk 'length > 100' plan.$precision | grep . && fail "$name: a line of --plan is longer than 100 columns"
    done
    for low in fp16 bf16; do
        (($(bytes arena plan.$low) <= $(bytes arena plan.f32))) ||
            fail "$name: $(bytes arena plan.$low) bytes in $low, $(bytes arena plan.f32) in f32"
    done
done

# Each buffer of the full text: type, life and source; two that live at the same launch do not share bytes.
"$mpc" "$examples/digits.mpt" --plan=full >full
awk '/^of @step/{ on = 1 } /^of @eval/{ on = 0 } on && /^0x/{ gsub(",", ""); split($3, life, "[.][.]"); print $1, $2, life[1], life[2], $5 }' full >rows
(($(wc -l <rows) > 20)) || fail "--plan=full lists $(wc -l <rows) buffers of @step"
while read -r at size first last line; do
    while read -r at2 size2 first2 last2 line2; do
        if ((first <= last2 && first2 <= last && at < at2 + size2 && at2 < at + size)) &&
            [[ "$at $first $last $line" != "$at2 $first2 $last2 $line2" ]]; then
            fail "buffers at $at and $at2 overlap"
        fi
    done <rows
done <rows

train=$(program digits)
"$train" --plan --threads 2 >said
"$mpc" "$examples/digits.mpt" --plan >wanted
diff <(sed '1d; /^scratch of/,$d' wanted) <(sed '1d; /^the program/,$d' said | sed '$d') >diff ||
    fail "the program's plan is not mpc's: $(head -n 5 diff)"
quietly "$train" --max-steps 60 --threads 2 --out run --log none
peak=$(bytes peak said) measured=$(field peak_bytes end run)
if ! grep -q 'MPC_SANITIZE:STRING=[a-z]' "$(dirname "$mpc")/../CMakeCache.txt" 2>/dev/null; then
    holds "$peak >= $measured && $peak <= 1.1 * $measured" || fail "--plan says $peak bytes, the system measured $measured"
fi
run 2 "full" "$train" --plan=fall
run 2 "full" "$mpc" "$examples/digits.mpt" --plan=fall
finish
