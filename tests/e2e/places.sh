#!/usr/bin/env bash
# places.sh: folders and names. Spaces, quotes and letters beyond ASCII work; a place that cannot be
# written is an error with a sentence, before any time is spent; mpc works from wherever it is
# installed.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
digits=$examples/digits.mpt
quick=-O1 # of the C compiler: this is not about speed, and the bits are the same
train=$(program digits)

# ---- odd names ---------------------------------------------------------------------------------
odd="it's a \"näme\" \$HOME"
mkdir -p "$odd/data"
cp "$digits" "$odd/my digits.mpt"
cp "$examples"/data/digits_*.csv "$odd/data"
quietly "$mpc" $quick "$odd/my digits.mpt" -o "$odd/my train"
quietly "$odd/my train" --epochs 2 --seed 4 --out "$odd/a run"
quietly "$train" --epochs 2 --seed 4 --out plain
same_weights plain "$odd/a run" "a folder with an odd name"

# Texts of every length with quotes in them: wherever the lines of the C text are folded, it is not within
# a string.
{
    for n in $(seq 40 120); do
        printf 'option text%d = "%*s\\" and \\" \\\\ it'"'"'s (one, {two"\n' "$n" "$n" ''
    done
    sed "s|\"data/|\"$examples/data/|" "$digits"
} >texts.mpt
quietly "$mpc" -O0 texts.mpt -o texts
quietly ./texts --max-steps 1 --text77 'as given' --out texts_run
grep -q 'as given' texts_run/config.json || fail "the value of an option is not in config.json"

# ---- places that cannot be written -------------------------------------------------------------
touch file
run 1 'file' "$train" --epochs 1 --out file/run
run 1 '/proc' "$train" --epochs 1 --out /proc/run
run 1 'file' "$mpc" $quick "$digits" -o file/train
run 1 'nosuch' "$mpc" $quick "$digits" -o nosuch/train
mkdir folder
run 1 'folder' "$mpc" $quick "$digits" -o folder
if [[ -w /dev/full ]]; then
    status=0
    "$mpc" "$digits" --emit=ir >/dev/full 2>said || status=$?
    ((status == 1)) || fail "--emit=ir to a full disk ends with $status"
    [[ -s said ]] || fail "--emit=ir to a full disk says nothing"
fi
if (($(id -u) != 0)); then
    mkdir -m 555 readonly
    run 1 'readonly' "$train" --epochs 1 --out readonly/run
    run 1 'readonly' "$mpc" $quick "$digits" -o readonly/train
fi
status=0
TMPDIR=$tmp/nosuch "$mpc" $quick "$digits" -o with_bad_tmp >said 2>&1 || status=$?
((status == 0 || status == 1)) || fail "a missing TMPDIR: status $status"
((status == 0)) || grep -q nosuch said || fail "a missing TMPDIR is not named"

# ---- no C compiler -----------------------------------------------------------------------------
run 1 'nosuchcc' env CC=nosuchcc "$mpc" $quick "$digits" -o x
mkdir empty
run 1 '(C compiler|cc)' env -u CC PATH="$tmp/empty" "$mpc" $quick "$digits" -o x
run 1 'false' env CC=false "$mpc" $quick "$digits" -o x
[[ ! -e x ]] || fail "a program without a C compiler"
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    quietly env CC=$compiler "$mpc" $quick "$digits" -o by_$compiler
    quietly ./by_$compiler --epochs 1 --out run_$compiler
done

# ---- an installation, moved --------------------------------------------------------------------
build=$(dirname "$mpc")/..
if command -v cmake >/dev/null && [[ -e $build/CMakeCache.txt ]]; then
    quietly cmake --install "$build" --prefix "$tmp/first"
    mkdir "moved here"
    mv first "moved here/mpc"
    installed="$tmp/moved here/mpc/bin/mpc"
    ln -s "$installed" linked
    for command in "$installed" ./linked; do
        rm -f moved_train
        quietly "$command" $quick "$digits" -o moved_train
        quietly ./moved_train --epochs 2 --seed 4 --out moved_run
        same_weights plain moved_run "the installed mpc"
        rm -rf moved_run
    done
    (export PATH="$(dirname "$installed"):$PATH" && quietly mpc $quick "$digits" -o by_path)
    size=$(du -sk "moved here/mpc" | cut -f1)
    ((size <= 20 * 1024)) || fail "the installation takes $size KiB, more than 20 MB"
    rm "moved here/mpc/lib/mpc/libmpcrt.a"
    run 1 'libmpcrt' "$installed" $quick "$digits" -o no_runtime
fi
finish
