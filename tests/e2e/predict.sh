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
else
    cat fit.log >&2
    fail "fit.mpt does not compile"
fi
finish
