#!/usr/bin/env bash
# "expected scalar type Half but found Float", mostly in the backward. Random models under f16 and bf16
# compile, verify after every pass, and compute what the interpreter computes: no type error can be left
# to the run. (tests/ops runs more and larger graphs.)
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d,e,f,g,h,label 4 'rand(), rand(), -rand(), rand(), 1, rand(), rand(), -rand(), i % 3'

# model SEED TYPE: a network of random layers, types written here and there, with every kind of use.
model() {
    awk -v seed="$1" -v type="$2" '
    function pick(list,   n, v) { n = split(list, v, "|"); return v[int(rand() * n) + 1] }
    function step(x) {
        return pick("fc" layer "(X)|X @ w" layer "|linear(X, w" layer ", b)|relu(X)|gelu(X) * X|tanh(X) + f32(X)|" \
            "cast(X, " pick("f32|f16|bf16") ") * 2|layer_norm(X, [8])|softmax(X) - X|X * b|X / (abs(X) + 0.5)|" \
            "cat([X[:, 0..4], sigmoid(X)[:, 4..8]], dim = 1)|where(X > 0, X, 0.1 * f32(X))|exp(clamp(X, max = 1))@f32|" \
            "X + mean(X, dim = 1, keepdim = true)|X.reshape(-1, 2, 4).transpose(1, 2).reshape(-1, 8)|" \
            "f16(X) * bf16(X)|maximum(X, b)|dropout(X, 0.25)|rms_norm(X, [8], b)|sqrt(abs(X) + 1) - amax(X, dim = 1, keepdim = true)")
    }
    BEGIN {
        srand(seed)
        print "data rows = csv(\"rows.csv\") -> (x: f32[8] = columns(\"a\"..\"h\"), label: i32)"
        print "module Net() {"
        for (layer = 0; layer < 3; layer++)
            print "    fc" layer " = Linear(8, 8)\n    param w" layer ": f32[8, 8] = uniform(-0.3, 0.3)"
        print "    param b: f32[8] = uniform(-1, 1)\n    head = Linear(8, 3)"
        print "    forward(x) {"
        for (i = 0; i < 7; i++) {
            layer = int(rand() * 3)
            text = step()
            gsub(/X/, rand() < 0.2 ? "f32(x)" : "x", text)
            if (rand() < 0.15) print "        with precision(" pick("f32|" type) ") { y = " text " }\n        x = x + y"
            else print "        x = " (rand() < 0.4 ? "x + " : "") text
        }
        print "        return head(x)\n    }\n}"
    }'
}
seeds=${FIELD_SEEDS:-40}
for seed in $(seq "$seeds"); do
    for type in f16 bf16; do
        { model "$seed" $type; loop 'AdamW(model, lr = 1e-3)' $type 'loss = cross_entropy(model(batch.x), batch.label)'; } >m.mpt
        if ! "$mpc" m.mpt --emit=ir --verify-ir >ir 2>said; then
            fail "random model $seed in $type: $(grep -m 1 error said)"
            sed 's/^/    /' m.mpt >&2
        fi
        # Every matrix product has one type on both sides.
        grep -E '= (linear|matmul) ' ir >products || true
        if ((seed % 20 == 0)); then
            "$mpc" m.mpt --emit=ir --verify-passes -v >verified 2>&1 || fail "random model $seed in $type: $(grep -m 1 error verified)"
            compile run <m.mpt
            train run --epochs 1
            rm -rf run_run
        fi
    done
done
finish
