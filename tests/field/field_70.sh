#!/usr/bin/env bash
# The loss jumps after a reload, because the masters were saved as fp16. Checkpoints and models hold f32
# masters: the first loss after a resume, or after loading the model, is the one that would have come.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 8 'rand(), rand(), i % 2'
for pair in 'f16:Adam(model, lr = 0.01)' 'bf16:SGD(model, lr = 0.05)'; do
    type=${pair%%:*}
    {
        echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
        echo 'module Net() { fc1 = Linear(2, 16); fc2 = Linear(16, 2); forward(x) { return fc2(tanh(fc1(x))) } }'
        epochs=6 batch=8 loop "${pair#*:}" $type 'loss = cross_entropy(model(batch.x), batch.label)'
    } | compile $type
    train $type --seed 2
    mv ${type}_run ${type}_whole
    train $type --seed 2 --max-steps 3
    grep -aoE '"fc1.weight":\{"dtype":"F32"' ${type}_run/checkpoints/step-3/state.safetensors >/dev/null ||
        fail "$type: the checkpoint's master is not f32"
    # The numbers have more digits than 16 bits hold.
    weights $type fc1.weight | tr ' ' '\n' | grep -cE '\.[0-9]{6,}' >digits || true
    (($(cat digits) > 10)) || fail "$type: the saved weights look rounded"
    cp ${type}_run/model.safetensors three.safetensors
    train $type --resume --max-steps 100
    same "$(field loss step ${type}_run | xargs)" "$(field loss step ${type}_whole | xargs)" "$type: losses"
    same_weights ${type}_run ${type}_whole "$type: after a resume"
    rm -rf ${type}_run
    train $type --init three.safetensors --max-steps 1
    same "$(last loss step $type)" "$(field loss step ${type}_whole | sed -n 4p)" "$type: the first loss of the loaded model"
    rm -rf ${type}_run ${type}_whole
done
finish
