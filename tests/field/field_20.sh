#!/usr/bin/env bash
# Batch normalisation stays fp16 when it is fed fp16. Its statistics are f32 whatever it is given (the mean's sum
# f64), and the dump says why.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv "$(echo p{0..31} | tr ' ' ,),label" 8 \
    "$(printf '300 + rand(), %.0s' {0..31}) i % 2"
# batch_norm TYPE INPUT OPTIMIZER
batch_norm() {
    {
        cat <<END
data rows = csv("rows.csv") -> (x: f32[32] = columns("p0".."p31"), label: i32)
module Net() {
    conv = Conv2d(2, 4, 3, padding = 1)
    norm = BatchNorm2d(4)
    head = Linear(4, 2)
    forward(x) {
        x = x.reshape(-1, 2, 4, 4)
        y = norm($2)
        return head(relu(mean(y, dim = (2, 3)))), mean(y), mean(square(f32(y)))
    }
}
END
        epochs=10 batch=8 after='print("moments", centre, power)'
        loop "$3" $1 'logits, centre, power = model(batch.x)' 'loss = cross_entropy(logits, batch.label)'
    } | compile "$1"
    train "$1"
    # The normalised batch has mean 0 and variance 1, although its values are around 300 and more.
    while read -r centre power; do
        holds "$centre < 0.02 && $centre > -0.02 && $power > 0.9 && $power < 1.1" ||
            fail "$1: mean $centre, mean square $power"
    done < <(printed moments "$1" | head -n 2)
    same "$(last skips end "$1")" 0 "$1: skipped steps"
    dump "$1" autocast
    # The mean is summed in f64 and is f32 from there on; nothing else leaves f32.
    grep -E '= (mean|var|rsqrt) ' "$1.autocast" | grep -vE ' : f32' >"$1.wide" || true
    same "$(wc -l <"$1.wide")" 1 "$1: statistics that are not f32"
    same "$(grep -cE '= mean .* : f64\[1,4,1,1\] .*name\("norm"\)' "$1.wide")" 1 "$1: means in f64"
    grep -E '= mean .* : f32\[1,4,1,1\] .*why\("statistics are computed in f32' "$1.autocast" >/dev/null ||
        fail "$1: no reason at the variance"
    for state in running_mean running_var; do
        [[ $(weights "$1" "norm.$state") != *nan* ]] || fail "$1: $state is NaN"
    done
    # The running mean moves towards the convolution's output by a tenth a step: most of it after ten.
    [[ $(weights "$1" norm.running_mean | xargs) != '0 0 0 0' ]] || fail "$1: the running mean does not move"
}
batch_norm f16 'conv(x)' 'SGD(model, lr = 0.01)'
batch_norm bf16 'cast(conv(x), bf16) - 1' 'Adam(model, lr = 1e-3)'
batch_norm f32 'f16(conv(x))' 'AdamW(model, lr = 1e-3)'
finish
