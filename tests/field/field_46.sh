#!/usr/bin/env bash
# Mixed precision takes more memory than f32, because casts of weights and of broadcasts are kept. What
# fp16 and bf16 need at most is what f32 needs where activations weigh more than weights, and for the
# example whose weights are cast while they are packed; a broadcast is cast before it is made.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# peak FILE [FLAG...]: bytes of the arena and of what is beside it, without the program itself.
peak() {
    quietly "$mpc" "$@" -O0 --cpu=generic -o planned
    ./planned --plan | awk '/^(arena|scratch of|batches)/ { gsub(",", ""); s += $(NF - 1) } END { print s }'
}
# within FILE WHAT [FLAG...]: in 16 bits no more than in f32.
within() {
    local file=$1 what=$2 full low type
    shift 2
    full=$(peak "$file" --precision=f32)
    for type in fp16 bf16; do
        low=$(peak "$file" --precision=$type "$@")
        ((low > 0 && low <= full)) || fail "$what: $low bytes in $type, $full in f32"
    done
}
within "$examples/digits.mpt" "digits, casts while packing"

cat >deep.mpt <<'END'
data rows = csv("rows.csv") -> (x: f32[64] = columns("a".."b"), label: i32)
module Net() {
    fc   = [Linear(64, 64) for i in 0..4]
    norm = LayerNorm(64)
    head = Linear(64, 3)
    forward(x) {
        for f in fc { x = norm(gelu(f(x))) }
        return head(x)
    }
}
trainer { model = Net(); train_dataset = rows; fp16 = true; per_device_train_batch_size = 512 }
END
within deep.mpt "activations of a deep model"

# A bias, a mask and an expanded view, each cast before it is broadcast: no f16 of the full size is made
# of what is small in f32.
cat >broadcast.mpt <<'END'
data rows = csv("rows.csv") -> (x: f32[64] = columns("a".."b"), m: f32, label: i32)
module Net() {
    fc = Linear(64, 64); head = Linear(64, 3)
    param shift: f32[64] = ones()
    param row: f32[1, 64] = ones()
    forward(x, m) {
        wide = row.expand(64, 64) @ row.expand(64, 64)
        y = fc(x) @ wide.T
        return head(y * f16(m.reshape(-1, 1)) + shift.expand(64, 64)[0])
    }
}
model = Net()
optimizer = SGD(model, lr = 0.1)
scaler = GradScaler()
for batch in loader(rows, batch_size = 64) {
    with autocast(f16) { loss = cross_entropy(model(batch.x, batch.m), batch.label) }
    backward(scaler.scale(loss)); scaler.step(optimizer); scaler.update(); zero_grad(optimizer); log(loss)
}
END
dump broadcast autocast
for name in row; do
    grep -qE "= cast .*: f16\[1,64\]" broadcast.autocast || fail "$name is not cast before it is broadcast"
done
grep -E '= expand .*: f32\[64,64\]' broadcast.autocast | sed 's/ = .*//' | while read -r id; do
    grep -qE "= cast $id +: f16" broadcast.autocast && fail "a broadcast is cast after it was made"
    true
done
finish
