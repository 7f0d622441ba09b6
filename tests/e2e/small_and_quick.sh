#!/usr/bin/env bash
# small_and_quick.sh: the program is one file under 3 MB that links nothing of ours, the first step
# comes within 50 ms of exec (data reading not counted), mpc takes under 0.2 s before the C
# compiler. Times are the best of several runs: another process must not make this fail.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
train=$(program digits)

if grep -q 'CMAKE_BUILD_TYPE:STRING=Debug\|MPC_SANITIZE:STRING=[a-z]' "$(dirname "$mpc")/../CMakeCache.txt" 2>/dev/null; then
    skip "times and sizes of a debug build say nothing"
fi

size=$(stat -Lc %s "$train")
((size < 3000000)) || fail "the program has $size bytes"
linked=$(ldd "$train" | grep -vE 'linux-vdso|ld-linux|libc\.so|libm\.so|libpthread\.so' || true)
[[ -z $linked ]] || fail "the program links: $linked"

best=9
for i in 1 2 3 4 5; do
    quietly "$train" --max-steps 1 --out "run$i"
    s=$(field first_step_s end "run$i")
    holds "${s:-9} < $best" && best=$s
done
echo "first step after $best s"
holds "$best <= 0.05" || fail "first step after $best s"

# best_of COMMAND...: seconds, the best of five.
best_of() {
    local best=9 t
    for i in 1 2 3 4 5; do
        local t0=$EPOCHREALTIME
        "$@" >/dev/null
        t=$(awk "BEGIN { print $EPOCHREALTIME - $t0 }")
        holds "$t < $best" && best=$t
    done
    echo "$best"
}
t=$(best_of "$mpc" "$examples/digits.mpt" --emit=c)
echo "mpc without the C compiler: $t s"
holds "$t < 0.2" || fail "mpc takes $t s before the C compiler"
t=$(best_of "$mpc" --version)
holds "$t <= 0.05" || fail "mpc --version takes $t s"
finish
