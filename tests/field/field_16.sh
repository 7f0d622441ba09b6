#!/usr/bin/env bash
# bce_with_logits gives NaN for logits of -inf (a class that is ruled out). It costs nothing where the
# target is 0, is infinite where it is 1, and then the run stops and says so.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,zero,one,half 4 'i / 4, 0, 1, 0.5'
cat >head <<'END'
data rows = csv("rows.csv") -> (a: f32, zero: f32, one: f32, half: f32)
module Net() { param w: f32[1] = ones(); forward(x) { return x * w } }
END
after='print("losses", below, above, mixed, finite, half, weight)' epochs=2
for type in f16 bf16 f32; do
    {
        cat head
        loop 'Adam(model, lr = 0.125)' $type "none_ = cast(log(batch.zero), $type)" \
            'below = bce_with_logits(none_, batch.zero)' \
            'above = bce_with_logits(-none_, batch.one)' \
            'mixed = bce_with_logits(where(batch.a > 0.3, model(batch.a), none_), batch.zero)' \
            'finite = mean(softplus(where(batch.a > 0.3, f32(model(batch.a)), -1e30)))' \
            'half = bce_with_logits(model(batch.a), batch.half)' \
            'weight = mean(model(batch.one))' 'loss = mixed + half + below + above'
    } | compile $type
    train $type
    while read -r below above mixed finite half weight; do
        same "$below $above" '0 0' "$type: certain and right"
        near "$mixed" "$finite" 1e-5 "$type: rows of -inf beside others"
        holds "$half > 0.1 && $half < 10" || fail "$type: $half"
    done < <(printed losses $type)
    holds "$(weights $type w | tr -d ' ') < 0.99" || fail "$type: nothing was learned"

    {
        cat head
        after= loop 'SGD(model, lr = 0.1)' $type "none_ = cast(log(batch.zero), $type)" \
            'loss = bce_with_logits(none_ + 0 * model(batch.a), batch.one)'
    } | compile wrong_$type
    run 1 'loss.*(inf|nan|not finite)|not finite|skipped' ./wrong_$type --out wrong_${type}_run --log none --epochs 30
    grep -q '"finite": *false' wrong_${type}_run/log.jsonl || fail "$type: no record of the infinite loss"
    grep -qE '"loss": *"inf"' wrong_${type}_run/log.jsonl || fail "$type: the loss is not logged as inf"
done
finish
