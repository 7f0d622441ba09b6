#!/usr/bin/env bash
# run_golden.sh CASE.mpt|CASE.ir: one golden text test.
#
# The head of the case says what to run, in comments (as many as wanted):
#     # RUN: mpc %s --emit=ir
# %s is the case's file name, %t a fresh temporary folder; commands run in the case's folder. What
# they print (stdout, then stderr) and "exit: N" must be the text of CASE.expected; with several
# RUN lines each part starts with "$ command". UPDATE=1 writes CASE.expected instead.
#
# Round trip: an .ir file that mpc takes, and all IR that a RUN line prints, must come out of
# `mpc FILE.ir --emit=ir` as the same bytes (but for comment lines, which are the test's own).
set -euo pipefail

case_path=$1
mpc=${MPC:?the compiler to test}
case_dir=$(cd "$(dirname "$case_path")" && pwd)
case_file=$(basename "$case_path")
expected=$case_dir/${case_file%.*}.expected

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/t"
PATH=$(dirname "$(realpath "$mpc")"):$PATH
cd "$case_dir"

# round_trip FILE WHAT: the printer must give back what the reader took.
round_trip() {
    grep -v '^[#;] ' "$1" | grep -v '^//' >"$tmp/want.ir" || true
    if ! mpc "$1" --emit=ir >"$tmp/got.ir" 2>"$tmp/got.err"; then
        echo "round trip: mpc does not read $2:"
        cat "$tmp/got.err"
        exit 1
    fi
    if ! diff -u --label "$2" --label "printed again" "$tmp/want.ir" "$tmp/got.ir"; then
        echo "round trip: $2 changed"
        exit 1
    fi
}

mapfile -t runs < <(sed -nE 's,^(#|;|//) *RUN: *(.*)$,\2,p' "$case_file")
: >"$tmp/actual"
readable=yes
for run in "${runs[@]}"; do
    command=${run//%s/$case_file}
    command=${command//%t/$tmp/t}
    if ((${#runs[@]} > 1)); then
        echo "\$ ${run//%s/$case_file}" >>"$tmp/actual"
    fi
    status=0
    bash -c "$command" >"$tmp/out" 2>"$tmp/err" </dev/null || status=$?
    cat "$tmp/out" "$tmp/err" | sed "s,$tmp/t,%t,g" >>"$tmp/actual"
    echo "exit: $status" >>"$tmp/actual"
    ((status == 0)) || readable=no
    if ((status == 0)) && [[ $run == *--emit=ir* && $run != *'|'* && $run != *'>'* ]]; then
        cp "$tmp/out" "$tmp/printed.ir"
        round_trip "$tmp/printed.ir" "the output of $run"
    fi
done

if [[ $case_file == *.ir && $readable == yes ]]; then
    round_trip "$case_file" "$case_file"
fi
if ((${#runs[@]} == 0)); then
    if [[ -e $expected ]]; then
        echo "$case_file: $(basename "$expected") lies beside it, but it has no RUN line"
        exit 1
    fi
    exit 0
fi

if [[ ${UPDATE:-0} == 1 ]]; then
    cp "$tmp/actual" "$expected"
elif [[ ! -e $expected ]]; then
    echo "$case_file: no $(basename "$expected"); UPDATE=1 writes it"
    exit 1
elif ! diff -u --label expected --label actual "$expected" "$tmp/actual"; then
    echo "$case_file: output changed (after review: UPDATE=1 $0 $case_path)"
    exit 1
fi
