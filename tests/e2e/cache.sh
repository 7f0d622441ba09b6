#!/usr/bin/env bash
# cache.sh: what was compiled before is taken from the cache, byte for byte; whatever the work depends on makes it anew;
# a cache that is damaged, cannot be written or is not wanted costs nothing but time.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
export MPC_CACHE=$tmp/cache
cat >net.mpt <<'MPT'
data points = csv("points.csv") -> (x: f32[2] = columns("a", "b"), y: f32)
module Line() {
    fc = Linear(2, 1)
    forward(x) { return fc(x).squeeze(-1) }
}
model     = Line()
optimizer = SGD(model.parameters(), lr = 0.1)
for batch in loader(points, batch_size = 2) {
    loss = mse_loss(model(batch.x), batch.y)
    backward(loss)
    optimizer.step()
    optimizer.zero_grad()
}
MPT

# made FROM FLAG...: compiles; FROM says where the program comes from: cc or cache.
made() {
    local from=$1
    shift
    rm -f net
    "$mpc" net.mpt -O0 --cpu=generic -v "$@" -o net >said 2>&1 || fail "mpc $*: $(tail -n 3 said)"
    [[ -x net ]] || fail "mpc $*: no program"
    if grep 'taken from the cache' said >/dev/null; then
        [[ $from == cache ]] || fail "mpc $*: from the cache"
    else
        [[ $from == cc ]] || fail "mpc $*: compiled again"
    fi
}
made cc
cp net first
made cache
cmp -s net first || fail "the cache gives another program"
./net --version >version || fail "the program of the cache does not run"

made cc -O1
made cc --cpu=x86-64-v3
MPC_CFLAGS="${MPC_CFLAGS:-} -DX" made cc
sed -i 's/0\.1)/0.2)/' net.mpt
made cc
sed -i 's/0\.2)/0.1)/' net.mpt
made cache
printf '#!/bin/sh\nexec cc "$@"\n' >other-cc
chmod +x other-cc
MPC_CC=$tmp/other-cc made cc

# Damage of any kind is no entry.
for file in cache/*; do
    printf 'x' | dd of="$file" bs=1 seek=100 conv=notrunc 2>/dev/null
done
made cc
made cache
for file in cache/*; do
    truncate -s 20 "$file"
done
made cc
made cache

# Not wanted, no place for it, a file in its place.
MPC_CACHE='' made cc
rm -rf cache
MPC_CACHE='' made cc
[[ ! -e cache ]] || fail "a cache was made though none was wanted"
touch cache
made cc
made cc
env -u MPC_CACHE XDG_CACHE_HOME="$tmp/xdg" "$mpc" net.mpt -O0 --cpu=generic -o net || fail "with XDG_CACHE_HOME: $?"
[[ -n $(ls "$tmp/xdg/mpc") ]] || fail "XDG_CACHE_HOME is not used"
env -u MPC_CACHE -u XDG_CACHE_HOME HOME=/proc/nowhere "$mpc" net.mpt -O0 --cpu=generic -o net || fail "without a home: $?"
finish
