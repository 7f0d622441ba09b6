#!/usr/bin/env bash
# Means and sums of half numbers overflow on the way, though the result fits. They are f32.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a 4 '1'
for type in f16 bf16; do
    {
        echo 'data rows = csv("rows.csv") -> (a: f32)'
        echo 'module Net() { param w: f32[1] = ones(); forward(x) { return x * w } }'
        after='print("means", one, each, columns, all, deep)'
        after+='; print("sums", long, short, variance, largest, count)'
        loop 'SGD(model, lr = 0.0)' $type \
            'a = batch.a.reshape(-1, 1)' \
            "ones_ = cast(a + zeros(1, 70000), $type)" \
            'one = mean(ones_[0])' 'each = mean(mean(ones_, dim = 1))' \
            'columns = mean(mean(ones_, dim = 0))' 'all = mean(ones_ * 60000)' \
            "deep = mean(cast(a.reshape(-1, 1, 1) + zeros(1, 300, 300), $type), dim = (1, 2))[0]" \
            'long = sum(ones_[0])' 'short = sum(ones_[0, 0:16] * 30000)' \
            'variance = var(ones_[0] * 40000)' 'largest = amax(ones_ * 60000)' \
            "count = sum(cast(ones_[0] > 0, $type))" \
            'loss = mean(model(ones_[:, 0:8]))'
    } | compile $type
    train $type
done
means='1 1 1 60000 1'
same "$(printed means f16)" "$means" "means of f16"
same "$(printed means bf16)" "${means/60000/59904}" "means of bf16"
same "$(printed sums f16)" '70000 480000 0 60000 70000' "sums of f16"
same "$(printed sums bf16)" '70000 479232 0 59904 70000' "sums of bf16"
for type in f16 bf16; do
    dump $type autocast
    grep -E "= (sum|mean|var) .*: $type" $type.autocast && fail "a reduction in $type"
    grep -qE '= sum .*: f32' $type.autocast || fail "$type: no sum in f32"
done
finish
