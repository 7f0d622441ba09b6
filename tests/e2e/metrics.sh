#!/usr/bin/env bash
# metrics.sh: every metric of an evaluation, against a plain calculation from the same table in awk, and the
# same digits for any batch size and number of threads; what is refused.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

# 61 rows: the logits stand in the table, some in two halves of which the larger is not the label.
awk 'BEGIN {
    seed = 17
    print "a,b,c,label,t,x,bin"
    for (i = 0; i < 61; i++) {
        for (k = 0; k < 6; k++) { seed = (seed * 1103515245 + 12345) % 2147483648; u[k] = int(seed / 65536) % 1000 }
        printf "%g,%g,%g,%d,%g,%g,%d\n", u[0] / 250, u[1] / 250, u[2] / 250, u[3] % 3, u[4] / 100,
            u[4] / 100 + (u[5] - 500) / 400, (u[0] + u[5] > 1000)
    }
}' >"$tmp/table.csv"
cat >"$tmp/metrics.mpt" <<'END'
option size = 8
data table = csv("table.csv") -> (logits: f32[3] = columns("a".."c"), label: i32, t: f32, x: f32, bin: u8)
module Net() {
    param scale: f32[1] = ones()
    forward(x) { return x * scale }
}
model     = Net()
optimizer = SGD(model, lr = 0.0)
for batch in loader(table, batch_size = size) {
    backward(cross_entropy(model(batch.logits), batch.label))
    optimizer.step()
    zero_grad(optimizer)
}
acc, top, p, r, f, micro, weighted, m, r2, e2, e1, ppl = evaluate(table, batch_size = size) {
    y = model(batch.logits)
    accuracy(y, batch.label), top_k_accuracy(y, batch.label, k = 2), precision(y, batch.label), \
        recall(y, batch.label), f1(y, batch.label), f1(y, batch.label, average = "micro"), \
        f1(y, batch.label, average = "weighted"), matthews_correlation(y, batch.label), \
        confusion_matrix(y, batch.label), r2(batch.x, batch.t), mse(batch.x, batch.t), \
        mae(batch.x, batch.t), perplexity(y, batch.label)
}
pb, rb, fb = evaluate(table, batch_size = size) {
    y = model(batch.logits[:, 0:1]) - 2
    precision(y, batch.bin), recall(y, batch.bin), f1(y, batch.bin)
}
bad, bad_f1, bad_top, bad_mse = evaluate(table, batch_size = size) {
    y = log(model(batch.logits) - 1)
    accuracy(y, batch.label), f1(y, batch.label), top_k_accuracy(y, batch.label, k = 3), \
        mse(log(batch.x - 5), batch.t)
}
# Rows with several labels each: as many rows as there are labels.
two, two_f1 = evaluate(table, batch_size = size) {
    y = stack([model(batch.logits), 0 - model(batch.logits)], dim = 1)
    label = stack([batch.label, batch.label], dim = 1)
    accuracy(y, label), f1(y, label, average = "micro")
}
END
quietly "$mpc" --cpu=generic -O0 "$tmp/metrics.mpt" -o "$tmp/metrics"
for size in 8 7 1; do
    "$tmp/metrics" --size "$size" --threads $((size % 2 + 1)) --out "$tmp/run$size" >"$tmp/said$size" 2>&1 ||
        fail "batches of $size: $(cat "$tmp/said$size")"
    grep '"event":"eval"' "$tmp/run$size/log.jsonl" | sed -E 's/"(step|seconds)":[^,}]*//g' >"$tmp/values$size"
done
cmp -s "$tmp/values8" "$tmp/values7" || fail "batches of 8 and 7: $(diff "$tmp/values8" "$tmp/values7")"
cmp -s "$tmp/values8" "$tmp/values1" || fail "batches of 8 and 1: $(diff "$tmp/values8" "$tmp/values1")"

# A row whose logits are no numbers is never averaged away.
sed -n 3p "$tmp/values8" | grep -F '"accuracy":"nan","f1":"nan","top_3_accuracy":"nan","mse":"nan"' >/dev/null ||
    fail "logits that are no numbers: $(sed -n 3p "$tmp/values8")"
sed -n 4p "$tmp/values8" | sed -E 's/.*"accuracy":([^,]*),"f1":([^,]*),.*/\1 \2/' | {
    read -r a b
    holds "$a - $b < 1e-12 && $b - $a < 1e-12" || fail "two labels a row: $a, $b"
}

# The same by loops over rows and classes.
awk -F, 'NR > 1 {
    n++; best = $1 >= $2 && $1 >= $3 ? 0 : $2 >= $3 ? 1 : 2
    count[$4, best]++; own = $($4 + 1); before = ($1 > own) + ($2 > own) + ($3 > own); hits += before < 2
    loss += log(exp($1) + exp($2) + exp($3)) - own
    t[n] = $5; sum += $5; e2 += ($6 - $5) ^ 2; e1 += $6 > $5 ? $6 - $5 : $5 - $6
    two[$7, ($1 > 2)]++
}
function share(a, b) { return b ? a / b : 0 }
function put(name, v) { printf "%s %.9g\n", name, v }
END {
    for (c = 0; c < 3; c++) {
        right = count[c, c] + 0; answers = labels = 0
        for (k = 0; k < 3; k++) { answers += count[k, c]; labels += count[c, k] }
        p += share(right, answers); r += share(right, labels); f1 = share(2 * right, answers + labels)
        f += f1; weighted += f1 * labels; all += right
        both += answers * labels; aa += answers ^ 2; ll += labels ^ 2
    }
    for (i = 1; i <= n; i++) spread += (t[i] - sum / n) ^ 2
    put("accuracy", all / n); put("top_2_accuracy", hits / n); put("precision", p / 3); put("recall", r / 3)
    put("f1", f / 3); put("micro", all / n); put("weighted", weighted / n)
    put("matthews_correlation", (all * n - both) / sqrt((n * n - aa) * (n * n - ll)))
    put("r2", 1 - e2 / spread); put("mse", e2 / n); put("mae", e1 / n); put("perplexity", exp(loss / n))
    put("2precision", two[1, 1] / (two[1, 1] + two[0, 1])); put("2recall", two[1, 1] / (two[1, 1] + two[1, 0]))
    put("2f1", 2 * two[1, 1] / (2 * two[1, 1] + two[0, 1] + two[1, 0]))
    printf "[[%d,%d,%d],[%d,%d,%d],[%d,%d,%d]]\n", count[0,0], count[0,1], count[0,2], count[1,0], count[1,1],
        count[1,2], count[2,0], count[2,1], count[2,2]
}' "$tmp/table.csv" >"$tmp/wanted"
while read -r name want; do
    line=1
    [[ $name == 2* ]] && line=2
    if [[ $name == '[['* ]]; then
        grep -F "\"confusion_matrix\":$name" "$tmp/values8" >/dev/null || fail "the confusion matrix is not $name"
        continue
    fi
    got=$(sed -n "${line}p" "$tmp/values8" | sed -nE "s/.*\"${name#2}\":([^,}]*).*/\1/p")
    holds "(${got:-0} - $want) ^ 2 < 1e-12" || fail "$name is '$got', not $want" # inputs are rounded to f32
done <"$tmp/wanted"
grep 'confusion matrix of table' "$tmp/said8" >/dev/null || fail "no table at the end of the run"
[[ $(grep -cE '^ +[012]( +[0-9]+){3}$' "$tmp/said8") == 3 ]] || fail "the table has other rows"

# refused EXPRESSION REGEX
refused() {
    sed "/^pb, rb/,\$d; s/^acc, .*/v = evaluate(table) {/; /confusion_matrix\|mae(\|recall(/d; /f1(y, .*weighted/d
         s/^    accuracy(y.*/    $1/" "$tmp/metrics.mpt" >"$tmp/bad.mpt"
    run 2 "$2" "$mpc" "$tmp/bad.mpt" -o "$tmp/bad"
}
refused 'f1(y, batch.label, average = \"binary\")' '"binary" is for two classes, but these are 3'
refused 'f1(y, batch.label, average = \"macr\")' 'did you mean "macro"'
refused 'precision(batch.label, batch.label)' 'precision takes logits'
refused 'top_k_accuracy(y, batch.label, k = 0)' 'k is at least 1'
refused 'r2(batch.x, batch.logits)' 'r2: the shapes differ'
refused 'f1(y, batch.label) + 1' 'a metric of a whole set'
sed 's/^    backward/    log(f = f1(model(batch.logits), batch.label))\n&/' "$tmp/metrics.mpt" >"$tmp/bad.mpt"
run 2 'is counted over a whole set: in an evaluation' "$mpc" "$tmp/bad.mpt" -o "$tmp/bad"
finish
