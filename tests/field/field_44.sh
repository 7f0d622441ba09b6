#!/usr/bin/env bash
# A weight that is used twice has its gradients summed in fp16: 1 + 2^-12 is 1. Here they are f32 from
# the accumulator on, and so is their sum.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv one,small,index 1 '1, 2 ^ -12, 0'
# The parameters are 0 at the start; one step of SGD with rate 1 makes each minus its gradient.
for type in f16 bf16 f32; do
    {
        cat <<'END'
data rows = csv("rows.csv") -> (one: f32[1], small: f32[1], index: i32)
module Net() {
    param linears: f32[1, 1] = zeros()
    param products: f32[1, 1] = zeros()
    param table: f32[1, 1] = zeros()
    param three: f32[1, 1] = zeros()
    param bias: f32[1] = zeros()
    forward(one, small, index) {
        y = sum(linear(one, linears)) + sum(linear(small, linears))
        y = y + sum(one @ products) + sum(small @ products.T)
        y = y + sum(embedding(index, table)) + sum(linear(small, table))
        y = y + sum(one @ three) + sum(small @ three) * 0.5 + sum(three[0] * small) * 0.5
        return y + sum(linear(one, ones(1, 1), bias)) + sum(linear(small, ones(1, 1), bias) * small)
    }
}
END
        scaler_args='init_scale = 1024' batch=1 loop 'SGD(model, lr = 1.0)' $type \
            'loss = model(batch.one, batch.small, batch.index)'
    } | compile $type
    train $type
    for name in linears products table three bias; do
        got=$(weights $type $name | xargs)
        [[ $got == -1.0002441* ]] || fail "$type: the gradient of $name is $got, less 1.0002441"
    done
done

# Many small gradients after a large one, over the batch: 1 + 4096 * 2^-13 = 1.5.
table rows.csv one,small,index 4097 'i == 0 ? 1 : 2 ^ -13, 0, 0'
for type in f16 bf16; do
    {
        echo 'data rows = csv("rows.csv") -> (one: f32[1], small: f32[1], index: i32)'
        echo 'module Net() { param w: f32[1, 1] = zeros(); forward(x) { return sum(linear(x, w)) } }'
        scaler_args='init_scale = 1024' batch=4097 loop 'SGD(model, lr = 1.0)' $type 'loss = model(batch.one)'
    } | compile sum_$type
    train sum_$type
    same "$(weights sum_$type w | xargs)" -1.5 "$type: a sum over the batch"
done
finish
