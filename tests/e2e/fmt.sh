#!/usr/bin/env bash
# fmt.sh: mpc fmt on every .mpt of the tree: the layout of a layout is itself, the meaning stays, and so do all
# comments. A file with an error, and one that cannot be replaced, stays as it was.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

meaning() {
    "$mpc" "$1" --emit=ast | sed 's/ *@[0-9:]*$//'
}
comments() { # those of lines without a '#' in a string
    { grep -v '"[^"]*#' "$1" | grep -o '#.*[^[:space:]]' || true; } | sort
}
# laid_out FILE: checks a file that has a meaning.
laid_out() {
    local file=$1
    "$mpc" fmt "$file" >once.mpt || fail "$file: mpc fmt ends with $?"
    "$mpc" fmt - <once.mpt >twice.mpt
    cmp -s once.mpt twice.mpt || fail "$file: the layout of its layout is another"
    meaning once.mpt | diff - meant >diff || fail "$file: means something else: $(head -n 3 diff)"
    comm -23 <(comments "$file") <(comments once.mpt) >lost
    [[ ! -s lost ]] || fail "$file: comments are lost: $(head -n 3 lost)"
}

count=0
while read -r file; do
    meaning "$file" >meant 2>/dev/null || continue
    count=$((count + 1))
    laid_out "$file"
done < <(find "$src/examples" "$src/frontend/std" "$src/tests" -name '*.mpt' | sort)
((count >= 20)) || fail "only $count files were tried"

# Spoilt files: either still a program, and then the same holds, or refused and left alone.
refused=0
for i in {1..40}; do
    awk -v seed="$i" 'BEGIN { srand(seed); at = int(rand() * 1400) + 1; put = substr("(){}[]\",=.+#:;\\", int(rand() * 15) + 1, 1) }
        { n = length($0) + 1; if (at > 0 && at <= n) $0 = substr($0, 1, at - 1) put substr($0, at + (rand() < 0.5)); at -= n; print }' \
        "$examples/digits.mpt" >spoilt.mpt
    cp spoilt.mpt before.mpt
    if meaning spoilt.mpt >meant 2>/dev/null; then
        laid_out spoilt.mpt
    else
        refused=$((refused + 1))
        run 2 "spoilt.mpt:[0-9]+:[0-9]+: error" "$mpc" fmt -w spoilt.mpt
        cmp -s spoilt.mpt before.mpt || fail "a file with an error was changed"
    fi
done
((refused > 10)) || fail "only $refused spoilt files were refused"

printf 'option   lr=0.1\n\n\n\n# rate\noption epochs = 5 # passes\n' >a.mpt
cp a.mpt old.mpt
run 1 'a.mpt:1: not in the canonical layout' "$mpc" fmt --check a.mpt
grep -qxF -- '-option   lr=0.1' said && grep -qE '^\+option lr +=' said || fail "--check does not show both lines"
cmp -s a.mpt old.mpt || fail "--check changes the file"
chmod 640 a.mpt
quietly "$mpc" fmt -w a.mpt
quietly "$mpc" fmt --check a.mpt
[[ $(stat -c %a a.mpt) == 640 ]] || fail "-w changes the permissions"
[[ $(grep -c '^$' a.mpt) == 1 ]] || fail "more than one blank line is left"
[[ $(ls a.mpt*) == a.mpt ]] || fail "-w leaves $(ls a.mpt*)"
ln -s a.mpt link.mpt
cp old.mpt a.mpt
quietly "$mpc" fmt -w link.mpt
[[ -L link.mpt ]] && "$mpc" fmt --check a.mpt >/dev/null || fail "-w replaces a link instead of its file"
run 2 'missing.mpt' "$mpc" fmt missing.mpt
run 2 'did you mean --check' "$mpc" fmt --chekc a.mpt
run 2 'exclude each other' "$mpc" fmt -w --check a.mpt
if ((EUID != 0)); then
    mkdir closed && cp old.mpt closed/ && chmod 500 closed
    run 1 'cannot write closed/old.mpt: Permission denied' "$mpc" fmt -w closed/old.mpt
    cmp -s closed/old.mpt old.mpt || fail "a file in a closed folder was changed"
    chmod 700 closed
fi
run 1 'cannot write' bash -c "\"$mpc\" fmt old.mpt >/dev/full"
finish
