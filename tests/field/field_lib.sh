# field_lib.sh: what the field reports share. Sourced, not run.
#
# Each field_NN.sh is a fault that users of other training systems reported, as a program that would
# show it, with other shapes, types and optimizers beside the reported ones. The scripts see what a
# user sees: mpc, the programs it makes, their log, and the dumps. docs/PRECISION.md lists the reports
# that have no script yet.
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/e2e_lib.sh"
cd "$tmp"

# compile NAME [FLAG...]: the file on stdin as the program ./NAME, in the way that takes the least time,
# because it runs for a moment only. Other levels and CPUs give the same types, and the same numbers
# (field_47) or those of another order of summation.
compile() {
    local name=$1
    shift
    cat >"$name.mpt"
    quietly "$mpc" "$name.mpt" -O0 --cpu=generic "$@" -o "$name"
}

# table FILE HEADER ROWS EXPRESSIONS: a csv file; the expressions are awk's, of the row's number i.
table() {
    awk -v OFS=, "BEGIN { srand(1); print \"$2\"; for (i = 0; i < $3; i++) print $4 }" >"$1"
}

# refused NAME REGEX: the compiler does not take the file on stdin, and says why.
refused() {
    cat >"$1.mpt"
    run 2 "$2" "$mpc" "$1.mpt" -o "$1"
    grep -qE "^$1\.mpt:[0-9]+:" said || fail "$1: the message has no line"
}

# train NAME [FLAG...]: runs ./NAME into NAME_run; what it printed is in NAME_run/said.
train() {
    local name=$1 status=0
    shift
    "./$name" --out "${name}_run" --log none "$@" >"$name.said" 2>&1 </dev/null || status=$?
    mkdir -p "${name}_run"
    mv "$name.said" "${name}_run/said"
    if ((status != 0)); then
        fail "$name $* ended with $status:"
        tail -n 20 "${name}_run/said" >&2
    fi
}

# printed KEY NAME: the numbers of print("KEY", ...), one line a print.
printed() {
    sed -nE "s/^$1 //p" "$2_run/said"
}

# last KEY EVENT NAME: the value of a key in the last record of that event.
last() {
    field "$1" "$2" "$3_run" | tail -n 1
}

# weights NAME PARAMETER [COUNT]: its (first) numbers in the model that ./NAME left, on one line.
weights() {
    local file=${1}_run/model.safetensors head from to
    head=$(od -An -tu8 -N8 "$file" | tr -d ' ')
    read -r from to < <(head -c $((8 + head)) "$file" | tail -c +9 |
        sed -nE "s/.*\"$2\": ?\{[^}]*\"data_offsets\": ?\[([0-9]+), ?([0-9]+)\].*/\1 \2/p" && echo)
    [[ -n $to ]] || { fail "$file has no $2"; return; }
    [[ -z ${3:-} ]] || to=$((from + 4 * $3))
    od -An -v -tf4 -j $((8 + head + from)) -N $((to - from)) "$file" | tr -s ' \n' '  '
    echo
}

# near GOT WANT RELATIVE WHAT: GOT is a number and differs from WANT by at most that share of it.
near() {
    [[ $1 =~ ^-?[0-9.]+(e[-+]?[0-9]+)?$ ]] && holds "($1) - ($2) <= ($3) * (($2) < 0 ? -($2) : ($2)) &&
        ($2) - ($1) <= ($3) * (($2) < 0 ? -($2) : ($2))" || fail "$4: $1, not $2"
}

# same GOT WANT WHAT
same() {
    [[ $1 == "$2" ]] || fail "$3: '$1', not '$2'"
}

# dump NAME PASS [FLAG...]: the IR after a pass, in NAME.PASS.
dump() {
    local name=$1 pass=$2
    shift 2
    "$mpc" "$name.mpt" --dump-after="$pass" "$@" >"$name.$pass" 2>"$name.$pass.err" ||
        fail "$name: no dump after $pass: $(head -n 3 "$name.$pass.err")"
}

# loop OPTIMIZER TYPE STATEMENT...: a loop over `rows` in batches, read in order, that makes `loss` by
# the statements and takes a step. TYPE is f32, bf16 or f16, the last with a scaler. What varies:
#     epochs=1  batch=4  scaler_args=  clip=  scheduler=  after=
# `scheduler` is what makes one, `after` a statement at the end of a step.
loop() {
    local optimizer=$1 type=$2
    shift 2
    echo "model = Net()"
    echo "optimizer = $optimizer"
    [[ -z ${scheduler:-} ]] || echo "scheduler = $scheduler"
    [[ $type != f16 ]] || echo "scaler = GradScaler(${scaler_args:-})"
    echo "for epoch in 0..${epochs:-1} {"
    echo "for batch in loader(rows, batch_size = ${batch:-4}, shuffle = false) {"
    [[ $type == f32 ]] || echo "with autocast($type) {"
    printf '%s\n' "$@"
    [[ $type == f32 ]] || echo "}"
    if [[ $type == f16 ]]; then
        echo "backward(scaler.scale(loss))"
        [[ -z ${clip:-} ]] || echo "scaler.unscale(optimizer)"
    else
        echo "backward(loss)"
    fi
    [[ -z ${clip:-} ]] || echo "clip_grad_norm(model, $clip)"
    if [[ $type == f16 ]]; then
        echo "scaler.step(optimizer); scaler.update()"
    else
        echo "optimizer.step()"
    fi
    [[ -z ${scheduler:-} ]] || echo "scheduler.step()"
    echo "zero_grad(optimizer); log(loss)"
    printf '%s\n' "${after:-}" "}" "}"
}
