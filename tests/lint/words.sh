#!/usr/bin/env bash
# words.sh: words that do not belong into a finished source: notes of unfinished work, paths of one
# machine; and a switch over ops anywhere but where rewriting rules live (the op table is for that).
source "$(dirname "${BASH_SOURCE[0]}")/lint_lib.sh"

mapfile -t files < <(
    source_files '*.c' '*.h' '*.l' '*.y' '*.def' '*.awk' '*.sh' '*.mpt' '*.ir' '*.cmake' '*.in' \
        '*.md' '*.txt' '*.expected' | grep -v '^tests/lint/'
    ls CMakeLists.txt README.md get-started run-tests .ci/run 2>/dev/null
)

# forbid REGEX WHY
forbid() {
    local hits
    hits=$(grep -nE "$1" "${files[@]}" || true)
    [[ -z $hits ]] || complain "$2:"$'\n'"$hits"
}
forbid '\b(TODO|FIXME|XXX|HACK)\b' "unfinished work belongs into an issue"
forbid '(^|[^A-Za-z0-9_.])/(work|root|home|tmp|mnt)(/|\b)' "a path of one machine"

hits=$(source_files '*.c' '*.h' | grep -vE '^(passes/simplify\.c|tests/)' |
    xargs grep -nE '\bcase OP_' || true)
[[ -z $hits ]] || complain "a switch over ops outside passes/simplify.c (use the op table):"$'\n'"$hits"
exit "$failed"
