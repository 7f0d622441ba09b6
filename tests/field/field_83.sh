#!/usr/bin/env bash
# fp16 without a gradient scaler: small gradients become 0 and nobody says so. The compiler refuses it
# with the line, unless the file switches a scaler off.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d,label 8 'rand(), rand(), rand(), rand(), i % 3'
# program TYPE SCALER LOSS STEP NET
program() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"), label: i32)
module Net() { ${5:-fc = Linear(4, 3); forward(x) { return fc(x) \}} }
model = Net()
optimizer = SGD(model, lr = 0.1)
$2
for batch in loader(rows, batch_size = 4) {
    with autocast($1) { loss = cross_entropy(model(batch.x), batch.label) }
    backward($3)
    $4
    zero_grad(optimizer)
    log(loss)
}
END
}
step='optimizer.step()'
matmul='param w: f32[3, 4] = ones(); forward(x) { return x @ w.T }'
deep='fc1 = Linear(4, 4); fc2 = Linear(4, 3); forward(x) { return fc2(relu(fc1(x))) }'
for net in '' "$matmul" "$deep"; do
    program f16 '' loss "$step" "$net" | refused bare 'bare.mpt:[0-9]+:5: error: .*f16 without a loss scale'
    grep -q 'note:.*GradScaler(enabled = false)' said || fail "no hint of the way out"
    grep -qE 'note: (linear|matmul) is in f16' said || fail "the op in f16 is not shown"
done
# A scaler that the backward does not use is none.
program f16 'scaler = GradScaler()' loss "$step" | refused unused 'error: .*(f16 without a loss scale|scaler)'

# What says so, or needs none, is taken.
program f16 'scaler = GradScaler(enabled = false)' 'scaler.scale(loss)' \
    'scaler.step(optimizer); scaler.update()' | compile off
train off
same "$(last scale step off)" null "a scale in the log without a scaler"
program f16 'scaler = GradScaler(enabled = false)' loss "$step" | compile declared
train declared
same_weights off_run declared_run "two ways to have no scale"
program f16 'scaler = GradScaler()' 'scaler.scale(loss)' 'scaler.step(optimizer); scaler.update()' | compile on
train on
same "$(last scale step on)" 65536 "the scale"
program bf16 '' loss "$step" >bf16.mpt
program f16 '' loss "$step" >bare.mpt
program f32 '' loss "$step" >f32.mpt
for way in 'bf16.mpt' 'f32.mpt' 'bare.mpt --precision=f32' 'bare.mpt --precision=bf16' \
    'bare.mpt --precision=fp16' 'bf16.mpt --precision=fp16'; do
    # shellcheck disable=SC2086
    quietly "$mpc" $way --emit=ir
done
"$mpc" bare.mpt --precision=fp16 --emit=ir | grep 'scaler' >/dev/null || fail "--precision=fp16 adds no scaler"

# A trainer block has its own.
cat >trainer.mpt <<'END'
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"), label: i32)
module Net() { fc = Linear(4, 3); forward(x) { return fc(x) } }
trainer { model = Net(); train_dataset = rows; fp16 = true }
END
"$mpc" trainer.mpt --emit=loop | grep 'GradScaler()' >/dev/null || fail "the trainer's loop has no scaler"
quietly "$mpc" trainer.mpt --emit=ir
finish
