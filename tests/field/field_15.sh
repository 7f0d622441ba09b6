#!/usr/bin/env bash
# Binary cross entropy of probabilities loses everything in 16 bits, and frameworks refuse it without
# saying where the sigmoid is. Losses of a sigmoid or a softmax are computed from the logits, and say so.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,y,z,label 4 'i == 0 ? 20 : i * 2 - 3, 0.5 * i, 0, i % 2, i % 2'
cat >head <<'END'
data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), a: f32, y: f32, z: f32, label: i32)
module Net() {
    fc = Linear(2, 2)
    forward(x) { return fc(x) }
    odds(x) { return sigmoid(fc(x)) }
}
END
after='print("first", first, worst); print("ways", plain, sliced, cast_, with_logits, nll, ce)' batch=1 epochs=2
for type in f16 bf16 f32; do
    {
        cat head
        loop 'SGD(model, lr = 0.1)' $type "x = cast(batch.a, $type)" \
            'first = bce(sigmoid(x), batch.y)' "worst = bce(sigmoid(x * 500), batch.y)" \
            'plain = binary_cross_entropy(model.odds(batch.x)[:, 0], batch.z)' \
            'sliced = bce(model.odds(batch.x).reshape(-1, 2, 1)[:, 0, 0], batch.z, reduction = "mean")' \
            'cast_ = bce(f32(sigmoid(model(batch.x)[:, 0])), batch.z)' \
            'with_logits = bce_with_logits(model(batch.x)[:, 0], batch.z)' \
            'nll = nll_loss(log(softmax(model(batch.x))), batch.label)' \
            'ce = cross_entropy(model(batch.x), batch.label)' \
            'loss = plain + sliced + cast_ + nll'
    } | compile $type
    train $type
    read -r first worst < <(printed first $type | head -n 1)
    near "$first" 20 1e-6 "$type: bce(sigmoid(20), 0)"
    near "$worst" "$([[ $type == bf16 ]] && echo 9984 || echo 10000)" 1e-6 "$type: bce(sigmoid(10000), 0)"
    while read -r plain sliced cast_ logits nll ce; do
        same "$plain $sliced" "$logits $logits" "$type: losses of a sigmoid"
        near "$cast_" "$logits" 1e-6 "$type: through a cast"
        holds "$nll - $ce < 1e-6 && $ce - $nll < 1e-6" || fail "$type: nll(log(softmax)): $nll, not $ce"
    done < <(printed ways $type)
    (($(last skips end $type) <= 1)) || fail "$type: $(last skips end $type) skipped steps"
    # Said at compile time, and in the dump.
    "$mpc" $type.mpt --emit=ir >ir 2>notes
    grep -qE "^$type.mpt:[0-9]+:.*note:.*bce of a sigmoid.*logits" notes || fail "$type: no note about bce"
    grep -qE "^$type.mpt:[0-9]+:.*note:.*log\(softmax.*log_softmax" notes || fail "$type: no note about nll"
    grep -q 'rewritten' ir || fail "$type: the dump does not tell of the rewriting"
done

# Probabilities from elsewhere: PyTorch's arithmetic, in f32, logarithms above -100 and no NaN.
table p.csv p,y 6 'i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 0 : i == 3 ? 1 : 0.25, i % 4 == 1 || i % 4 == 2 || i == 4 ? 1 : 0'
{
    echo 'data rows = csv("p.csv") -> (p: f32, y: f32)'
    echo 'module Net() { param w: f32[1] = ones(); forward(x) { return x * w } }'
    batch=1 epochs=1 after='print("each", loss)'
    loop 'SGD(model, lr = 0.0)' f16 'loss = bce(f16(batch.p) * 1, batch.y) + mean(model(batch.p)) * 0'
} | compile given
train given
same "$(printed each given | tr '\n' ' ')" '0 0 100 100 1.38629 1.38629 ' "losses of probabilities"
{
    echo 'data rows = csv("p.csv") -> (p: f32, y: f32)'
    echo 'module Net() { param w: f32[1] = ones(); forward(x) { return x * w } }'
    batch=6 epochs=2 after=
    loop 'Adam(model, lr = 0.01)' bf16 'loss = bce(model(batch.p), batch.y)'
} | compile trained
train trained
finish
