#!/usr/bin/env bash
# large.sh: large inputs take time in proportion: a model of a thousand ops, and one of four thousand; 100,000 options.
# Judged by CPU time, with a wide margin: what grows with the square takes many times as long.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

# deep N: a model of N blocks of layer norm, linear, relu and a sum.
deep() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[64] = columns("a".."b"), label: i32)
module Block() { norm = LayerNorm(64); fc = Linear(64, 64); forward(x) { return x + relu(fc(norm(x))) } }
module Net() {
    blocks = [Block() for i in 0..$1]
    head = Linear(64, 3)
    forward(x) {
        for b in blocks { x = b(x) }
        return head(x)
    }
}
trainer { model = Net(); train_dataset = rows; fp16 = true; per_device_train_batch_size = 32; max_grad_norm = 1.0 }
END
}
# within SECONDS WHAT COMMAND...: of CPU time, in one of three tries.
within() {
    local most=$1 what=$2 t TIMEFORMAT=%U
    shift 2
    for _ in 1 2 3; do
        t=$({ time "$@" >out 2>err; } 2>&1) || fail "$* fails: $(tail -n 2 err)"
        echo "$what: $t s"
        holds "$t <= $most" && return
    done
    if ! grep -q 'CMAKE_BUILD_TYPE:STRING=Debug\|MPC_SANITIZE:STRING=[a-z]' "$(dirname "$mpc")/../CMakeCache.txt" 2>/dev/null; then
        fail "$what takes $t s"
    fi
}

deep 64 >small.mpt
deep 256 >large.mpt
ops=$("$mpc" small.mpt --emit=ir --stop-after=infer | grep -c '^  %')
((ops >= 1000)) || fail "the small model has $ops ops only"
within 0.5 "--explain of $ops ops" "$mpc" small.mpt --explain
within 1.0 "C of $ops ops" "$mpc" small.mpt --emit=c
within 4.0 "C of four times as many" "$mpc" large.mpt --emit=c

{
    for ((i = 0; i < 100000; i++)); do echo "option o$i = $i"; done
    sed "s|\"data/|\"$examples/data/|" "$examples/digits.mpt"
} >many.mpt
within 4.0 "100,000 options" "$mpc" many.mpt --stop-after=infer
{ head -n 5000 many.mpt && tail -n +100001 many.mpt; } >fewer.mpt
quietly "$mpc" fewer.mpt -O0 --cpu=generic -o train
./train --help >help
(($(grep -cE '^  --o[0-9]+ N +default [0-9]+$' help) == 5000)) || fail "--help does not list 5,000 options"
run 0 '^o4999 += 7 ' ./train --o4999=7 --print-config
run 2 'did you mean --o4999' ./train --oo4999=7
finish
