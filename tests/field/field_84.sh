#!/usr/bin/env bash
# Ahead-of-time training elsewhere: gradients applied by hand, two copies of the model. One program has
# forward, backward, optimizer and evaluation, and one buffer for each weight.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 24 'rand(), rand(), i % 3'
for pair in 'f32:SGD(model, lr = 0.1)' 'f16:AdamW(model, lr = 0.01)'; do
    type=${pair%%:*}
    {
        echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
        echo 'module Net() { fc1 = Linear(2, 64); fc2 = Linear(64, 3); forward(x) { return fc2(relu(fc1(x))) } }'
        epochs=3 after= loop "${pair#*:}" $type 'loss = cross_entropy(model(batch.x), batch.label)'
        echo 'found = evaluate(rows, batch_size = 8) { accuracy(model(batch.x), batch.label) }'
        echo 'print("found", found)'
    } | compile $type
    train $type
    # --eval runs the same evaluation on the saved weights.
    run 0 'accuracy' ./$type --eval --init ${type}_run/model.safetensors --out ${type}_eval --log text
    grep -qF "$(last found eval $type | cut -c1-6)" said || grep -qF "$(last accuracy eval $type | cut -c1-6)" said ||
        fail "$type: --eval finds other than the run: $(cat said)"
    # One buffer of a weight's size and role; a working copy where the products outweigh the weight.
    ./$type --plan=full >plan
    for name in fc1.weight fc2.weight; do
        same "$(grep -cE " f32 .* parameter +$name +\(" plan)" 1 "$type: buffers of $name"
        same "$(grep -cE " f16 .* copy +$name.f16 +\(" plan)" "$([[ $type$name == f16fc1* ]] && echo 1 || echo 0)" "$type: working copies of $name"
    done
    # Nothing else is needed: no interpreter, no library of ours.
    ldd ./$type | grep -vE 'linux-vdso|libm\.|libc\.|ld-linux|libpthread|libz\.' | grep '=>' && fail "$type: further libraries"
    mkdir -p elsewhere
    cp $type rows.csv elsewhere/
    (cd elsewhere && env -i ./$type --out run --log none) || fail "$type does not run elsewhere"
    same_weights ${type}_run elsewhere/run "$type: the copied program"
    rm -rf elsewhere
done
finish
