#!/usr/bin/env bash
# bad_source.sh: sources that are no programs. mpc says where and what, ends with status 2, never
# crashes, and writes no program.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

data='data train_set = csv("digits_train.csv") -> (image: f32[64] = columns("pixel_0_0".."pixel_7_7"), label: i32 = column("label"))'
trainer='trainer {
    model = Mlp()
    train_dataset = train_set
    num_train_epochs = 1
}'

# case NAME REGEX: the source on stdin must be refused with a message that fits.
refused() {
    cat >"$1.mpt"
    rm -f out
    run 2 "$2" "$mpc" "$1.mpt" -o out
    [[ ! -e out ]] || fail "$1: mpc wrote a program all the same"
}

# A well-formed one first, so that the others fail for the reason they should.
cat >good.mpt <<END
$data
module Mlp() {
    fc1 = Linear(64, 32)
    fc2 = Linear(32, 10)
    forward(image) { return fc2(relu(fc1(image))) }
}
$trainer
END
quietly "$mpc" good.mpt --emit=ir

# change NAME REGEX SED: good.mpt with one change.
change() {
    sed "$3" good.mpt >changed
    cmp -s changed good.mpt && fail "$1: the edit changes nothing"
    refused "$1" "$2" <changed
}
change shapes '^shapes\.mpt:[0-9]+:[0-9]+: error: .*32.*16|^shapes\.mpt:[0-9]+:[0-9]+: error: .*16.*32' 's/Linear(32, 10)/Linear(16, 10)/'
grep -q '\^' said || fail "shapes: no caret under the source"
change op '^op\.mpt:5:[0-9]+: error: .*reluu' 's/relu(/reluu(/'
grep -q 'did you mean.*relu' said || fail "op: relu is not named"
change argument '^argument\.mpt:3:[0-9]+: error: .*biass' 's/Linear(64, 32)/Linear(64, 32, biass = true)/'
grep -q 'did you mean.*bias' said || fail "argument: bias is not named"
change module '^module\.mpt:3:[0-9]+: error: .*Linaer' 's/Linear(64, 32)/Linaer(64, 32)/'
grep -q 'did you mean.*Linear' said || fail "module: Linear is not named"
change key '^key\.mpt:[0-9]+:[0-9]+: error: .*num_train_epoch' 's/num_train_epochs/num_train_epoch/'
grep -q 'did you mean.*num_train_epochs' said || fail "key: num_train_epochs is not named"
change recursion '^recursion\.mpt:[0-9]+:[0-9]+: error: .*(recurs|itself|contains)' 's/fc1 = Linear(64, 32)/fc1 = Mlp()/'
change string '^string\.mpt:1:[0-9]+: error: .*(unterminated|string|quote)' 's/csv("digits_train.csv")/csv("digits_train.csv)/'
change data_name '^data_name\.mpt:[0-9]+:[0-9]+: error: .*train_sett' 's/= train_set$/= train_sett/'

# Several errors in one run, each once.
sed 's/relu(/reluu(/; s/Linear(64, 32)/Linaer(64, 32)/' good.mpt | refused several 'Linaer'
(($(grep -c ': error: ' said) <= 3)) || fail "several: errors cascade: $(grep -c ': error: ' said)"

: | refused empty '(empty|nothing|no )'
printf '   \n# only a comment\n' | refused comment '(empty|nothing|no )'
head -c 20000 "$mpc" | refused binary 'error:'
head -c 3000 /dev/urandom | refused noise 'error:'
printf 'module \xff\xfe' | refused not_utf8 'error:'
printf 'x = 1\0y = 2\n' | refused nul 'error:'
refused unclosed '^unclosed\.mpt:[0-9]+:[0-9]+: error:' <<<'module M() { forward(x) { return x'

# 10,000 levels of nesting, of each kind.
deep() { printf "%0.s$1" $(seq 10000); }
{ printf 'x = '; deep '('; printf 1; deep ')'; echo; } | refused parentheses '(nest|deep)'
{ printf 'x = '; deep '['; deep ']'; echo; } | refused brackets '(nest|deep)'
{ deep 'if true { '; deep '} '; echo; } | refused blocks '(nest|deep)'
{ printf 'x = '; deep '-'; echo 1; } | refused minus '(nest|deep|error)'
{ printf 'x = '; deep 'f('; deep ')'; echo; } | refused calls '(nest|deep)'
{ printf 'x = 1'; deep ' + 1'; echo; } >sum.mpt
status=0
"$mpc" sum.mpt -o out >said 2>&1 || status=$?
((status == 2)) || fail "a sum of 10,000 terms: status $status"

# IR that is none.
for name in empty noise binary; do
    cp "$name.mpt" "$name.ir"
    run 2 'error:' "$mpc" "$name.ir" -o out
done
"$mpc" good.mpt --emit=ir >good.ir
lines=$(wc -l <good.ir)
for part in 1 2 3 4 5 6 7 8 9; do
    head -n $((lines * part / 10)) good.ir | sed '$s/.\{1,3\}$//' >cut.ir
    run 2 'cut\.ir:[0-9]+' "$mpc" cut.ir -o out
done

# At most 20 errors are shown.
{ for i in $(seq 100); do echo "module M$i() { forward(x) { return nosuch$i(x) } }"; done; cat good.mpt; } >many.mpt
status=0
"$mpc" many.mpt -o out >said 2>&1 || status=$?
count=$(grep -c ': error: ' said || true)
((count <= 20)) || fail "many: $count errors shown"
finish
