#!/usr/bin/env bash
# loading.sh: fixed-size records, augmentation and samplers in a whole program: the same bits for any number of
# threads and when continued; data sets of odd sizes, and columns that are constant, end sensibly.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

cat >cells.mpt <<'END'
option drop_last = false
data cells  = bin("one.bin", "two.bin")
              -> (label: u8 = classes("red cell", "white cell", "a \"platelet\""), image: u8[3, 32, 32])
data unread = csv("nowhere.csv") -> (x: f32)

batch of cells {
    image        = f32(image) / 255
    image        = random_crop(pad(image, 2), 32, 32)
    image        = random_rotation(random_flip(random_vertical_flip(image)), 20)
    image, label = mixup(image, label, alpha = 0.4, num_classes = 3)
}

module Net() {
    fc = Linear(3072, 3)
    forward(image) { return fc(flatten(image, 1)) }
}

model     = Net()
optimizer = SGD(model, lr = 0.01)
train     = loader(cells, batch_size = 40, sampler = "balanced", drop_last = drop_last)
for epoch in 0..3 {
    for batch in train {
        loss = cross_entropy(model(batch.image), batch.label)
        backward(loss)
        optimizer.step()
        zero_grad(optimizer)
        log(loss)
    }
    accuracy = evaluate(train) { accuracy(model(batch.image), batch.label) }
}
END
quietly "$mpc" cells.mpt --verify-passes --cpu=generic -O1 -o cells

records() { # records FROM COUNT
    dd if="$examples/data/cells_train.bin" bs=3073 skip="$1" count="$2" status=none
}
mkdir good gz
records 0 100 >good/one.bin
records 100 33 >good/two.bin
gzip -c good/one.bin >gz/one.bin
cp good/two.bin gz

# ---- the same bits -----------------------------------------------------------------------------
for threads in 1 2 5 7; do
    quietly ./cells --data good --threads $threads --out run$threads
    same_weights run1 run$threads "$threads threads"
done
quietly ./cells --data gz --out run_gz
same_weights run1 run_gz "packed"
quietly ./cells --data good --checkpoint-every 1 --max-steps 6 --out parts # in the second epoch
quietly ./cells --data good --resume --max-steps 1000 --out parts
same_weights run1 parts "continued in the middle of an epoch"

# An evaluation consumes no random numbers, and has none: it is the same every time.
for i in 1 2; do
    ./cells --data good --eval --out run1 >eval$i 2>said || fail "--eval ends with $?"
done
cmp -s eval1 eval2 || fail "two evaluations differ: $(cat eval1 eval2)"
./cells --predict good/two.bin --out run1 >predicted 2>said ||
    fail "--predict ends with $?: $(head -n 3 said)"
[[ $(wc -l <predicted) == 33 ]] || fail "--predict: $(wc -l <predicted) answers for 33 samples"
grep -E '"class": ?"(red cell|white cell|a \\"platelet\\")"' predicted >/dev/null ||
    fail "--predict does not name the classes: $(head -n 1 predicted)"

# ---- sizes -------------------------------------------------------------------------------------
data() { # data NAME ONE TWO: how many records
    mkdir -p "$1"
    records 0 "$2" >"$1/one.bin"
    records 100 "$3" >"$1/two.bin"
}
data single 1 1
head -c 3073 good/one.bin >single/one.bin
quietly ./cells --data single --out run_single # a batch of 40, two samples
[[ $(field steps end run_single) == 3 ]] || fail "two samples: $(field steps end run_single) steps, not 3"
quietly "$mpc" cells.mpt -D drop_last=true --cpu=generic -O0 -o full_batches
run 1 'train.*: 2 samples do not fill one batch of 40, and drop_last' \
    ./full_batches --data single --out run_dropped
quietly ./full_batches --data good --out run_drop_last
[[ $(field steps end run_drop_last) == 9 ]] ||
    fail "drop_last: $(field steps end run_drop_last) steps, not 3 batches of 40 of 133 samples, 3 times"

data empty 1 1
: >empty/two.bin
run 1 "two.bin' is empty: it holds no records" ./cells --data empty --out run_empty
data odd 2 1
head -c 5000 good/two.bin >odd/two.bin
run 1 "two.bin' has 5000 bytes, which are no whole number of records of 3073 bytes" \
    ./cells --data odd --out run_odd
grep 'records take 3073 bytes' said >/dev/null || fail "odd: no hint"
cp cells.mpt odd
run 2 'two\.bin has 5000 bytes, which are no whole number of records of 3073' \
    "$mpc" odd/cells.mpt --check-data --stop-after=infer
cp cells.mpt gz
quietly "$mpc" gz/cells.mpt --check-data --stop-after=infer
data label 2 1
printf '\7' | dd of=label/two.bin conv=notrunc status=none
run 1 "two.bin', row 1 .*label is 7, but the model has 3 classes" ./cells --data label --out run_label

# ---- a constant column -------------------------------------------------------------------------
cat >table.mpt <<'END'
data table = csv("table.csv") -> (x: f32[2] = columns("a", "b"), y: f32)
batch of table {
    x = (x - mean(x, dim = 0, keepdim = true)) / std(x, dim = 0, keepdim = true)
}
module Net() {
    fc = Linear(2, 1)
    forward(x) { return fc(x) }
}
trainer {
    model                       = Net()
    train_dataset               = table
    loss                        = mse_loss
    num_train_epochs            = 1
    per_device_train_batch_size = 4
}
END
sed -i 's/    forward(x) { return fc(x) }/    forward(x) { return fc(x)[:, 0] }/' table.mpt
quietly "$mpc" table.mpt --cpu=generic -O0 -o table
printf 'a,b,y\n1,2,3\n2,3,1\n5,0,1\n4,4,4\n' >table.csv
quietly ./table --out run_table
printf 'a,b,y\n1,7,3\n2,7,1\n5,7,1\n4,7,4\n' >table.csv
run 1 'table\.csv:[2-5]: the preparation made a NaN of element 1 of x' ./table --out run_constant
printf 'a,b,y\n' >table.csv
run 1 'table\.csv' ./table --out run_nothing
finish
