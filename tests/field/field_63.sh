#!/usr/bin/env bash
# A label that is no class aborts a kernel on a device, without a place. The program reads all labels
# and indices first, and names file and row.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# program TYPE LOSS [PREPARATION]
program() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), word: $1, label: $1)
${3:-}
module Net() {
    table = Embedding(6, 4)
    fc    = Linear(2, 4)
    head  = Linear(4, 3)
    forward(x, word) { return head(fc(x) + table(word)) }
}
END
    loop 'Adam(model, lr = 0.01)' f16 "loss = $2"
}
# outside NAME ROW WORD LABEL REGEX: a table with these in that row (from 1) ends the run before a step.
outside() {
    awk -v OFS=, -v at="$2" -v word="$3" -v label="$4" 'BEGIN {
        print "a,b,word,label"
        for (i = 1; i <= 12; i++) print i / 10, 1, i == at ? word : i % 6, i == at ? label : i % 3 }' >rows.csv
    run 1 "$5" "./$1" --out "${1}_$2" --log none
    grep -qE "rows\.csv:$(($2 + 1))\b|row $2\b" said || fail "$1: row $2 is not named: $(head -n 1 said)"
    [[ ! -e ${1}_$2/model.safetensors ]] || fail "$1: weights were saved"
}
ce='cross_entropy(model(batch.x, batch.word), batch.label)'
for type in i32 i64 u8; do
    program $type "$ce" | compile $type
    outside $type 7 1 3 'label.*3'
    outside $type 12 1 200 'label.*200'
    outside $type 1 6 1 'word.*6'
    outside $type 5 255 1 'word.*255'
done
outside i32 3 1 -1 'label.*-1'
outside i32 4 -2 1 'word.*-2'
outside i32 2 -100 0 'word.*-100' # ignored as a label, not as a word
outside i64 9 1 4294967297 'label.*4294967297'

# -100, and another number that the file ignores, are fine.
program i32 "$ce" | sed 's/batch\.label)/batch.label, ignore_index = 255)/' | compile other
outside other 6 1 -100 'label.*-100'
awk -v OFS=, 'BEGIN { print "a,b,word,label"; for (i = 1; i <= 12; i++) print i, 1, i % 6, i % 4 == 3 ? 255 : i % 3 }' >rows.csv
train other
finish
