#!/usr/bin/env bash
# Steps that are NaN are filtered out of the log while training goes on. The record says "nan" and
# "finite": false, the run stops with status 1, and no model of NaNs is left.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# The logarithm of the sixth row's a is NaN, of the third row's of other.csv is -inf.
table nan.csv a,b,label 10 'i == 5 ? -1 : 1 + rand(), rand(), i % 2'
table inf.csv a,b,label 10 'i == 2 ? 0 : 1 + rand(), rand(), i % 2'
mkdir nan inf
cp nan.csv nan/rows.csv
cp inf.csv inf/rows.csv
net() {
    echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
    echo 'module Net() { fc = Linear(2, 2); param w: f32[2] = ones(); forward(x) { return fc(log(x) * w) } }'
}
# stops NAME DATA STEP LOSS: the run ends at that step; its record shows the loss.
stops() {
    run 1 "(loss|norm).*(nan|inf).*step $3\b" "./$1" --data "$2" --out "$1_$2" --log none
    local log=$1_$2/log.jsonl
    same "$(grep -c '"event": *"step"' "$log")" "$3" "$1, $2: steps in the log"
    grep '"event": *"step"' "$log" | tail -n 1 >record
    grep -q '"finite": *false' record || fail "$1, $2: the last record is not marked: $(cat record)"
    grep -qE "\"loss\": *\"$4\"" record || fail "$1, $2: the loss is not \"$4\": $(cat record)"
    same "$(grep -c '"finite": *false' "$log")" 1 "$1, $2: records that are not finite"
    grep -q '"event": *"end".*"status": *1' "$log" || fail "$1, $2: the end does not say that it failed"
    [[ ! -e $1_$2/model.safetensors ]] || fail "$1, $2: a model was saved"
    # Every line is JSON: no bare NaN.
    grep -E '[:,] *-?(nan|inf|NaN|Infinity)\b' "$log" && fail "$1, $2: a number that is no JSON"
    true
}
batch=1
for pair in 'f32:SGD(model, lr = 0.1)' 'bf16:Adam(model, lr = 0.01)'; do
    type=${pair%%:*}
    { net; loop "${pair#*:}" $type 'loss = cross_entropy(model(batch.x), batch.label)'; } | compile $type
    stops $type nan 6 nan
    stops $type inf 3 '(nan|inf)'
done
# A gradient alone that is not finite: the loss is, the norm is not.
{
    echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
    echo 'module Net() { param w: f32[2] = zeros(); forward(x) { return sum(sqrt(abs(x * w))) } }'
    clip=1.0 loop 'SGD(model, lr = 0.1)' f32 'loss = model(batch.x)'
} | compile root
run 1 '(norm|gradient).*(nan|inf)' ./root --data nan --out root_run --log none
grep -q '"finite": *false' root_run/log.jsonl || fail "a norm that is not finite is not marked"

# In an evaluation it is not averaged away.
{
    net
    epochs=1 after= loop 'SGD(model, lr = 0.1)' f32 'loss = cross_entropy(fine(model, batch), batch.label)' |
        sed 's/fine(model, batch)/batch.x * mean(model.w)/'
    echo 'mean_loss = evaluate(rows, batch_size = 2) { cross_entropy(model(batch.x), batch.label) }'
} | compile evaluated
train evaluated --data nan
grep '"event": *"eval"' evaluated_run/log.jsonl | grep -q '"loss": *"nan".*"finite": *false\|"finite": *false.*"nan"' ||
    fail "the evaluation's mean is not marked: $(grep eval evaluated_run/log.jsonl)"
finish
