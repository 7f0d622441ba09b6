#!/usr/bin/env bash
# augmentation.sh: random_rotation is torch's affine_grid and grid_sample, as torchvision calls them; flips and pad
# are torch's. What they draw is fixed by their arguments: an angle from [31, 31], a flip with p = 1. A picture is
# seen as the gradient of a sum that it is a factor of.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
python3 -c 'import torch' 2>/dev/null || skip "torch is not installed"
cd "$tmp"

names=(near turned back filled byte left up border whole)
made=('random_rotation(x, [31, 31])' 'random_rotation(x, [31, 31], interpolation = "bilinear")'
    'random_rotation(x, [-117, -117], interpolation = "bilinear", fill = 5)' 'random_rotation(x, [200, 200], fill = 5)'
    'random_rotation(u8(x), [77, 77], interpolation = "bilinear")' 'random_horizontal_flip(x, p = 1)'
    'random_vertical_flip(x, p = 1)' 'pad(x, [1, 2, 3, 0], 9)' 'random_crop(x, 5, 7)')
{
    echo 'data s = bin("s.bin") -> (x: f32[2, 5, 7])'
    echo 'batch of s {'
    for i in "${!names[@]}"; do echo "    ${names[i]} = ${made[i]}"; done
    echo '}'
    echo 'module Net() {'
    for name in "${names[@]}"; do
        [[ $name == border ]] && shape=2,7,11 || shape=2,5,7
        echo "    param $name: f32[$shape] = zeros()"
    done
    echo '}'
    echo 'model = Net()'
    echo 'optimizer = SGD(model, lr = 1.0)'
    echo 'for batch in loader(s, batch_size = 1) {'
    echo '    loss = 0.0'
    for name in "${names[@]}"; do echo "    loss = loss - sum(batch.$name * model.$name)"; done
    echo '    backward(loss)'
    echo '    optimizer.step()'
    echo '    optimizer.zero_grad()'
    echo '}'
} >augment.mpt
cat >peer.py <<'PY'
import json, math, struct, sys, warnings

H, W = 5, 7
x = [float(i * 37 % 251) for i in range(2 * H * W)]
if sys.argv[1] == "write":
    open("s.bin", "wb").write(struct.pack(f"<{len(x)}f", *x))
    sys.exit()

warnings.filterwarnings("ignore")
import torch
import torch.nn.functional as F

x = torch.tensor(x).reshape(1, 2, H, W)


def rotated(x, angle, mode, fill=0.0):
    """torchvision.transforms.functional.rotate of a tensor; what lies outside is `fill`, as if it were a picture
    of that colour that goes on for ever."""
    rot = math.radians(-angle)
    cosine, sine = math.cos(rot), math.sin(rot)
    theta = torch.tensor([[[cosine, sine * H / W, 0.0], [-sine * W / H, cosine, 0.0]]])
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    return F.grid_sample(x - fill, grid, mode=mode, padding_mode="zeros", align_corners=False) + fill


want = {
    "near": rotated(x, 31, "nearest"),
    "turned": rotated(x, 31, "bilinear"),
    "back": rotated(x, -117, "bilinear", 5.0),
    "filled": rotated(x, 200, "nearest", 5.0),
    "byte": rotated(x, 77, "bilinear").round(),
    "left": x.flip(-1),
    "up": x.flip(-2),
    "border": F.pad(x, (1, 3, 2, 0), value=9.0),
    "whole": x,
}
data = open("run/model.safetensors", "rb").read()
(size,) = struct.unpack_from("<Q", data)
head = json.loads(data[8 : 8 + size])
for name, w in want.items():
    begin, end = head[name]["data_offsets"]
    have = torch.frombuffer(bytearray(data[8 + size + begin : 8 + size + end]), dtype=torch.float32)
    have = have.reshape(head[name]["shape"])
    assert have.shape == w[0].shape, (name, have.shape, w.shape)
    # Places are f32 of a few pixels, 2^-21 each, and neighbours differ by up to 250. A byte may fall on either side.
    most = {"turned": 1e-3, "back": 1e-3, "byte": 1.0}.get(name, 0.0)
    apart = (have - w[0]).abs()
    assert apart.max() <= most, (name, apart.max(), have, w)
    assert name != "byte" or (apart > 0).sum() <= 1, (name, apart)
PY
python3 peer.py write
quietly "$mpc" augment.mpt --cpu=generic -O0 -o augment
quietly ./augment --out run --log none
python3 peer.py compare || fail "torch makes another picture"
finish
