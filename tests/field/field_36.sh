#!/usr/bin/env bash
# "Attempting to unscale FP16 gradients": weights loaded from a half checkpoint stay half. Here the
# masters are f32 whatever the file holds, and train.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,label 8 'rand(), rand() - 0.5, i % 2'
step=('loss = cross_entropy(model(batch.x), batch.label)')
net() {
    echo 'data rows = csv("rows.csv") -> (x: f32[2] = columns("a", "b"), label: i32)'
    echo 'module Net() { fc = Linear(2, 2); forward(x) { return fc(x) } }'
}
# checkpoint FILE TYPE BYTES: fc.weight and fc.bias as these bytes (printf escapes), 16 bits each.
checkpoint() {
    local head="{\"fc.weight\":{\"dtype\":\"$2\",\"shape\":[2,2],\"data_offsets\":[0,8]},\"fc.bias\":{\"dtype\":\"$2\",\"shape\":[2],\"data_offsets\":[8,12]}}"
    while ((${#head} % 8 != 0)); do head+=' '; done
    { printf "\\x$(printf %x ${#head})\\0\\0\\0\\0\\0\\0\\0"; printf '%s' "$head"; printf '%b' "$3"; } >"$1"
}
# 1, -2, 0.5, 2^-14 and 0, 1.5 in f16; 1, -2, 0.5, 2^-14 and 0, 1.5 in bf16.
checkpoint f16.safetensors F16 '\x00\x3c\x00\xc0\x00\x38\x00\x04\x00\x00\x00\x3e'
checkpoint bf16.safetensors BF16 '\x80\x3f\x00\xc0\x00\x3f\x80\x38\x00\x00\xc0\x3f'
for optimizer in 'Adam(model, lr = 1e-3)' 'SGD(model, lr = 0.1, momentum = 0.9)'; do
    kind=${optimizer%%(*}
    for type in f16 bf16 f32; do
        { net; batch=8 epochs=20 loop "$optimizer" $type "${step[@]}"; } | compile ${kind}_$type
        for held in f16 bf16; do
            rm -rf ${kind}_${type}_run
            train ${kind}_$type --init $held.safetensors --epochs 0
            same "$(weights ${kind}_$type fc.weight | xargs)" '1 -2 0.5 6.1035156e-05' "$held into $type"
            same "$(weights ${kind}_$type fc.bias | xargs)" '0 1.5' "$held into $type: bias"
            rm -rf ${kind}_${type}_run
            train ${kind}_$type --init $held.safetensors
            same "$(last skips end ${kind}_$type)" 0 "$held into $type, $kind: skipped steps"
            first=$(field loss step ${kind}_${type}_run | head -n 1)
            holds "$(last loss step ${kind}_$type) < $first" || fail "$held into $type, $kind: does not learn"
        done
    done
    # Steps too small for 16 bits add up in the f32 master.
    ./${kind}_f16 --plan=full | grep -E 'always +f32 .* fc.weight +\(2, 2\)' >/dev/null || fail "$kind: no f32 master in the plan"
done
read -r first _ < <(weights Adam_f16 fc.weight)
holds "$first != 1 && $first - 1 < 0.03 && 1 - $first < 0.03" || fail "20 updates of 1e-3 moved 1 to $first"
finish
