#!/usr/bin/env bash
# A compiled model differs from the same one run op by op, because casts between fused ops are dropped.
# Here every type of the IR is rounded to, also inside a fused kernel: on every CPU and at every level of
# optimisation the bits are the same, and the run says which mode it is in.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d 5 '2048 + i, rand() * 3, -rand(), 1e-3 * (i + 1)'
# chain TYPE OPTIMIZER: an element-wise model; batches of one row, so that nothing but the loss is summed.
chain() {
    cat <<END
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"), a: f32)
module Net() {
    param w: f32[4] = uniform(0.5, 1.5)
    param v: f32[4] = normal(0, 0.1)
    forward(x) {
        x = cast(x, $1)
        y = (x * cast(w, $1) + 1) / 3 * 3
        y = gelu(tanh(y) + sqrt(abs(y)) * cast(v, $1)) - silu(y * 0.001)
        return y * sigmoid(x) + where(y > 0.5, y * y, -y)
    }
}
END
    batch=1 after='print("lost", lost, kept)'
    loop "$2" $1 "one = cast(batch.a, $1) * 0 + 1" "lost = sum((cast(batch.a * 0 + ${3:-2048}, $1) + one) - ${3:-2048})" \
        'kept = sum((f32(batch.a * 0 + 2048) + f32(one)) - 2048)' 'loss = sum(f32(model(batch.x))) * 1e-3'
}
builds=("-O0 --cpu=native" "-O3 --cpu=native" "-O2 --cpu=x86-64-v3" "-O1 --cpu=generic")
for pair in 'f16:Adam(model, lr = 0.01)' 'bf16:SGD(model, lr = 0.1, momentum = 0.9)' 'f32:AdamW(model, lr = 0.01)'; do
    type=${pair%%:*}
    chain "$type" "${pair#*:}" "$([[ $type == bf16 ]] && echo 256 || echo 2048)" >"$type.mpt"
    for i in "${!builds[@]}"; do
        [[ $type == f16 || $i -lt 2 ]] || continue
        if ((i == 2)) && ! grep -qw avx2 /proc/cpuinfo; then continue; fi
        # shellcheck disable=SC2086
        quietly "$mpc" "$type.mpt" ${builds[i]} -o "${type}_$i"
        train "${type}_$i"
        same_weights "${type}_0_run" "${type}_${i}_run" "$type: ${builds[0]} and ${builds[i]}"
        same "$(printed lost "${type}_$i" | sort -u)" "$([[ $type == f32 ]] && echo '1 1' || echo '0 1')" \
            "$type, ${builds[i]}: 1 added to a number that has no digit for it"
    done
    grep -q '"math": *"exact"' "${type}_0_run/log.jsonl" || fail "$type: the log does not name the mode"
done
finish
