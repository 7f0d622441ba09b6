#!/usr/bin/env bash
# The loss is scaled and never unscaled, or only some parameters are. Every way from the scaled loss to
# a parameter passes one division; a file or IR where one does not is refused.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 8 'rand(), rand(), i % 2'
# program STATEMENTS [OPTIMIZERS]
program() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)
module Net() { fc1 = Linear(2, 4); fc2 = Linear(4, 2); forward(x) { return fc2(tanh(fc1(x))) } }
model = Net()
${2:-optimizer = AdamW(model, lr = 0.01)}
scaler = GradScaler()
for batch in loader(rows, batch_size = 4) {
    with autocast(f16) { loss = cross_entropy(model(batch.x), batch.label) }
$1
    log(loss)
}
END
}
two=$'optimizer = SGD(model.fc1, lr = 0.1)\nsecond = Adam(model.fc2, lr = 0.01)'
scaled='backward(scaler.scale(loss))'
clear='zero_grad(optimizer)'
program "$scaled; optimizer.step(); $clear" | refused bare 'error: .*scale'
program "$scaled; optimizer.step(); scaler.update(); $clear" | refused updated 'error: .*scale'
program "$scaled; clip_grad_norm(model, 1.0); optimizer.step(); $clear" | refused clipped 'error: .*scale'
program "$scaled; scaler.step(optimizer); second.step(); scaler.update(); $clear; zero_grad(second)" "$two" |
    refused some 'error: .*scale'
program "backward(loss); scaler.step(optimizer); scaler.update(); $clear" | refused never 'error: .*(scale|not scaled)'
program "$scaled; scaler.step(optimizer); scaler.step(second); scaler.update(); $clear; zero_grad(second)" "$two" |
    compile both
train both

# The same faults in the IR, each made by hand from a program that is right.
program "$scaled; scaler.unscale(optimizer); clip_grad_norm(model, 1.0); scaler.step(optimizer); scaler.update(); $clear" >good.mpt
"$mpc" good.mpt --dump-after=infer >good.ir 2>/dev/null
quietly "$mpc" good.ir --emit=ir
# broken NAME REGEX SED: the changed IR is an error that says REGEX, with the line of the source.
broken() {
    sed -E "$3" good.ir >"$1.ir"
    cmp -s good.ir "$1.ir" && fail "$1: nothing was broken"
    run 2 "$2" "$mpc" "$1.ir" --emit=ir
    grep -qE ':[0-9]+:[0-9]+: error' said || fail "$1: the error has no place"
}
marker=$(sed -nE 's/^ *(%[0-9]+) = unscale .*/\1/p' good.ir)
before=$(sed -nE 's/^ *%[0-9]+ = unscale (%[0-9]+) .*/\1/p' good.ir)
broken no_unscale 'clip|unscale|scale' "s/(clip_grad_norm) $marker /\1 $before /; /= unscale /d"
broken other_scaler "scaler" 's/(optimizer_step.*scaler=)"scaler"/\1"scaler_9"/'
broken not_by_scaler 'scale' "s/(optimizer_step %[0-9]+ \{optimizer=\"optimizer\"), scaler=\"scaler\"/\1/; s/(clip_grad_norm) $marker /\1 $before /; /= unscale /d"
finish
