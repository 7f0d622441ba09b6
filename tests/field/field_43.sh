#!/usr/bin/env bash
# A forward without gradients comes first, its cast of a weight is reused, and the weight gets no
# gradient. Here both forwards share the cast, and the gradients are those of the run without it.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,label 16 'rand(), rand(), -rand(), i % 3'
cat >head <<'END'
data rows = csv("rows.csv") -> (x: f32[3] = columns("a".."c"), label: i32)
module Net() {
    fc1  = Linear(3, 8)
    norm = LayerNorm(8)
    fc2  = Linear(8, 3)
    forward(x) { return fc2(relu(norm(fc1(x)))) }
}
END
train_step=('loss = cross_entropy(model(batch.x), batch.label)')
# check TYPE OPTIMIZER
check() {
    local type=$1 optimizer=$2
    { cat head; loop "$optimizer" $type "${train_step[@]}"; } | compile plain
    train plain
    { cat head; loop "$optimizer" $type 'with no_grad { before = mean(model(batch.x)) }' "${train_step[@]}"; } | compile first
    train first
    same_weights plain_run first_run "$type: a forward without gradients before"
    { cat head; loop "$optimizer" $type 'frozen = detach(model(batch.x))' "${train_step[@]}" \
        'loss = loss + 0 * mse_loss(model(batch.x), frozen)'; } | compile target
    train target
    # An evaluation in the middle of training, on the same working copies.
    { cat head; after='if true { seen = evaluate(rows) { mean(model(batch.x)) } }' loop "$optimizer" $type "${train_step[@]}"; } | compile evaluated
    train evaluated
    same_weights plain_run evaluated_run "$type: evaluations between the steps"
    # Every parameter has moved.
    ./plain --epochs 0 --out start_run --log none >/dev/null 2>&1
    for name in fc1.weight fc1.bias norm.weight norm.bias fc2.weight fc2.bias; do
        [[ $(weights start $name) != "$(weights first $name)" ]] || fail "$type: $name has no gradient"
        [[ $(weights start $name) != "$(weights target $name)" ]] || fail "$type: $name has no gradient beside its target"
    done
    rm -rf ./*_run
}
check f16 'Adam(model, lr = 0.01)'
check bf16 'SGD(model, lr = 0.1, momentum = 0.9)'
finish
