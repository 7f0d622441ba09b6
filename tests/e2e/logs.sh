#!/usr/bin/env bash
# logs.sh: --log csv and --log tensorboard say what log.jsonl says; a run that continues begins an event file
# that takes back what older ones say of later steps.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
train=$(program digits)

"$train" --out c --epochs 2 --log csv >curves.csv 2>err || fail "--log csv ends with $?"
[[ ! -s err ]] || fail "--log csv says: $(head -n 3 err)"
[[ $(head -n 1 curves.csv) == step,epoch,tag,value ]] || fail "csv: header $(head -n 1 curves.csv)"
for pair in loss:step:train/loss lr:step:train/lr accuracy:eval:eval/validation_set/accuracy; do
    IFS=: read -r key event tag <<<"$pair"
    field "$key" "$event" c >a
    awk -F, -v tag="$tag" '$3 == tag { print $4 }' curves.csv >b
    [[ -s a ]] || fail "log.jsonl has no $key"
    cmp -s a b || fail "csv: $tag differs from log.jsonl"
done

# Event files of a run, of one that continues it, and of one that goes back to an older checkpoint.
run 0 'done status=0' "$train" --out t --epochs 3 --log tensorboard
run 0 'done status=0' "$train" --out t --resume --epochs 4 --log tensorboard
[[ $(ls t | grep -c '^events.out.tfevents\.') == 2 ]] || fail "tensorboard: not one event file for each start"
back=$(ls t/checkpoints | sed -n 's/^step-//p' | sort -n | head -n 1)
((back < $(field step step t | tail -n 1))) || fail "no older checkpoint to go back to"
run 0 'done status=0' "$train" --resume "t/checkpoints/step-$back" --epochs 5 --log tensorboard
run 2 'none of text, jsonl, csv, tensorboard, none' "$train" --log xml
if command -v python3 >/dev/null; then
    python3 "$src/tests/e2e/event_files.py" t 0 136 $((back + 1)) || fail "the event files say something else"
fi
finish
