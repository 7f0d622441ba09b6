#!/usr/bin/env bash
# The norm of the gradients, reduced in 16 bits (or squared in f32), is NaN, inf or 0. It is a sum of
# squares in f64: right for many small gradients, and for those whose squares leave f32's range.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a 4 '1'
# norm NAME TYPE GRADIENT NUMBERS: two parameters of that many numbers, each with that gradient.
norm() {
    {
        cat <<END
data rows = csv("rows.csv") -> (a: f32)
module Net() {
    param v: f32[$4] = zeros()
    param m: f32[10, $(($4 / 10))] = zeros()
    forward(x) { return (sum(v) + sum(m)) * mean(x) * $3 }
}
END
        clip=1e-3 batch=2 loop 'SGD(model, lr = 1.0)' $2 'loss = model(batch.a)'
    } | compile "$1"
    train "$1" --threads 2
    want=$(awk "BEGIN { printf \"%.9g\", $3 * sqrt(2 * $4) }")
    near "$(last grad_norm step "$1")" "$want" 1e-5 "$1: the norm"
    # Two steps of the clipped gradient: the norm is 1e-3 or, where it was smaller, what it was.
    first=$(weights "$1" v 1)
    want=$(awk "BEGIN { n = $want; k = 1e-3 / (n + 1e-6); printf \"%.9g\", -2 * $3 * (k < 1 ? k : 1) }")
    near "${first// /}" "$want" 1e-5 "$1: a clipped step"
    dump "$1" scaling
    grep -E 'name\("[^"]*(sumsq|norm)' "$1.scaling" | grep -E '= (sum|add|sqrt) ' | grep -v ': f64' &&
        fail "$1: a part of the norm is not f64"
    grep -qE '= sum .*: f64' "$1.scaling" || fail "$1: no sum in f64"
}
norm many f16 1e-4 1000000
norm many_bf16 bf16 1e-4 300000
norm tiny f32 1e-25 1000
norm huge f32 1e25 1000
norm huge_bf16 bf16 3e30 1000
norm one f16 0.5 10
# In f16, the scale times 1e25 is still finite in f32, so no step is skipped.
norm scaled f16 1e25 1000
same "$(last skips end scaled)" 0 "skipped steps"
finish
