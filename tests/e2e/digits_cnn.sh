#!/usr/bin/env bash
# digits_cnn.sh: convolutions, batch norm and pools learn: median validation accuracy of seeds 1, 2, 3 at least
# 0.965. A skipped step leaves the running statistics as they were, bit for bit.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

train=$(program digits_cnn)
for seed in 1 2 3; do
    quietly "$train" --seed "$seed" --out "$tmp/$seed"
    field accuracy eval "$tmp/$seed" | tail -n 1
done >"$tmp/accuracies"
median=$(sort -g "$tmp/accuracies" | sed -n 2p)
holds "${median:-0} >= 0.965" || fail "median accuracy ${median:-missing}, expected 0.965"

cat >"$tmp/skipped.mpt" <<'END'
data train_set = csv("digits_train.csv")
                 -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: u8)

module Net() {
    conv   = Conv2d(1, 4, 3, stride = 2, padding = 1)
    norm   = BatchNorm2d(4)
    pool   = MaxPool2d(3, stride = 2, padding = 1)
    means  = AvgPool2d(2)
    global = AdaptiveAvgPool2d(1)
    fc     = Linear(4, 10)
    forward(image) {
        x = norm(conv(image.reshape(-1, 1, 8, 8)))
        return fc(flatten(global(means(pool(x))), 1))
    }
}

model = Net()
optimizer = Adam(model, lr = 1e-3)
scaler = GradScaler(init_scale = 1e30, scale_max = 1e38)
for batch in loader(train_set, batch_size = 32) {
    with autocast(f16) {
        loss = cross_entropy(model(batch.image), batch.label)
    }
    backward(scaler.scale(loss))
    scaler.step(optimizer)
    scaler.update()
    zero_grad(optimizer)
}
END
cd "$tmp"
quietly "$mpc" skipped.mpt --verify-passes --verify-ir -O1 -o skipped
quietly ./skipped --data "$examples/data" --seed 1 --max-steps 1 --out one
quietly ./skipped --data "$examples/data" --seed 1 --max-steps 4 --out four
cmp -s one/model.safetensors four/model.safetensors || fail "skipped steps change the model"
finish
