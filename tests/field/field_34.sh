#!/usr/bin/env bash
# Gradients divided by the scale twice, or clipped before they are divided: with clipping, a manual
# unscale and scaler.step together. There is one unscale an update, whoever asks for it, and anything
# else is refused; with accumulation, too. (A skip on a large norm cannot be written yet.)
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,label 16 'rand(), rand(), rand(), i % 2'
# program NAME OPTIMIZERS STATEMENTS: a loop with a scaler and these statements behind the backward.
program() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[3] = columns("a".."c"), label: i32)
module Net() { fc1 = Linear(3, 5); fc2 = Linear(5, 2); forward(x) { return fc2(tanh(fc1(x))) } }
model = Net()
$1
scaler = GradScaler(init_scale = ${scale:-65536})
for batch in loader(rows, batch_size = 4) {
    with autocast(f16) { loss = cross_entropy(model(batch.x), batch.label) }
    backward(scaler.scale(loss))
$2
    scaler.update()
    zero_grad(optimizer)
    log(loss)
}
END
}
# once NAME PARAMETERS: in the dump each gradient is multiplied by the inverse scale exactly once.
once() {
    dump "$1" scaling
    local inverse
    inverse=$(sed -nE 's/^ *(%[0-9]+) = cast .*name\("[^"]*inv_scale.*/\1/p' "$1.scaling")
    [[ -n $inverse ]] || { fail "$1: no inverse scale in the dump"; return; }
    local count=0 i
    for i in $inverse; do
        count=$((count + $(grep -cE "= mul .*$i\b.*name\(\"[^\"]*\.grad\"" "$1.scaling" || true)))
    done
    same "$count" "$2" "$1: products with the inverse scale"
}
adam='optimizer = AdamW(model, lr = 0.01)'
sgd='optimizer = SGD(model, lr = 0.1, momentum = 0.9)'
for optimizer in "$adam" "$sgd"; do
    program "$optimizer" '    scaler.step(optimizer)' >bare.mpt
    once bare 4
    program "$optimizer" $'    scaler.unscale(optimizer)\n    scaler.step(optimizer)' >manual.mpt
    once manual 4
    program "$optimizer" $'    scaler.unscale_(optimizer)\n    clip_grad_norm_(model.parameters(), 0.05)\n    scaler.step(optimizer)' >clipped.mpt
    once clipped 4
    program "$optimizer" $'    scaler.unscale(optimizer)\n    clip_grad_value(model, 0.01)\n    scaler.step(optimizer)' >valued.mpt
    once valued 4
    [[ $optimizer == "$adam" ]] || continue
    for name in bare manual clipped; do
        quietly "$mpc" $name.mpt -O0 --cpu=generic -o $name
        train $name
    done
    same_weights bare_run manual_run "an explicit unscale"
    # The scale leaves no trace in what is learned.
    scale=1 program "$optimizer" $'    scaler.unscale_(optimizer)\n    clip_grad_norm_(model.parameters(), 0.05)\n    scaler.step(optimizer)' | compile unit
    train unit
    paste -d' ' <(weights clipped fc1.weight | tr ' ' '\n') <(weights unit fc1.weight | tr ' ' '\n') |
        awk '$1 != "" && ($1 - $2 > 2e-3 || $2 - $1 > 2e-3) { bad = 1 } END { exit bad }' ||
        fail "clipping depends on the scale"
    rm -rf ./*_run
done
two=$'optimizer = SGD(model.fc1, lr = 0.1)\nsecond = Adam(model.fc2, lr = 0.01)'
program "$two" $'    scaler.unscale(optimizer)\n    scaler.unscale(second)\n    clip_grad_norm(model, 1.0)\n    scaler.step(optimizer)\n    scaler.step(second)\n    zero_grad(second)' | compile both
once both 4
train both

# Four batches an update: still one division, in the update.
cat >window.mpt <<'END'
data rows = csv("rows.csv") -> (x: f32[3] = columns("a".."c"), label: i32)
module Net() { fc1 = Linear(3, 5); fc2 = Linear(5, 2); forward(x) { return fc2(tanh(fc1(x))) } }
model = Net(); optimizer = AdamW(model, lr = 0.01); scaler = GradScaler(); train = loader(rows, batch_size = 2)
for i, batch in enumerate(train) {
    with autocast(f16) { loss = cross_entropy(model(batch.x), batch.label) }
    backward(scaler.scale(loss), average = true)
    if i % 4 == 3 {
        scaler.unscale(optimizer); clip_grad_norm(model, 1.0)
        scaler.step(optimizer); scaler.update(); zero_grad(optimizer); log(loss)
    }
}
END
once window 4
quietly "$mpc" window.mpt -O0 --cpu=generic -o window
train window
same "$(last steps end window) $(last skips end window)" '2 0' "updates of 8 batches"

program "$adam" $'    scaler.unscale(optimizer)\n    scaler.unscale(optimizer)\n    scaler.step(optimizer)' |
    refused twice 'error: .*unscale'
program "$adam" $'    clip_grad_norm(model, 1.0)\n    scaler.step(optimizer)' | refused early 'error: .*(clip|unscale)'
program "$adam" $'    scaler.step(optimizer)\n    scaler.unscale(optimizer)' | refused late 'error: .*unscale'
program "$adam" $'    clip_grad_norm(model, 1.0)\n    scaler.unscale(optimizer)\n    scaler.step(optimizer)' |
    refused before 'error: .*(clip|unscale)'
finish
