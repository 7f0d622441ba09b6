#!/usr/bin/env bash
# predict.sh: --predict gives the labels that the evaluation counted, from a file, from stdin, without labels;
# --export writes the weights that a run has left. What cannot be answered is an error.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
train=$(program digits)
table=$examples/data/digits_validation.csv
quietly "$train" --out run --epochs 4 --log none

run 0 'accuracy=' "$train" --out run --eval --log text
counted=$(sed -nE 's/^eval .* accuracy=([0-9.]+)$/\1/p' said)
"$train" --out run --predict "$table" >answers.jsonl 2>err || fail "--predict ends with $?"
[[ ! -s err ]] || fail "--predict says: $(cat err)"
label_column=$(head -n 1 "$table" | tr -d '\r' | tr , '\n' | grep -nx label | cut -d: -f1)
sed -E 's/^\{"label":([0-9]+),"probabilities":\[.*/\1/' answers.jsonl >labels
tail -n +2 "$table" | tr -d '\r' | cut -d, -f"$label_column" | paste - labels |
    awk '{ hits += $1 == $2 } END { printf "%.6g\n", hits / NR }' >share
holds "$counted - $(cat share) < 1e-6 && $(cat share) - $counted < 1e-6" ||
    fail "predicted labels are right for $(cat share), the evaluation says $counted"

# The probabilities of a sample sum to 1, and the label is the largest.
awk -F'[][]' '{ n = split($2, p, ","); sum = 0; for (i = 1; i <= n; i++) sum += p[i]
                if (n != 10 || sum < 0.99999 || sum > 1.00001) exit 1 }' answers.jsonl ||
    fail "probabilities do not sum to 1"

# Without the column of labels, from stdin.
head -n 4 "$table" | tr -d '\r' | cut -d, -f"$label_column" --complement |
    "$train" --out run --predict - >three.jsonl || fail "--predict - ends with $?"
head -n 3 answers.jsonl | cmp -s - three.jsonl || fail "without labels the answers differ"

# The same samples as JSON lines: a list under the field's name, by the file's name or its first byte.
tail -n +2 "$table" | tr -d '\r' | cut -d, -f"$label_column" --complement |
    sed 's/.*/{"id": "x", "image": [&]}/' >samples.jsonl
"$train" --out run --predict samples.jsonl | cmp -s - answers.jsonl || fail "JSON lines: other answers"
head -n 3 samples.jsonl | "$train" --out run --predict - | cmp -s - three.jsonl || fail "JSON lines from stdin"
echo '{"image": [1, 2, 3]}' >short.jsonl
run 1 'short.jsonl:1: "image": has 3 numbers, but a sample has 64' "$train" --out run --predict short.jsonl
echo '{"picture": [1, 2, 3]}' >other.jsonl
run 1 'other.jsonl:1: "image": the object has no such member' "$train" --out run --predict other.jsonl
{
    head -n 1 samples.jsonl
    echo '{"image": [1, '
} >broken.jsonl
run 1 'broken.jsonl:2: this is no valid JSON' "$train" --out run --predict broken.jsonl

"$train" --out run --predict - <broken.jsonl >out 2>err && fail "broken JSON lines from stdin are taken"
grep 'the standard input:2: ' err >/dev/null || fail "stdin: $(cat err)"

run 1 'there is no column' "$train" --out run --predict "$src/README.md"
run 1 'there are no weights' "$train" --out nowhere --predict "$table"
run 1 'cannot find' "$train" --out run --predict absent.csv
run 2 'did you mean --predict' "$train" --predct x

run 0 'wrote w.safetensors' "$train" --out run --export w.safetensors
cmp -s w.safetensors run/model.safetensors || fail "--export: not the weights of the run"
"$train" --init w.safetensors --predict "$table" | cmp -s - answers.jsonl ||
    fail "--init: not the answers of the run"

# A program that compares nothing with a truth has nothing to ask; one that fits numbers gives numbers.
cat >fit.mpt <<'MPT'
data points = csv("points.csv") -> (x: f32[2] = columns("a", "b"), y: f32)
module Line() {
    fc = Linear(2, 1)
    forward(x) { return fc(x).squeeze(-1) }
}
model = Line()
optimizer = SGD(model.parameters(), lr = 0.01)
for batch in loader(points, batch_size = 2) {
    loss = mse_loss(model(batch.x), batch.y)
    backward(loss)
    optimizer.step()
    optimizer.zero_grad()
}
error = evaluate(points, batch_size = 2) { mse_loss(model(batch.x), batch.y) }
MPT
printf 'a,b,y\n1,2,0\n0,0,0\n3,4,0\n' >points.csv
if "$mpc" fit.mpt --cpu=generic -O0 -o fit >fit.log 2>&1; then
    quietly ./fit --out fit-run --log none
    printf 'b,a\n2,1\n0,0\n4,3\n' | ./fit --out fit-run --predict - >fit.jsonl || fail "fit: --predict ends with $?"
    [[ $(wc -l <fit.jsonl) == 3 ]] || fail "fit: not three answers"
    grep -qE '^\{"output":-?[0-9.e-]+\}$' fit.jsonl || fail "fit: $(head -n 1 fit.jsonl)"
    printf 'b,a\n2,1\n0,0\n4,3\n' | ./fit --out fit-run --predict - --log csv >fit.csv || fail "fit: csv"
    { echo output; sed 's/.*:\(.*\)}/\1/' fit.jsonl; } | cmp -s - fit.csv || fail "fit: csv has $(cat fit.csv)"
else
    cat fit.log >&2
    fail "fit.mpt does not compile"
fi

# Into a file, as JSON lines or as a table; all of it, or no file.
run 0 'wrote all.jsonl' "$train" --out run --predict "$table" --output all.jsonl
cmp -s all.jsonl answers.jsonl || fail "--output: other answers"
run 0 'wrote all.csv' "$train" --out run --predict "$table" --output all.csv
[[ $(head -n 1 all.csv) == label,probability_0,*,probability_9 ]] || fail "csv: $(head -n 1 all.csv)"
tail -n +2 all.csv | cut -d, -f1 | cmp -s - labels || fail "csv: other labels"
diff <(tail -n +2 all.csv | cut -d, -f2-) <(sed 's/.*\[\(.*\)\]}/\1/' answers.jsonl) >/dev/null || fail "csv: other numbers"
run 1 "nowhere/all.csv" "$train" --out run --predict "$table" --output nowhere/all.csv
run 1 'cannot write' bash -c "ulimit -f 4; trap '' XFSZ; '$train' --out run --predict '$table' --output cut.csv"
[[ ! -e cut.csv && -z $(ls -A | grep -F cut.csv) ]] || fail "a cut file of answers is left: $(ls -A | grep -F cut)"
run 2 'no --predict' "$train" --output all.csv

# Files of one field each: one that is needed is a file, several are a folder; records of one size. Classes have names.
cat >idx.mpt <<'MPT'
data eyes = KIND(FILES) -> (left: u8[2, 2], right: u8[2], label: u8 = classes("no", "yes, \"both\""))
module Net() {
    a = Linear(4, 2)
    b = Linear(2, 2)
    forward(x, y) { return a(x.flatten(1)) + b(y) }
}
model = Net()
optimizer = SGD(model.parameters(), lr = 0.01)
for batch in loader(eyes, batch_size = 2) {
    loss = cross_entropy(model(batch.left / 255, batch.right / 255), batch.label)
    backward(loss)
    optimizer.step()
    optimizer.zero_grad()
}
e = evaluate(eyes, batch_size = 2) { accuracy(model(batch.left / 255, batch.right / 255), batch.label) }
MPT
sed 's/KIND/idx/; s/FILES/"train\/left", "train\/right", "train\/label"/' idx.mpt >many.mpt
sed 's/KIND/bin/; s/FILES/"records.bin"/' idx.mpt >records.mpt
mkdir train new wrong
printf '\0\0\10\3\0\0\0\3\0\0\0\2\0\0\0\2abcdefghijkl' >train/left
printf '\0\0\10\2\0\0\0\3\0\0\0\2mnopqr' >train/right
printf '\0\0\10\1\0\0\0\3\0\1\0' >train/label
cp train/left train/right new
printf 'abcdmn\0efghop\1ijklqr\0' >records.bin
for name in many records; do
    quietly "$mpc" $name.mpt --cpu=generic -O0 -o $name
    quietly ./$name --out $name-run --log none
done
./many --out many-run --predict new >many.jsonl || fail "a folder of idx files: $?"
[[ $(grep -cE '^\{"label":[01],"class":"(no|yes, \\"both\\")","probabilities":\[[^,]*,[^,]*\]\}$' many.jsonl) == 3 ]] ||
    fail "a folder of idx files: $(cat many.jsonl)"
./records --out records-run --predict records.bin | cmp -s - many.jsonl || fail "records: other answers"
run 0 'wrote many.csv' ./many --out many-run --predict new --output many.csv
[[ $(head -n 1 many.csv) == label,class,probability_0,probability_1 ]] || fail "csv: $(head -n 1 many.csv)"
[[ $(grep -cE '^([0],no|1,"yes, ""both"""),' many.csv) == 3 ]] || fail "csv: $(cat many.csv)"
run 1 'has 2 fields in files of their own' ./many --out many-run --predict new/left
run 1 "the folder 'wrong' has no file 'left'" ./many --out many-run --predict wrong
cp new/left wrong/right
cp new/left wrong/left
run 1 "'wrong/right' has 3 axes" ./many --out many-run --predict wrong
printf 'abcdmn\0efg' >cut.bin
run 1 'cut.bin' ./records --out records-run --predict cut.bin
finish
