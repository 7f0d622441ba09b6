#!/usr/bin/env bash
# own_grad.sh: modules that give their own derivative, detach and no_grad, in every precision: the step that a program
# takes is the one that the file's grad says, by formula and by torch.autograd.Function where torch is installed.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
here=$src/tests/e2e
command -v python3 >/dev/null || skip "python3 is not installed"

python3 "$here/own_grad.py" make "$tmp"
quietly python3 -W ignore "$here/own_grad.py" torch
for at in f32:6e-8 bf16:3.9e-3 fp16:4.9e-4; do
    name=${at%:*}
    quietly "$mpc" -O0 --cpu=generic --precision="$name" --verify-passes "$here/own_grad.mpt" -o "$tmp/$name"
    quietly "$tmp/$name" --data "$tmp" --init "$tmp/init.safetensors" --out "$tmp/run_$name" --log none
    python3 "$here/own_grad.py" check "$tmp/run_$name" "${at#*:}" >"$tmp/said" ||
        fail "$name: $(cat "$tmp/said")"
done

# Nothing is computed for what no_grad and detach keep gradients from, and of own_grad nothing is left.
"$mpc" "$here/own_grad.mpt" --emit=ir >"$tmp/ir" 2>"$tmp/said"
grep 'the loss does not depend on g, unused' "$tmp/said" >/dev/null || fail "no word of g and unused"
grep -E 'name\("(g|unused)\.grad"\)' "$tmp/ir" && fail "there is a gradient of g"
grep -E '= (own|output)_grad' "$tmp/ir" && fail "own_grad is left in the IR"
finish
