#!/usr/bin/env bash
# The last window of an epoch, with fewer batches than the others, is divided by the full number. Each
# update is the mean over the samples (or the labels that count) that it saw: the third of 10 batches
# in windows of 4 is the mean over 2.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# The gradient of the loss for w is the mean of minus a: steps of rate 1 leave w = sum of windows' means.
table ten.csv a,label 20 'i + 1, 0'
awk 'NR <= 20' ten.csv >nineteen.csv
# net FILE
net() {
    echo "data rows = csv(\"$1\") -> (a: f32, label: i32)"
    echo 'module Net() { param w: f32[1] = zeros(); forward(a) { return -a * w } }'
}
# windows NAME FILE TYPE LOSS
windows() {
    {
        net "$2"
        echo 'model = Net(); optimizer = SGD(model, lr = 1.0); steps = 0'
        [[ $3 == f16 ]] && echo 'scaler = GradScaler(init_scale = 16)'
        echo 'train = loader(rows, batch_size = 2)'
        echo 'for batch in train {'
        echo "with autocast($3) { loss = $4 }"
        if [[ $3 == f16 ]]; then echo 'backward(scaler.scale(loss), average = true)'; else echo 'backward(loss, average = true)'; fi
        echo 'steps += 1'
        echo 'if steps % 4 == 0 or steps == len(train) {'
        if [[ $3 == f16 ]]; then echo 'scaler.step(optimizer); scaler.update()'; else echo 'optimizer.step()'; fi
        echo 'zero_grad(optimizer); log(loss) } }'
    } | compile "$1"
    train "$1"
    same "$(last steps end "$1")" 3 "$1: updates"
}
# trainer NAME FILE: the same by the trainer's key.
trainer() {
    {
        net "$2" | sed 's/forward(a) {.*/forward(a) { return stack([a * w - a * w, -a * w], dim = 1) } }/'
        cat <<'END'
trainer {
    model = Net(); train_dataset = rows; inputs = a; labels = label
    shuffle = false; num_train_epochs = 1
    per_device_train_batch_size = 2; gradient_accumulation_steps = 4
    optim = "sgd"; learning_rate = 1.0; lr_scheduler_type = "constant"; max_grad_norm = 0
}
END
    } | compile "$1"
    train "$1"
}
# Means of 1..8, 9..16, 17..20; and of 17..19.
mean='mean(model(batch.a))'
for type in f16 bf16; do
    windows short_$type ten.csv $type "$mean"
    near "$(weights short_$type w | xargs)" 35.5 1e-6 "short window in $type"
    windows uneven_$type nineteen.csv $type "$mean"
    near "$(weights uneven_$type w | xargs)" 35 1e-6 "short window and short batch in $type"
done
trainer by_trainer ten.csv
same "$(last steps end by_trainer)" 3 "updates of the trainer"
# Labels that are ignored count as no sample: windows and their means follow cross_entropy's own count.
{
    net ten.csv
    echo 'model = Net(); optimizer = SGD(model, lr = 1.0); steps = 0'
    echo 'for batch in loader(rows, batch_size = 20) {'
    echo 'loss = cross_entropy(stack([batch.a * 0, 0.1 * model(batch.a)], dim = 1), where(batch.a > 7, -100, batch.label))'
    echo 'backward(loss); optimizer.step(); zero_grad(optimizer); log(loss) }'
} | compile whole
train whole
{
    net ten.csv
    echo 'model = Net(); optimizer = SGD(model, lr = 1.0); steps = 0'
    echo 'for batch in loader(rows, batch_size = 5) {'
    echo 'loss = cross_entropy(stack([batch.a * 0, 0.1 * model(batch.a)], dim = 1), where(batch.a > 7, -100, batch.label))'
    echo 'backward(loss, average = true); steps += 1'
    echo 'if steps % 4 == 0 { optimizer.step(); zero_grad(optimizer); log(loss) } }'
} | compile parts
train parts
near "$(weights parts w | xargs)" "$(weights whole w | xargs)" 1e-6 "ignored labels, 5 + 2 of 20"
finish
