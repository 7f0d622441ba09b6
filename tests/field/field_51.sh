#!/usr/bin/env bash
# Adam's eps of 1e-8 is 0 in fp16, and a gradient of 0 makes 0 / 0. A row that no batch uses keeps its
# bits for as long as it is not used.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# Words 0 to 3 are used, 4 and 5 never; feature c is always 0, so its weights have gradients of 0.
table rows.csv word,c,d,label 20 'i % 4, 0, rand(), i % 2'
# unused NAME TYPE OPTIMIZER
unused() {
    {
        cat <<'END'
data rows = csv("rows.csv") -> (word: i32, x: f32[2] = columns("c", "d"), label: i32)
module Net() {
    table = Embedding(6, 4)
    fc    = Linear(2, 4)
    head  = Linear(4, 2)
    param dead: f32[4] = uniform(-1, 1)
    forward(word, x) { return head(relu(table(word) + fc(x)) + relu(dead - 10)) }
}
END
        batch=2 loop "$3" $2 'loss = cross_entropy(model(batch.word, batch.x), batch.label)'
    } | compile "$1_$2"
    train "$1_$2" --epochs 0
    local table fc dead
    table=$(weights "$1_$2" table.weight | xargs | cut -d' ' -f17-24)
    fc=$(weights "$1_$2" fc.weight | xargs | cut -d' ' -f1,3,5,7)
    dead=$(weights "$1_$2" dead)
    local used
    used=$(weights "$1_$2" table.weight | xargs | cut -d' ' -f1-16)
    rm -rf "$1_$2_run"
    train "$1_$2"
    same "$(last steps end "$1_$2")" 10 "$1 in $2: steps"
    same "$(last skips end "$1_$2")" 0 "$1 in $2: skipped steps"
    same "$(weights "$1_$2" table.weight | xargs | cut -d' ' -f17-24)" "$table" "$1 in $2: unused rows"
    same "$(weights "$1_$2" fc.weight | xargs | cut -d' ' -f1,3,5,7)" "$fc" "$1 in $2: weights of a feature that is 0"
    same "$(weights "$1_$2" dead)" "$dead" "$1 in $2: behind a dead relu"
    [[ $(weights "$1_$2" table.weight | xargs | cut -d' ' -f1-16) != "$used" ]] || fail "$1 in $2: used rows did not move"
    grep -qi nan "$1_$2_run/log.jsonl" && fail "$1 in $2: NaN in the log"
    true
}
unused adam f16 'Adam(model, lr = 0.01)'
unused eps bf16 'AdamW(model, lr = 0.01, eps = 1e-12, weight_decay = 0.0)'
unused momentum f16 'SGD(model, lr = 0.1, momentum = 0.9, nesterov = true)'
unused betas f16 'Adam(model, lr = 0.01, betas = (0.0, 0.5), eps = 1e-8)'
finish
