#!/usr/bin/env python3
"""make_layers.py: writes the other files of this folder. Needs torch 2.13; no test runs it.

A small model of layers that the other models do not have: convolutions of every kind, pools with uneven and cut
windows, norms in all their forms. The format is that of the other models; see ../README.md.
"""
import json
import os
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, BATCHES, BATCH, LR = 20, 4, 8, 0.05
HERE = os.path.dirname(os.path.abspath(__file__))


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, (3, 2), padding="same", dilation=(1, 2), groups=2, padding_mode="reflect")
        self.norm = nn.BatchNorm2d(6, momentum=None)
        self.depth = nn.Conv2d(6, 6, 3, stride=2, padding=1, groups=6, bias=False)
        self.plain = nn.BatchNorm2d(6, affine=False, eps=1e-3, momentum=0.3)
        self.up = nn.ConvTranspose2d(6, 4, (3, 2), stride=2, padding=(1, 0), output_padding=(1, 0), groups=2)
        self.groups = nn.GroupNorm(2, 4)
        self.wide = nn.Conv2d(4, 4, 2, padding="same")
        self.instance = nn.InstanceNorm2d(4, affine=True)
        self.largest = nn.MaxPool2d(3, 2, 1, ceil_mode=True)
        self.means = nn.AvgPool2d((3, 2), stride=(2, 1), padding=1, ceil_mode=True, count_include_pad=False)
        self.uneven = nn.AdaptiveAvgPool2d((3, 4))
        self.line = nn.Conv1d(4, 6, 4, padding="same", dilation=3)
        self.batch = nn.BatchNorm1d(6)
        self.longer = nn.ConvTranspose1d(6, 4, 3, stride=2, padding=1, output_padding=1, dilation=2)
        self.circle = nn.Conv1d(4, 4, 3, padding=2, padding_mode="circular", bias=False)
        self.parts = nn.AdaptiveMaxPool1d(5)
        self.fc1 = nn.Linear(20, 12)
        self.free = nn.BatchNorm1d(12, track_running_stats=False)
        self.fc2 = nn.Linear(12, 4)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        x = self.plain(self.depth(x))
        x = F.relu(self.groups(self.up(x)))
        x = self.instance(self.wide(x))
        x = self.largest(x) + F.avg_pool2d(x, 2, padding=1, ceil_mode=True, divisor_override=3)
        x = self.uneven(self.means(x))
        x = torch.tanh(self.batch(self.line(x.flatten(2))))
        x = F.avg_pool1d(F.max_pool1d(self.longer(x), 3, 2, 1, ceil_mode=True), 2, 1, 1, count_include_pad=False)
        x = self.parts(self.circle(x)).flatten(1)
        return self.fc2(F.relu(self.free(self.fc1(x))))


def write(name, tensors):
    dtypes = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
    head, data = {}, b""
    for key, t in tensors.items():
        raw = bytes(t.detach().contiguous().view(torch.uint8).flatten().tolist()) if t.dim() else \
            bytes(t.detach().reshape(1).view(torch.uint8).tolist())
        head[key] = {"dtype": dtypes[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(HERE, name + ".safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def run(first, x, labels, dtype):
    model = Layers()
    model.load_state_dict(first, strict=False)
    model, x = model.to(dtype), x.to(dtype)
    opt = torch.optim.SGD(model.parameters(), lr=LR)
    loss_at, norm_at = [], []
    for s in range(STEPS):
        loss = F.cross_entropy(model(x[s % BATCHES]), labels[s % BATCHES])
        opt.zero_grad()
        loss.backward()
        norm_at.append(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters())).item())
        loss_at.append(loss.item())
        opt.step()
    model.eval()
    with torch.no_grad():
        eval_loss = F.cross_entropy(model(x[0]), labels[0]).item()
    return {"loss": loss_at, "grad_norm": norm_at, "eval_loss": eval_loss}, model.state_dict()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(4)
    x, labels = torch.randn(BATCHES, BATCH, 2, 9, 7), torch.randint(0, 4, (BATCHES, BATCH))
    first = {k: v.detach().clone() for k, v in Layers().state_dict().items()}
    for name, v in first.items():
        if v.dim() == 1 and "running" not in name:
            v += 0.1 * torch.randn_like(v)
    f64, final = run(first, x, labels, torch.float64)
    f32, other = run(first, x, labels, torch.float32)
    floats = {k: v for k, v in final.items() if v.is_floating_point()}

    def tolerance(key):
        err = max(abs(a / b - 1) for a, b in zip(f32[key], f64[key]))
        return {"err": err, "rtol": max(4 * err, 1e-5)}

    atol = {}
    for k, v in floats.items():
        err = (other[k].double() - v).abs().max().item()
        atol[k] = {"err": err, "atol": max(10 * err, 2e-6)}
    write("model", first)
    write("batches", {"x": x, "labels": labels})
    write("final", final)
    curves = {"model": "layers", "steps": STEPS, "optimizer": {"name": "SGD", "lr": LR},
              "variants": {"default": {"runs": {"f64": f64, "f32": f32},
                                       "tolerance": {"loss": tolerance("loss"), "grad_norm": tolerance("grad_norm"),
                                                     "final": atol}}}}
    with open(os.path.join(HERE, "curves.json"), "w") as f:
        json.dump(curves, f, indent=1)
        f.write("\n")


main()
