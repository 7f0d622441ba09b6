# e2e_lib.sh: what the end-to-end scripts share. Sourced, not run.
#
# MPC is the compiler under test, MPC_SOURCE_DIR the sources, MPC_TEST_CACHE a folder in which
# compiled programs are kept between scripts. Each script gets a fresh folder, $tmp.
set -euo pipefail
mpc=$(realpath "${MPC:?the compiler to test}")
src=$(realpath "${MPC_SOURCE_DIR:-$(dirname "${BASH_SOURCE[0]}")/../..}")
examples=$src/examples
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cache=${MPC_TEST_CACHE:-$tmp/programs}
mkdir -p "$cache"

fashion=/usr/share/datasets/fashion-mnist

# A failure is remembered in a file: the function may run in a pipeline, and so in a subshell.
fail() {
    echo "FAILED: $*" >&2
    touch "$tmp/.failed"
}

# finish: the last line of every script.
finish() {
    [[ ! -e $tmp/.failed ]] || exit 1
    exit 0
}

skip() {
    echo "skipped: $*"
    exit 77
}

need_fashion() {
    [[ -e $fashion/train-images-idx3-ubyte.gz ]] || skip "dataset-fashion-mnist is not installed"
}

# program EXAMPLE [FLAG...]: prints the path of the program made from examples/EXAMPLE.mpt; compiled
# once for all scripts. Scripts run at the same time, hence the lock.
program() {
    local name=$1 key out
    shift
    key=$name$(printf '%s' "$*" | tr -c 'A-Za-z0-9' '_')
    out=$cache/$key
    exec 9>"$cache/$key.lock"
    flock 9
    if [[ ! $out -nt $mpc || ! $out -nt $(dirname "$mpc")/../lib/mpc/libmpcrt.a ||
        ! $out -nt $examples/$name.mpt ]]; then
        if ! "$mpc" "$examples/$name.mpt" "$@" -o "$out" >"$out.log" 2>&1; then
            cat "$out.log" >&2
            echo "mpc does not compile $name.mpt $*" >&2
            exit 1
        fi
    fi
    exec 9>&-
    echo "$out"
}

# run STATUS REGEX COMMAND...: the command must end with STATUS and say REGEX on stderr or stdout.
# What it said stays in $tmp/said.
run() {
    local want=$1 regex=$2 status=0
    shift 2
    "$@" >"$tmp/said" 2>&1 </dev/null || status=$?
    if ((status != want)); then
        fail "$(printf '%q ' "$@") ended with $status, not $want, and said:"
        head -n 20 "$tmp/said" >&2
        return
    fi
    if ! grep -qE -- "$regex" "$tmp/said"; then
        fail "$(printf '%q ' "$@") does not say /$regex/ but:"
        head -n 20 "$tmp/said" >&2
    fi
}

# quietly COMMAND...: must succeed; its output is shown only when it does not.
quietly() {
    local status=0
    "$@" >"$tmp/quiet" 2>&1 </dev/null || status=$?
    if ((status != 0)); then
        tail -n 30 "$tmp/quiet" >&2
        echo "FAILED: $(printf '%q ' "$@") ended with $status" >&2
        exit 1
    fi
}

# same_weights RUN RUN WHAT: bit for bit.
same_weights() {
    if [[ ! -s $1/model.safetensors ]]; then
        fail "$3: no $1/model.safetensors"
    elif ! cmp -s "$1/model.safetensors" "$2/model.safetensors"; then
        fail "$3: the weights differ"
    fi
}

# tensors FILE: name, first and last byte of each, by name.
tensors() {
    local head
    head=$(od -A n -t u8 -N 8 "$1")
    tail -c +9 "$1" | head -c "$head" | grep -oE '"[^"]+":\{"dtype":[^}]*\}' |
        sed -E 's/^"([^"]+)".*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2 \3/' | sort |
        awk -v at=$((8 + head)) '{ print $1, at + $2, at + $3 }'
}

# changed A B: the names of the tensors whose bits differ.
changed() {
    paste -d' ' <(tensors "$1") <(tensors "$2") | while read -r name from to other from2 to2; do
        [[ $name == "$other" && $((to - from)) == $((to2 - from2)) ]] || fail "$name and $other"
        cmp -s -n $((to - from)) -i "$from:$from2" "$1" "$2" || echo "$name"
    done
}

# floats FILE TENSOR, integer FILE TENSOR: its values, one a line.
floats() {
    read -r _ from to < <(tensors "$1" | grep "^$2 ")
    od -A n -v -t f4 -w4 -j "$from" -N $((to - from)) "$1"
}
integer() {
    read -r _ from to < <(tensors "$1" | grep "^$2 ")
    od -A n -t d8 -j "$from" -N 8 "$1" | tr -d ' '
}

# field KEY EVENT RUN: the values of a key over all log lines of that event, one a line.
field() {
    grep -E "\"event\": ?\"$2\"" "$3/log.jsonl" | sed -nE "s/.*\"$1\": ?\"?([^,\"}]*).*/\1/p"
}

# holds EXPRESSION: arithmetic on decimal numbers.
holds() {
    awk "BEGIN { exit !($1) }"
}
