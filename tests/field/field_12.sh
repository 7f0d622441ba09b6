#!/usr/bin/env bash
# RMSNorm and LayerNorm accumulated squares in fp16, so that activations over a few hundred overflow.
# Large rows, fp16 in and out: as in f32, but for the rounding of the result.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d,e,f,g,h 6 \
    '3e4, -3e4*rand(), 3e4*rand(), 2e4, -1e4, 3e4, rand(), 0'

# norm NAME TYPE BOUND EXPRESSION GAIN [LOOP]: of x, on the rows in the type and on the same numbers
# in f32; under autocast of that type, or of LOOP.
norm() {
    {
        cat <<END
data rows = csv("rows.csv") -> (x: f32[8] = columns("a".."h"))
module Net() {
    param gain: f32[$5] = uniform(0.5, 1.5)
    forward(x) { return $4 }
}
END
        batch=3 after='print("error", error, size)'
        loop 'SGD(model, lr = 1e-6)' ${6:-$2} "low = cast(batch.x, $2)" "y = cast(model(low), $2)" \
            "exact = model(f32(low))" \
            'error = amax(abs(f32(y) - exact)); size = amax(abs(exact))' 'loss = mean(f32(y))'
    } | compile "$1_$2"
    train "$1_$2"
    while read -r error size; do
        holds "$error < $3 * $size && $size > 0.1" || fail "$1 in $2: error $error of $size"
    done < <(printed error "$1_$2")
    same "$(last skips end "$1_$2")" 0 "$1 in $2: skipped steps"
}
norm rms f16 2e-3 'rms_norm(x, [8], gain)' 8
norm rms bf16 8e-3 'rms_norm(x, [8], gain)' 8
norm layer f16 2e-3 'layer_norm(x, [8], gain)' 8
norm euclid f16 2e-3 'x / norm(x, dim = -1, keepdim = true) * gain' 8
norm plain_rms f16 2e-3 'rms_norm(x, [8], gain)' 8 f32
norm plain_layer f16 2e-3 'layer_norm(x, [8], gain)' 8 f32
norm halves f16 2e-3 'rms_norm(x.reshape(-1, 2, 4), [4], gain)' 4
finish
