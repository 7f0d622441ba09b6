#!/usr/bin/env bash
# docs.sh: what the documents show is what the tools print, their code in the language compiles, and
# their links lead to files. `MPC=... docs/update` makes generated blocks anew.
source "$(dirname "${BASH_SOURCE[0]}")/lint_lib.sh"
export MPC=${MPC:-build/release/bin/mpc}
if [[ ! -x $MPC ]]; then
    echo "no compiler at $MPC"
    exit 77
fi

docs/update --check || failed=1
docs/update --code || failed=1

# Links to files, from the folder of the document; anchors within a document to a heading of it.
anchors() {
    sed -nE 's/^#+ +(.*)$/\1/p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}
for file in docs/*.md README.md CONTRIBUTING.md; do
    while read -r link; do
        path=${link%%#*} anchor=
        [[ $link == *'#'* ]] && anchor=${link#*#}
        [[ $link == *://* ]] && continue
        target=$file
        [[ -z $path ]] || target=$(dirname "$file")/$path
        if [[ ! -e $target ]]; then
            complain "$file: a link leads nowhere: $link"
        elif [[ -n $anchor ]] && ! anchors "$target" | grep -xF -- "$anchor" >/dev/null; then
            complain "$file: no heading for the link $link"
        fi
    done < <(awk '/^```/ { code = !code; next } !code && !/^    /' "$file" | sed 's/`[^`]*`//g' |
        grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//')
done
exit "$failed"
