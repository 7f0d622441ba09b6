#!/usr/bin/env bash
# completion.sh: what the scripts of a program's --completion offer: its flags, its options, and their values.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
cp "$(program digits)" "my train"
train="./my train"
mkdir folder && touch file.csv

for shell in bash zsh fish; do
    "$train" --completion=$shell >script.$shell || fail "--completion=$shell ends with $?"
    for name in $("$train" --help | sed -nE 's/^  --([a-z-]+).*/\1/p'); do
        grep -E -- "(--|-l )$name\b" script.$shell >/dev/null || fail "$shell: no --$name"
    done
    grep "my train" script.$shell >/dev/null || fail "$shell: not for this program"
done
! grep -E -- '--?epochs.*passes over' script.zsh >/dev/null || fail "zsh: a flag that an option of the file replaces"
run 2 "'tcsh' is none of bash, zsh, fish" "$train" --completion=tcsh
for shell in bash zsh fish; do
    command -v $shell >/dev/null || continue
    $shell -n script.$shell || fail "$shell does not read its script"
done

# complete_line WORD...: what bash offers for the last one, of which it makes several where there is a `=`.
cat >complete.sh <<'END'
source ./script.bash
COMP_WORDS=("my train" "$@")
COMP_CWORD=$#
$(complete -p 'my train' | sed -E "s/.*-F ([^ ]*).*/\1/")
printf '%s\n' "${COMPREPLY[@]}"
END
complete_line() {
    bash --norc complete.sh "$@" | sort | tr '\n' ' '
}
offers() {
    local want=$1
    shift
    [[ $(complete_line "$@") == "$want " ]] || fail "bash: '$*' becomes '$(complete_line "$@")', not '$want'"
}
offers '--epochs --eval --export' --e
offers '--lr' --lr 3 --lr
offers 'csv' --log c
offers 'jsonl' --log = j
offers 'csv jsonl none tensorboard text' --log =
offers 'folder' --out fo
offers 'file.csv' --predict fi
offers 'folder' --resume f
offers '--resume' --resume --res
offers '' --lr f
offers 'bash fish zsh' --completion ''
finish
