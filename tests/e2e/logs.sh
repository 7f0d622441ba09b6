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

run 0 'done status=0' "$train" --out t --epochs 1 --log tensorboard
run 0 'done status=0' "$train" --out t --resume --epochs 2 --log tensorboard
[[ $(ls t | grep -c '^events.out.tfevents\.') == 2 ]] || fail "tensorboard: not one event file for each start"
run 2 'none of text, jsonl, csv, tensorboard, none' "$train" --log xml

# The reader of TensorBoard itself, where it is installed.
python3 -c 'import tensorboard' 2>/dev/null || { echo "tensorboard is not installed"; finish; }
python3 - t t/log.jsonl <<'PY' || fail "TensorBoard reads something else"
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
records = [json.loads(line) for line in open(sys.argv[2])]
steps = [(r["step"], r["loss"]) for r in records if r["event"] == "step"]
read = [(e.step, e.value) for e in events.Scalars("train/loss")]
assert [s for s, _ in steps] == [s for s, _ in read], "steps"
assert all(abs(a - b) <= 1e-6 * abs(a) for (_, a), (_, b) in zip(steps, read)), "values"
assert "eval/validation_set/accuracy" in events.Tags()["scalars"]
PY
finish
