#!/usr/bin/env bash
# print.sh: print(...) of tensors and shapes, in modules, evaluations and the loop: what PyTorch would show, in order,
# after each call; no bit of the training changes; programs made of IR print the same.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
printf 'a,b,y\n1,2,0\n-3,0.5,1\n4,400000,0\n' >points.csv
cat >net.mpt <<'MPT'
data points = csv("points.csv") -> (x: f32[2] = columns("a", "b"), y: f32)
module Net() {
    fc = Linear(2, 1)
    forward(x) {
        n = x.shape[0]
        print("x", x, x.shape, n)
        print(x > 0, x.shape[1])
        print("far apart", x * 1e5)
        print(zeros(40, 30), "end")
        return fc(x / 1e3).squeeze(-1)
    }
}
model     = Net()
optimizer = SGD(model.parameters(), lr = 0.01)
for batch in loader(points, batch_size = 2) {
    with autocast(bf16) {
        loss = mse_loss(model(batch.x), batch.y)
    }
    print("targets", batch.y)
    backward(loss)
    optimizer.step()
    optimizer.zero_grad()
}
e = evaluate(points, batch_size = 3) {
    half = cast(batch.x, f16)
    print("half", half)
    mse_loss(model(batch.x), batch.y)
}
MPT
quietly "$mpc" net.mpt -O0 --cpu=generic -o net
./net --out run --log none >shown 2>messages || fail "the run: $(tail -n 3 messages)"
cat >wanted <<'TXT'
x
[[ 1.0000,  2.0000],
 [-3.0000,  0.5000]] [2, 2] 2
[[ true,  true],
 [false,  true]] bool 2
far apart
[[ 1.0000e+05,  2.0000e+05],
 [-3.0000e+05,  5.0000e+04]]
TXT
sed -i 's/^far apart$/far apart/' shown
head -n 5 shown | diff <(head -n 5 wanted) - || fail "the first step"
grep -A2 '^far apart' shown | sed -n 2p | grep -E '^\[\[ *100000\., *200000\.\],$' >/dev/null ||
    fail "whole numbers: $(grep -A2 '^far apart' shown | head -n 3)"
grep -F '...' shown >/dev/null || fail "1,200 elements are all shown"
[[ $(grep -c '^targets ' shown) == 2 && $(grep -c '^half' shown) == 1 ]] || fail "lines: $(grep -c . shown)"
grep '^targets \[0., 1.\]$' shown >/dev/null || fail "targets: $(grep targets shown)"
grep -F 'inf' shown >/dev/null || fail "400000 is infinite in f16"
grep -E 'f16$' shown >/dev/null || fail "the type of a half is not told"

grep -v 'print(' net.mpt >plain.mpt
quietly "$mpc" plain.mpt -O0 --cpu=generic -o plain
quietly ./plain --out of_plain --log none
same_weights run of_plain "with and without print"
for pass in lower autocast simplify; do
    "$mpc" net.mpt --dump-after=$pass >again.ir
    quietly "$mpc" again.ir -O0 --cpu=generic -o again
    ./again --out of_ir --log none >of_ir.txt || fail "from the IR after $pass"
    cmp -s shown of_ir.txt || fail "what the IR after $pass prints: $(diff shown of_ir.txt | head -n 5)"
    rm -rf of_ir
done

# Answers are for machines: nothing between them.
quietly "$mpc" net.mpt -O0 --cpu=generic -o net
./net --predict points.csv --out run >answers || fail "--predict: $?"
grep -v '^{' answers && fail "--predict prints more than answers"
finish
