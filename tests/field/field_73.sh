#!/usr/bin/env bash
# bf16 autocast is many times slower than f32 on CPUs without native bf16, or with odd shapes. 16-bit
# operands are converted while a product is packed, so it costs what f32 costs. (Time is compared within
# one run, with room for a loaded machine; bench/ measures it.)
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 256 'rand(), rand(), i % 10'
# odd NAME INPUT HIDDEN BATCH
odd() {
    cat >"$1.mpt" <<END
data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)
module Net() {
    fc1 = Linear(2, $2); fc2 = Linear($2, $3); fc3 = Linear($3, $3); head = Linear($3, 10)
    forward(x) { return head(gelu(fc3(relu(fc2(relu(fc1(x))))))) }
}
END
    epochs=2 batch=$4 loop 'SGD(model, lr = 0.01)' f32 'loss = cross_entropy(model(batch.x), batch.label)' >>"$1.mpt"
    local type n
    for type in f32 bf16; do
        quietly "$mpc" "$1.mpt" --precision=$type -O2 -o "$1_$type"
    done
    # The least user time of four runs each, taken in turn.
    TIMEFORMAT=%U
    for n in 1 2 3 4; do
        for type in f32 bf16; do
            { time "./$1_$type" --threads 1 --out "${1}_run" --log none >/dev/null 2>&1; } 2>>"$1_$type.times"
            rm -rf "${1}_run"
        done
    done
    local full low
    full=$(sort -g "$1_f32.times" | head -n 1)
    low=$(sort -g "$1_bf16.times" | head -n 1)
    holds "$low <= 1.6 * $full + 0.02" || fail "$1: $low s in bf16, $full s in f32"
}
odd odd 131 197 37
finish
