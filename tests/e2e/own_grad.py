"""own_grad.py make FOLDER | check RUN EPSILON | torch: what own_grad.mpt computes, by formula.

make writes the samples and the initial weights. check compares the weights after one step with rate 1 with the
gradients that the modules' own grad and no_grad say, within a few EPSILON of the largest. torch compares the formulas
with torch.autograd.Function, where torch is installed.
"""
import json
import random
import struct
import sys

N, D = 8, 4
NAMES = ["a", "b", "c", "e", "f", "g", "unused"]
TRAINED = ["a", "b", "c", "e", "f"]


def inputs():
    """Multiples of 1/4, so that products and their sums over four are exact in every type."""
    rnd = random.Random(5)
    x = [[rnd.randrange(-4, 5) / 4 for _ in range(D)] for _ in range(N)]
    w = {n: [[rnd.randrange(-4, 5) / 4 for _ in range(D)] for _ in range(D)] for n in NAMES}
    return x, w


def write_tensors(path, tensors):
    head, data = {}, b""
    for name, rows in tensors.items():
        raw = struct.pack("<%df" % (D * D), *[v for row in rows for v in row])
        head[name] = {"dtype": "F32", "shape": [D, D], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read_tensors(path):
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    head, out = json.loads(raw[8:8 + size]), {}
    for name, entry in head.items():
        if name != "__metadata__":
            lo, hi = entry["data_offsets"]
            v = struct.unpack("<%df" % ((hi - lo) // 4), raw[8 + size + lo:8 + size + hi])
            out[name] = [list(v[i * D:i * D + D]) for i in range(len(v) // D)]
    return out


def product(x, w):
    return [[sum(p * q for p, q in zip(row, out)) for out in w] for row in x]


def outer(dy, x):
    return [[sum(dy[n][i] * x[n][k] for n in range(N)) for k in range(D)] for i in range(D)]


def each(fn, *tables):
    return [[fn(*v) for v in zip(*rows)] for rows in zip(*tables)]


def by_formula(x, w):
    m = 1 / (N * D)
    h = {n: product(x, w[n]) for n in NAMES}
    s = each(lambda v: float((v + 0.5) // 1), h["a"])
    gsum = sum(sum(row) for row in w["g"])
    assert gsum != 0
    return {
        "a": outer(each(lambda x, s: 2 * x * s * m, x, s), x),
        "b": outer(each(lambda x, h: x * m * (1 if abs(h) <= 1 else 0.25), x, h["b"]), x),
        "c": outer(each(lambda h: -0.125 * 2 * h * m, h["c"]), x),
        "e": outer(each(lambda x: 3 * x * m, x), x),
        "f": outer(each(lambda g: g * m, h["g"]), x),
    }


def by_torch(x, w):
    import torch

    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.floor(x + 0.5)

        @staticmethod
        def backward(ctx, dy):
            return dy

    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(ctx, dy):
            return torch.where(ctx.saved_tensors[0].abs() <= 1, dy, 0.25 * dy)

    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, dy):
            return -0.5 * dy

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, strength):
            ctx.save_for_backward(x)
            ctx.strength = strength
            return x @ w.T

        @staticmethod
        def backward(ctx, dy):
            return None, ctx.strength * (dy.T @ ctx.saved_tensors[0]), None

    x = torch.tensor(x)
    w = {n: torch.tensor(v, requires_grad=True) for n, v in w.items()}
    s = Round.apply(x @ w["a"].T)
    t = Clip.apply(Clip.apply(x @ w["b"].T))
    r = x @ w["c"].T
    for _ in range(3):
        r = Reverse.apply(r)
    u = Product.apply(x, w["e"], 3.0)
    with torch.no_grad():
        v = x @ w["f"].T * w["g"].sum()
    y = x * s * s + x * t + r * r + x * u + x * v + (x @ w["g"].T).detach() * (x @ w["f"].T)
    y.mean().backward()
    assert w["g"].grad is None and w["unused"].grad is None
    return {n: w[n].grad.tolist() for n in TRAINED}


def distance(p, q):
    size = max(abs(v) for row in p for v in row)
    return max(abs(v - u) for a, b in zip(p, q) for v, u in zip(a, b)) / size


def check_torch():
    x, w = inputs()
    try:
        theirs = by_torch(x, w)
    except ImportError:
        return 0
    ours = by_formula(x, w)
    return sum(not distance(ours[n], theirs[n]) < 1e-6 for n in TRAINED)


def check(run, epsilon):
    x, w = inputs()
    want = by_formula(x, w)
    after, bad = read_tensors(run + "/model.safetensors"), 0
    for n in NAMES:
        if n not in TRAINED:
            ok = after[n] == w[n]
            what = "is as it was"
        else:
            got = each(lambda p, q: p - q, w[n], after[n])
            far = distance(want[n], got)
            ok = far <= 8 * epsilon
            what = "is off by %.1e" % far
        print("%s %s%s" % (n, what, "" if ok else "  WRONG"))
        bad += not ok
    return bad


if sys.argv[1] == "make":
    samples, weights = inputs()
    write_tensors(sys.argv[2] + "/init.safetensors", weights)
    with open(sys.argv[2] + "/own_grad.csv", "w") as f:
        f.write("a,b,c,d\n" + "".join(",".join("%g" % v for v in row) + "\n" for row in samples))
elif sys.argv[1] == "torch":
    sys.exit(check_torch() > 0)
else:
    sys.exit(check(sys.argv[2], float(sys.argv[3])) > 0)
