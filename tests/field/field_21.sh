#!/usr/bin/env bash
# Parameters of a batch normalisation are cast to fp16: a running variance above 65504 becomes inf, and
# the output 0. They are f32, in memory and in files, and such a layer computes what it should.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv "$(echo p{0..31} | tr ' ' ,),label" 8 "$(printf '2000 * (rand() - 0.5), %.0s' {0..31}) i % 2"
for type in f16 bf16; do
    {
        cat <<'END'
data rows = csv("rows.csv") -> (x: f32[32] = columns("p0".."p31"), label: i32)
module Net() {
    norm = BatchNorm2d(2)
    head = Linear(2, 2)
    forward(x) {
        y = norm(x.reshape(-1, 2, 4, 4))
        return head(mean(abs(y), dim = (2, 3))), mean(abs(f32(y)))
    }
}
END
        epochs=40 batch=8 loop 'SGD(model, lr = 0.01)' $type 'logits, size = model(batch.x)' \
            'loss = cross_entropy(logits, batch.label)'
        echo 'seen = evaluate(rows, batch_size = 8) {'
        echo "with autocast($type) { logits, size = model(batch.x) }"
        echo 'size }'
        echo 'print("size", seen)'
    } | compile $type
    train $type
    # A variance of 2000^2 / 12; evenly spread numbers have a mean magnitude of 0.87 deviations.
    for v in $(weights $type norm.running_var); do
        holds "$v > 1e5 && $v < 6e5" || fail "$type: the running variance is $v"
    done
    size=$(printed size $type | tail -n 1)
    holds "$size > 0.75 && $size < 0.98" || fail "$type: the normalised rows have a mean magnitude of $size"
    ./$type --plan=full | grep -E " norm.(weight|bias|running_var|running_mean) +\\(" | grep -vE " always +f32 " && fail "$type: a part of the layer is not f32"
    ./$type --plan=full | grep -qE 'always +f32 .* norm.running_var +\(2\)' || fail "$type: no running variance in the plan"
    # Through a file, too.
    run 0 . ./$type --eval --init ${type}_run/model.safetensors --out ${type}_eval --log text
    [[ $(cat said) != *nan* && $(cat said) != *inf* ]] || fail "$type: the loaded layer: $(cat said)"
done
finish
