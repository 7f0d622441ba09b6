#!/usr/bin/env bash
# export.sh: an exported file loads into a torch.nn.Module of the same shape, which gives the same answers; the
# module's state_dict, written by another writer, is taken by --init. config.json says what the model is.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
python3 -c 'import torch' 2>/dev/null || skip "torch is not installed"
cd "$tmp"
train=$(program digits)
table=$examples/data/digits_validation.csv
quietly "$train" --out run --epochs 4 --log none
run 0 'wrote w.safetensors' "$train" --out run --export w.safetensors
"$train" --init w.safetensors --predict "$table" >answers.jsonl || fail "--predict ends with $?"

cat >peer.py <<'PY'
import csv, json, struct, sys, warnings
warnings.filterwarnings("ignore")
import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(64, 256), nn.Linear(256, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def load(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8 : 8 + size])
    assert (8 + size) % 8 == 0, "the tensors are not aligned"
    tensors = {}
    for name, t in head.items():
        if name == "__metadata__":
            assert all(isinstance(v, str) for v in t.values())
            continue
        assert t["dtype"] == "F32", (name, t)
        begin, end = t["data_offsets"]
        raw = bytearray(data[8 + size + begin : 8 + size + end])
        tensors[name] = torch.frombuffer(raw, dtype=torch.float32).reshape(t["shape"])
    return tensors


def save(path, tensors):
    head, at, body = {"__metadata__": {"format": "pt"}}, 0, b""
    for name, t in tensors.items():
        raw = bytes(t.detach().contiguous().view(torch.uint8).flatten().tolist())
        head[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        at, body = at + len(raw), body + raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


model = Mlp()
model.load_state_dict(load("w.safetensors"), strict=True)
rows = list(csv.DictReader(open(sys.argv[1], encoding="utf-8-sig")))
images = torch.tensor([[float(r[f"pixel_{i}_{k}"]) for i in range(8) for k in range(8)] for r in rows]) / 16
with torch.no_grad():
    mine = model.eval()(images).softmax(-1)
theirs = torch.tensor([json.loads(line)["probabilities"] for line in open("answers.jsonl")])
# Logits of about 10 that an f16 autocast region made, of three layers: some 2^-11 * 10 each.
assert mine.shape == theirs.shape and (mine - theirs).abs().max() < 3 * 10 * 2**-11, (mine - theirs).abs().max()
config = json.load(open("run/config.json"))["model"]
for name, part in model.named_children():
    assert config[name] == type(part).__name__, name
save("peer.safetensors", dict(reversed(model.state_dict().items())))
PY
python3 peer.py "$table" || fail "torch makes something else of the file"
"$train" --init peer.safetensors --predict "$table" | cmp -s - answers.jsonl || fail "--init: torch's file gives other answers"
finish
