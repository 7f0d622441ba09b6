#!/usr/bin/env bash
# scaler.step() does not say whether it skipped. Every step's record does, with its scale; a skip has a
# record of its own that names what overflowed; the end counts them.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 12 'i == 3 || i == 7 ? 1e5 : rand(), rand(), i % 2'
for optimizer in 'SGD(model, lr = 0.1)' 'AdamW(model, lr = 0.01)'; do
    name=${optimizer%%(*}
    {
        echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
        echo 'module Net() { fc1 = Linear(2, 4); fc2 = Linear(4, 2); forward(x) { return fc2(tanh(fc1(x))) } }'
        batch=1 loop "$optimizer" f16 'loss = cross_entropy(model(batch.x), batch.label)'
    } | compile "$name"
    train "$name" --log text
    log=${name}_run/log.jsonl
    same "$(grep -c '"event": *"step"' "$log")" 12 "$name: steps"
    same "$(grep '"event": *"step"' "$log" | grep -c '"scale": *[0-9.]*,"skipped": *\(true\|false\)')" 12 \
        "$name: steps with scale and skipped"
    same "$(field step overflow "${name}_run" | xargs)" '4 8' "$name: overflow records"
    same "$(field skipped step "${name}_run" | grep -n true | cut -d: -f1 | xargs)" '4 8' "$name: skipped"
    same "$(last skips end "$name")" 2 "$name: skips at the end"
    line=$(last line overflow "$name")
    grep '"event": *"overflow"' "$log" | grep '"tensor": *"fc1.weight","op": *"matmul"' >/dev/null ||
        fail "$name: the overflow record does not name what overflowed"
    [[ $line =~ ^[0-9]+$ ]] && ((line > 0)) || fail "$name: the overflow record has no line: '$line'"
    # The terminal's line shows it, too.
    grep -q 'skips=2' "${name}_run/said" || fail "$name: the closing line does not count the skips"
done

# In bf16 nothing is scaled, and the records say so.
sed 's/autocast(f16)/autocast(bf16)/; /^scaler/d; s/scaler.scale(loss)/loss/; s/scaler.step(optimizer); scaler.update()/optimizer.step()/' \
    SGD.mpt | compile bf16
train bf16
same "$(last scale step bf16) $(last skipped step bf16) $(last skips end bf16)" 'null false 0' "bf16"
finish
