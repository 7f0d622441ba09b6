#!/usr/bin/env bash
# LayerNorm in fp16: an eps of 1e-12 rounds to 0, and constant or padded rows are 0 / 0. Statistics
# and eps are f32: such a row gives the bias, and finite gradients.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# Rows: all equal, all zero, padded with zeros, an ordinary one.
table rows.csv a,b,c,d,e,f,g,h,kind,label 8 \
    'i%4==0?3:i%4==1?0:i%4==2?1:rand(), i%4==0?3:i%4==1?0:i%4==2?2:rand(), i%4==0?3:i%4==3?rand():0, i%4==0?3:i%4==3?rand():0, i%4==0?3:i%4==3?rand():0, i%4==0?3:i%4==3?rand():0, i%4==0?3:i%4==3?rand():0, i%4==0?3:i%4==3?rand():0, i % 4, i % 3'

# check NAME TYPE OPTIMIZER NORM CALL BETA: NORM makes norm; CALL gives its result y of x, in TYPE.
check() {
    local name=$1_$2
    {
        cat <<END
data rows = csv("rows.csv") -> (x: f32[8] = columns("a".."h"), kind: i32, label: i32)
module Net() {
    $4
    pre  = Linear(8, 8)
    head = Linear(8, 3)
    param stream: f32[8] = constant(5)
    forward(x) {
        y = $5
        even = of(x * 0 + stream)                        # gradients through such rows, in f32
        padded = of(cast(pre(x) * 0 + 5, $2))            # and in $2, where the loss ignores them
        return head(y) + head(even), head(padded), y
    }
    of(x) { return ${5/cast(x, $2)/x} }
}
END
        batch=8 epochs=3
        after='print("rows", equal, zero, largest)'
        loop "$3" $2 'logits, padded, y = model(batch.x)' \
            'loss = cross_entropy(logits, batch.label)' \
            'loss = loss + cross_entropy(padded, batch.label * 0 - 100)' \
            "off = amax(abs(f32(y) - $6), dim = 1)" 'equal = amax(off * f32(batch.kind == 0))' \
            'zero = amax(off * f32(batch.kind == 1))' \
            'largest = amax(abs(f32(y)))'
    } | compile "$name"
    train "$name"
    read -r equal zero largest < <(printed rows "$name" | head -n 1)
    same "$equal $zero" '0 0' "$name: rows without variance, less the bias"
    holds "$largest < 10" || fail "$name: the largest output is $largest"
    same "$(last skips end "$name")" 0 "$name: skipped steps"
    grep -q '"finite": *false' "${name}_run/log.jsonl" && fail "$name: something is not finite"
    dump "$name" autocast
    grep -E '= (mean|var|rsqrt|square) ' "$name.autocast" | grep -vE ' : f32' &&
        fail "$name: statistics that are not f32"
    grep -E "= (add|div) .*: $2" "$name.autocast" | grep -E 'name\("norm"\)' | grep -E 'B,1\]' &&
        fail "$name: eps is added in $2"
    true
}
for type in f16 bf16; do
    check layer $type 'Adam(model, lr = 1e-3)' 'norm = LayerNorm(8, eps = 1e-12)' "norm(cast(x, $type))" 0
    [[ $type == bf16 ]] || check rms $type 'SGD(model, lr = 0.1, momentum = 0.9)' 'norm = Dropout(0.0)' \
        "rms_norm(cast(x, $type) * 0, [8], eps = 1e-12)" 0
done
check call f16 'AdamW(model, lr = 1e-2)' 'param g: f32[8] = ones(); param b: f32[8] = constant(0.25)' \
    'layer_norm(cast(x, f16), [8], g, b, eps = 1e-12)' 0.25

# By hand, where eps meets an f16 number, the constant is kept by computing in f32, with a warning.
sed 's/y = norm(cast(x, f16))/y = (cast(x, f16) - f16(mean(x, dim = -1, keepdim = true))) \/ (sqrt(f16(var(x, dim = -1, keepdim = true))) + 1e-12)/; s/z = .*/z = y/' \
    layer_f16.mpt | compile by_hand
grep -q 'warning.*1e-12 becomes 0.* in f16' quiet || fail "no warning of an eps that is 0 in f16"
train by_hand
read -r equal zero largest < <(printed rows by_hand | head -n 1)
same "$equal $zero" '0 0' "by hand: rows without variance"
finish
