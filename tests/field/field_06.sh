#!/usr/bin/env bash
# A mask as a large constant, -1e10 or the smallest number of a type, is -inf in fp16 once something is
# added, and a masked row NaN. A constant that is infinite in the type it meets is kept out of it, with
# a warning, and masks select. (Fully masked rows of attention wait for the op.)
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

# m of a row says how many of its 4 keys are there.
table rows.csv a,b,c,d,e,f,g,h,m,label 12 \
    'rand(), rand(), -rand(), rand(), 9*rand(), rand(), -9*rand(), rand(), i % 4 + 1, i % 2'
# attend NAME TYPE MASKED: attention over 4 keys of 2 features; MASKED is made of the scores s and `there`.
attend() {
    {
        cat <<END
data rows = csv("rows.csv") -> (x: f32[8] = columns("a".."h"), m: i32, label: i32)
module Net() {
    q = Linear(2, 8); k = Linear(2, 8); v = Linear(2, 8); head = Linear(8, 2)
    forward(x, m) {
        x = x.reshape(-1, 4, 2)
        s = q(x) @ k(x).transpose(1, 2) * 4
        there = (iota(4).reshape(1, 1, 4) < m.reshape(-1, 1, 1))
        p = softmax($3, dim = -1)
        hidden = amax(f32(p) * f32(1 - f32(there)))
        return head(mean(p @ v(x), dim = 1)), hidden
    }
}
END
        epochs=3 after='print("hidden", hidden)'
        loop 'AdamW(model, lr = 0.01)' $2 'logits, hidden = model(batch.x, batch.m)' \
            'loss = cross_entropy(logits, batch.label)'
    } >"$1_$2.mpt"
    "$mpc" "$1_$2.mpt" -O0 --cpu=generic -o "$1_$2" 2>"$1_$2.notes" || { fail "$1 in $2: $(head -n 3 "$1_$2.notes")"; return; }
    train "$1_$2"
    same "$(printed hidden "$1_$2" | sort -u)" 0 "$1 in $2: what is masked"
    grep -q '"finite": *false' "$1_$2_run/log.jsonl" && fail "$1 in $2: something is not finite"
    same "$(last skips end "$1_$2")" 0 "$1 in $2: skipped steps"
    # No constant of the finished graph is infinite in its type, and f16's end at 65504.
    "$mpc" "$1_$2.mpt" --emit=ir 2>/dev/null | sed -nE 's/.* = const \{value=([^}]*)\} +: (f16|bf16|f32).*/\1 \2/p' |
        awk '$1 ~ /inf/ || ($2 == "f16" && ($1 > 65504 || $1 < -65504)) { print; bad = 1 } END { exit bad }' ||
        fail "$1 in $2: an infinite constant in the IR"
}
# warned NAME TYPE YES: a warning with the line of the mask, or none.
warned() {
    local found=no
    grep -qE "^$1_$2\.mpt:8:[0-9]+: warning: .*inf.* in $2" "$1_$2.notes" && found=yes
    same "$found" "$3" "$1 in $2: a warning"
}
attend flax f16 'where(there, s, -1e10)'
attend flax bf16 'where(there, s, -1e10)'
attend bert f16 'where(there, s, -10000.0)'
attend added bf16 's + (1 - f32(there)) * -1e9'
attend smallest f16 'where(there, s, -65504.0)'
warned flax f16 yes
warned flax bf16 no
warned bert f16 no
warned smallest f16 no
finish
