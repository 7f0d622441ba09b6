"""cnn_torch.py: the network of cnn.mpt in PyTorch, eager, on one batch that lies ready; milliseconds of
every step, one a line. What cnn.sh compares with; it neither loads data nor logs.

    python3 bench/cnn_torch.py f32|bf16|fp16 STEPS THREADS
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

TYPES = {"f32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Cnn(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def main():
    kind, steps, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    low = TYPES[kind]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cpu", enabled=kind == "fp16")
    x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=low or torch.bfloat16, enabled=low is not None):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()
        print(1e3 * (time.perf_counter() - start))


main()
