#!/usr/bin/env bash
# A tool that searches for a mixed precision takes a quarter of an hour and prints garbage. --explain of
# a model of DistilBERT's depth is there at once, one line an op, none wider than a terminal.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

cat >bert.mpt <<'END'
data rows = csv("rows.csv") -> (tokens: i32[32] = columns("t0".."t31"), label: i32)
module Attention(d, heads) {
    q = Linear(d, d); k = Linear(d, d); v = Linear(d, d); out = Linear(d, d)
    split(x) { return x.reshape(-1, 32, heads, d // heads).transpose(1, 2) }
    forward(x) {
        p = softmax(split(q(x)) @ split(k(x)).mT / sqrt(d // heads), dim = -1)
        return out((p @ split(v(x))).transpose(1, 2).reshape(-1, 32, d))
    }
}
module Layer(d) {
    attention = Attention(d, 12); norm_1 = LayerNorm(d, eps = 1e-12)
    fc1 = Linear(d, 4 * d); fc2 = Linear(4 * d, d); norm_2 = LayerNorm(d, eps = 1e-12); drop = Dropout(0.1)
    forward(x) {
        x = norm_1(x + drop(attention(x)))
        return norm_2(x + drop(fc2(gelu(fc1(x)))))
    }
}
module Bert(layers = 6, d = 768) {
    words = Embedding(30522, d); places = Embedding(512, d); norm = LayerNorm(d, eps = 1e-12)
    layer = [Layer(d) for i in 0..layers]
    pre = Linear(d, d); head = Linear(d, 2)
    forward(tokens) {
        x = norm(words(tokens) + places(iota(32)))
        for l in layer { x = l(x) }
        return head(relu(pre(x[:, 0])))
    }
}
trainer { model = Bert(); train_dataset = rows; fp16 = true; learning_rate = 5e-5; per_device_train_batch_size = 8 }
END
TIMEFORMAT=%U
for form in text json; do
    { time "$mpc" bert.mpt --explain=$form >explained.$form 2>said; } 2>times || fail "no explanation: $(head -n 3 said)"
    seconds=$(tail -n 1 times)
    holds "$seconds < 2" || fail "--explain=$form takes $seconds s"
done
# Every matrix product of the six layers is in the table, with its reason.
same "$(grep -c ' linear .*on the low-precision list' explained.text)" $((6 * 6 + 2)) "linears in the table"
(($(grep -c ' softmax .*f32' explained.text) == 6)) || fail "softmaxes in the table"
same "$(awk 'length > 110' explained.text | wc -l)" 0 "lines that are too wide"
grep -qE '[0-9]+ ops in f16, [0-9]+ in f32, [0-9]+ casts' explained.text || fail "no summary line"
same "$(grep -o '"op": *"linear"' explained.json | wc -l)" $((6 * 6 + 2)) "linears in the JSON"
finish
