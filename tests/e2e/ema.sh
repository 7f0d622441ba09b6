#!/usr/bin/env bash
# ema.sh: an average of the weights follows its formula update by update, and PyTorch's AveragedModel where torch is
# installed; it is what is evaluated, saved as the model, exported and asked for predictions. It costs no pass
# over the weights of its own. Skips and resuming: skipped_window.sh, resume_trainer.sh.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

cat >"$tmp/ema.mpt" <<'END_OF_FILE'
option decay = 0.9
data train_set = csv("digits_train.csv") -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: u8)
data test_set  = csv("digits_validation.csv") -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: u8)
module Net() {
    fc1 = Linear(64, 16)
    fc2 = Linear(16, 10)
    forward(x) { return fc2(relu(fc1(x / 16))) }
}
model     = Net()
optimizer = AdamW(model, lr = 0.02)
ema       = EMA(model, decay = decay)
averaged  = 0.0
for batch in loader(train_set, batch_size = 128, shuffle = true) {
    loss = cross_entropy(model(batch.image), batch.label)
    backward(loss)
    optimizer.step()
    zero_grad(optimizer)
    ema.update()
    log(loss)
}
averaged = evaluate(test_set, weights = ema) { cross_entropy(model(batch.image), batch.label) }
END_OF_FILE
quietly "$mpc" -O1 --cpu=generic --verify-passes "$tmp/ema.mpt" -o "$tmp/ema"
quietly "$tmp/ema" --data "$examples/data" --checkpoint-every 1 --keep-checkpoints 100 --out "$tmp/run"
steps=$(find "$tmp/run/checkpoints" -name 'step-*' | wc -l)
((steps >= 8)) || fail "only $steps checkpoints: the test shows nothing"
last=$tmp/run/checkpoints/step-$steps/state.safetensors
[[ $(integer "$last" ema.updates) == "$steps" ]] || fail "not one update of the average a step"

# The first update copies; then average + (1 - decay) * (weight - average).
for name in fc1.weight fc2.bias; do
    for ((i = 1; i <= steps; i++)); do
        state=$tmp/run/checkpoints/step-$i/state.safetensors
        paste <(floats "$state" $name) <(floats "$state" ema.$name) | awk -v step="$i" '{ print step, NR, $1, $2 }'
    done | awk '
        $1 == 1 { a[$2] = $3 }
        $1 > 1  { a[$2] += 0.1 * ($3 - a[$2]) }
        { d = a[$2] - $4; bad += d * d > 1e-12; n++ }
        END { exit !(n > 0 && !bad) }' || fail "the average of $name does not follow its formula"
done

# The model that is left, exported, evaluated and asked is the average.
for name in fc1.weight fc1.bias fc2.weight fc2.bias; do
    floats "$last" ema.$name >"$tmp/average"
    floats "$tmp/run/model.safetensors" $name | cmp -s - "$tmp/average" || fail "the model's $name is not the average"
    floats "$last" $name | cmp -s - "$tmp/average" && fail "$name is its average: the test shows nothing"
done
tensors "$tmp/run/model.safetensors" | grep '^ema\.' >/dev/null && fail "the model has further tensors"
quietly "$tmp/ema" --init "$tmp/run/model.safetensors" --export "$tmp/exported.safetensors"
cmp -s "$tmp/exported.safetensors" "$tmp/run/model.safetensors" || fail "--export: other weights"
quietly "$tmp/ema" --init "$last" --export "$tmp/exported.safetensors"
cmp -s "$tmp/exported.safetensors" "$tmp/run/model.safetensors" || fail "--export of a checkpoint: other weights"
"$tmp/ema" --eval --data "$examples/data" --out "$tmp/run" >"$tmp/said" 2>&1
grep -F "$(field loss eval "$tmp/run" | tail -n 1 | cut -c1-6)" "$tmp/said" >/dev/null || fail "--eval: another loss"
head -n 4 "$examples/data/digits_validation.csv" >"$tmp/some.csv"
"$tmp/ema" --init "$last" --predict "$tmp/some.csv" >"$tmp/answers" 2>"$tmp/said"
"$tmp/ema" --out "$tmp/run" --predict "$tmp/some.csv" 2>"$tmp/said" | cmp -s - "$tmp/answers" ||
    fail "--predict: the model and the checkpoint answer differently"

# One kernel updates a weight and its average; the plan names it.
"$mpc" --emit=kernels "$tmp/ema.mpt" >"$tmp/kernels"
awk '/^kernel /{ k = $2 } /^ *(ema_)?fc1_weight\[.*\] = /{ print k }' "$tmp/kernels" | sort | uniq -c >"$tmp/writers"
[[ $(awk '{ print $1 }' "$tmp/writers") == 2 ]] || fail "the weight and its average are written by $(tr '\n' ' ' <"$tmp/writers")"
"$tmp/ema" --plan=full | grep -E '4,096 .*average +ema\.fc1\.weight +EMA of fc1\.weight$' >/dev/null || fail "the plan has no average"
"$tmp/ema" --plan | grep -E '^averages ' >/dev/null || fail "the plan does not count averages"

python3 -c 'import torch' 2>/dev/null || finish
cat >"$tmp/peer.py" <<'END_OF_FILE'
import json, struct, sys, torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
def read(path):
    data = open(path, "rb").read()
    n, = struct.unpack("<Q", data[:8])
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            a, b = t["data_offsets"]
            raw = bytearray(data[8 + n + a:8 + n + b])
            out[name] = torch.frombuffer(raw, dtype=torch.float32).reshape(t["shape"])
    return out
model = torch.nn.Sequential()
model.fc1, model.fc2 = torch.nn.Linear(64, 16), torch.nn.Linear(16, 10)
names = [n for n, _ in model.named_parameters()]
averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
worst = 0.0
for step in range(1, int(sys.argv[2]) + 1):
    state = read(f"{sys.argv[1]}/step-{step}/state.safetensors")
    model.load_state_dict({n: state[n] for n in names})
    averaged.update_parameters(model)
    for n, p in averaged.module.named_parameters():
        worst = max(worst, (p - state["ema." + n]).abs().max().item())
print("largest difference", worst)
sys.exit(worst > 2e-7)
END_OF_FILE
python3 "$tmp/peer.py" "$tmp/run/checkpoints" "$steps" >"$tmp/said" 2>&1 || fail "torch: $(tail -n 1 "$tmp/said")"
finish
