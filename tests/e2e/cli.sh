#!/usr/bin/env bash
# cli.sh: what follows from the tables of options: help, completion scripts, manual pages, and the answers to typos;
# lists, and views that print of the compiler itself.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
digits=$examples/digits.mpt
train=$(program digits)
"$mpc" --help >help
"$train" --help >train.help
grep -oE '^  --?[A-Za-z-]+' help | tr -d ' ' >options
sed '/^Options of/,$d' train.help | grep -oE '^  --[a-z-]+'  | tr -d ' ' >flags
(($(wc -l <options) >= 24 && $(wc -l <flags) >= 15)) || fail "few options are listed"
(($(grep -c '^[A-Z].*:$' help) >= 4)) || fail "--help has no groups"
awk 'length > 100' help train.help | grep . && fail "a line of --help is longer than 100 columns"

# Each option is in each script, and in the manual page.
for shell in bash zsh fish; do
    "$mpc" --completion=$shell >script.$shell
    while read -r option; do
        word=${option##-}
        [[ $shell != fish ]] && word=$option || word=" -[ls] ${word#-} "
        grep -qe "$word" script.$shell || fail "$option is not completed in $shell"
    done <options
    if command -v $shell >/dev/null; then
        quietly $shell -n script.$shell
    fi
done
# page NAME OPTIONS: without warnings where there is a tool to give them.
page() {
    "$mpc" --manual="$1" >"$1.1"
    sed 's/\\-/-/g; s/\\&//g' "$1.1" >plain
    while read -r option; do
        grep -qe "$option" plain || fail "$option is not in the manual page of $1"
    done <"$2"
    if command -v man >/dev/null && command -v groff >/dev/null; then
        LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$1.1" >page 2>warnings || fail "man does not show $1.1"
        [[ ! -s warnings ]] || fail "man on $1.1: $(head -n 3 warnings)"
        grep -q 'EXIT STATUS' page || fail "$1.1 has no section on the exit status"
    fi
    if command -v mandoc >/dev/null; then
        mandoc -Tlint -W warning "$1.1" >warnings || fail "mandoc on $1.1: $(head -n 3 warnings)"
    fi
}
page mpc options
page program flags
lib=$(dirname "$mpc")/../share
if [[ -d $lib ]]; then
    cmp -s "$lib/man/man1/mpc.1" mpc.1 || fail "the built manual page is not what mpc prints"
    cmp -s "$lib/bash-completion/completions/mpc" script.bash || fail "the built script for bash is not what mpc prints"
fi

# complete_line LINE: what bash offers at its end.
cat >complete.sh <<'END'
source ./script.bash
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<<"${1//=/ = }"
[[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_mpc
printf '%s\n' "${COMPREPLY[@]}"
END
complete_line() {
    bash --norc complete.sh "$1" | sort | tr '\n' ' '
}
cp "$digits" my.mpt && touch my.txt && mkdir folder
[[ $(complete_line 'mpc my.mpt --emit=k') == 'kernels ' ]] || fail "bash: --emit=k becomes $(complete_line 'mpc my.mpt --emit=k')"
[[ $(complete_line 'mpc my.mpt --prec') == '--precision= ' ]] || fail "bash: --prec becomes $(complete_line 'mpc my.mpt --prec')"
[[ $(complete_line 'mpc my.mpt --pass=-au') == '-autocast -autodiff ' ]] || fail "bash: --pass=-au becomes $(complete_line 'mpc my.mpt --pass=-au')"
[[ $(complete_line 'mpc m') == 'my.mpt ' ]] || fail "bash: m becomes $(complete_line 'mpc m')"
[[ $(complete_line 'mpc my.mpt --dump-dir=f') == 'folder ' ]] || fail "bash: no folders"
[[ $(complete_line 'mpc my.mpt -O') == '-O0 -O1 -O2 -O3 ' ]] || fail "bash: -O becomes $(complete_line 'mpc my.mpt -O')"

# typos COMMAND FILE: at every place of every long name a letter is missing, doubled, another, or swapped, in turn.
typos() {
    local command=$1 right wrong i n=0 found=0 kind
    while read -r right; do
        [[ $right == --* ]] || continue
        for ((i = 2; i < ${#right}; i++)); do
            kind=$(((i + n) % 4))
            case $kind in
            0) wrong=${right:0:i}${right:i+1} ;;
            1) wrong=${right:0:i}${right:i:1}${right:i} ;;
            2) wrong=${right:0:i}q${right:i+1} ;;
            3) wrong=${right:0:i}${right:i+1:1}${right:i:1}${right:i+2} ;;
            esac
            if grep -qxFe "$wrong" "$2"; then
                continue
            fi
            n=$((n + 1))
            "$command" "$wrong" </dev/null >said 2>&1 && fail "$wrong is accepted"
            if grep -qe "did you mean $right?" said; then
                found=$((found + 1))
            else
                echo "$wrong: $right is not named"
            fi
        done
    done <"$2"
    echo "$command: $found of $n typos"
    ((n > 80 && found * 100 >= 95 * n)) || fail "$found of $n typos are answered with the right name"
}
typos "$mpc" options
typos "$train" flags

# Lists of everything in the tables.
rows() {
    grep -oE "^($2)\( *[a-z0-9_]+" "$src/$1" | sed 's/.*( *//' | sort
}
diff <(rows passes/passes.def PASS) <("$mpc" --list-passes | awk '{ print $1 }' | sort) >diff || fail "--list-passes: $(head -n 3 diff)"
diff <(rows ir/ops.def '[A-Z]+') <("$mpc" --list-ops | awk '{ print $1 }' | sort) >diff || fail "--list-ops: $(head -n 3 diff)"
"$mpc" "$digits" --time-passes --stop-after=decompose >out 2>times || fail "--time-passes"
[[ ! -s out ]] || fail "--time-passes prints to stdout"
diff <("$mpc" --list-passes | awk '{ print $1 }') <(awk '$2 ~ /^[0-9.]+$/ && $3 == "ms" { print $1 }' times) >diff ||
    fail "--time-passes: $(head -n 3 diff)"
printf 'data d = csv("nothing.csv") -> (x: f32[1] = columns("x"), y: f32[1] = columns("y"))\nmodule M() { l = Linear(1, 1); forward(x) { return l(x) } }\ntrainer { model = M(); train_dataset = d; loss = mse_loss }\n' >a.mpt
run 2 'a\.mpt:1:6: error: data d: there is no file nothing\.csv' "$mpc" a.mpt --check-data --stop-after=infer
touch nothing.csv
quietly "$mpc" a.mpt --check-data --stop-after=infer
rm nothing.csv
quietly "$mpc" a.mpt --stop-after=infer

# Messages for tools: one object a line, with the place.
printf 'model = Linaer(2, 3)\nx = 1 +\n' >b.mpt
"$mpc" b.mpt --diagnostics=json >out 2>json && fail "b.mpt is accepted"
grep -qE '^\{"severity":"error","file":"b\.mpt","line":[0-9]+,"column":[0-9]+,"length":[0-9]+,"message":".*"\}$' json ||
    fail "--diagnostics=json prints $(head -n 2 json)"
grep -vE '^\{.*\}$' json && fail "--diagnostics=json prints other lines"

# The graphs for Graphviz: braces and quotes match, every edge ends at a node, modules have frames.
for graph in "$digits" "$examples/digits_cnn.mpt"; do
    "$mpc" "$graph" --emit=dot --stop-after=autodiff -o graph.dot || fail "--emit=dot of $graph"
    awk '{ line = $0; gsub(/\\./, "", line); if (gsub(/"/, "", line) % 2) bad = 1; gsub(/\[.*\]/, "", line)
           open += gsub(/[{]/, "", line) - gsub(/[}]/, "", line) }
         /^ *g[0-9]+_[r0-9]+ \[/{ node[$1] = 1 }
         / -> /{ n = split($0, w, " "); for (i = 1; i < n; i++) if (w[i + 1] == "->") { edge[w[i]] = 1; to = w[i + 2]; sub(/;/, "", to); edge[to] = 1 } }
         END { for (e in edge) if (!(e in node)) bad = 1; exit bad || open != 0 }' graph.dot || fail "$graph: not a graph"
    if command -v dot >/dev/null; then
        quietly timeout 60 dot -Tsvg -o graph.svg graph.dot
    fi
done
grep -q 'label="conv1";' graph.dot || fail "--emit=dot: no frame for a module"
finish
