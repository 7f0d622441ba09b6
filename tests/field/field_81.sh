#!/usr/bin/env bash
# A native trainer asserts, or trains wrong, on an op without a backward. Every op that has a gradient
# trains and moves its parameter; through the others no gradient flows, and a loss that needs one is an
# error with the line.
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d,k,label 4 'rand() + 0.1, rand() - 0.5, 0.3, -0.7, i % 3, i % 4'
"$mpc" --list-ops | awk '$2 != "mark" { print $1 }' >ops # markers take part in every program
(($(wc -l <ops) > 60)) || fail "--list-ops lists $(wc -l <ops) ops"

# How each op is written: of x, an f32[B, 4] that depends on the parameter; every op of the table is here.
declare -A spelled=(
    [pow]='pow(abs(x) + 1, 1.5)' [leaky_relu]='leaky_relu(x, 0.1)' [elu]='elu(x)' [clamp]='clamp(x, min = -0.9, max = 0.9)'
    [maximum]='maximum(x, 0.1)' [minimum]='minimum(x, 0.1)' [where]='where(x > 0, x, 2 * x)' [cast]='f32(f16(x))' [gelu_tanh]='gelu(x, approximate = "tanh")'
    [add]='x + 1' [sub]='1 - x' [mul]='x * x' [div]='1 / (x + 3)' [log]='log(abs(x) + 1)' [log1p]='log1p(abs(x))'
    [sqrt]='sqrt(abs(x) + 1)' [rsqrt]='rsqrt(abs(x) + 1)' [reciprocal]='reciprocal(abs(x) + 1)'
    [reshape]='x.reshape(-1, 2, 2)' [transpose]='x.reshape(-1, 2, 2).transpose(1, 2)' [expand]='x.reshape(-1, 1, 4).expand(-1, 3, 4)'
    [slice]='x[:, 1..3]' [concat]='cat([x, x * 2], dim = 1)' [linear]='linear(x, ones(3, 4))'
    [matmul]='x @ ones(4, 3)' [sum]='sum(x, dim = 1)' [mean]='mean(x, dim = 1)' [var]='var(x, dim = 1)'
    [amax]='amax(x, dim = 1)' [amin]='amin(x, dim = 1)' [softmax]='softmax(x) * x' [log_softmax]='log_softmax(x)'
    [logsumexp]='logsumexp(x)' [cross_entropy]='cross_entropy(x, batch.label)' [embedding]='embedding(batch.k, model.w.reshape(4, 1))'
    [neg]='-x' [abs]='abs(x)' [square]='square(x)' [detach]='detach(x)'
    [conv2d]='conv2d(x.reshape(-1, 1, 2, 2), ones(2, 1, 2, 2))'
    [max_pool2d]='max_pool2d(x.reshape(-1, 1, 2, 2), 2)' [avg_pool2d]='avg_pool2d(x.reshape(-1, 1, 2, 2), 2)'
    [conv_transpose2d]='conv_transpose2d(x.reshape(-1, 1, 2, 2), ones(1, 2, 2, 2))')
flows=() stops=()
while read -r op; do
    case $op in
    # made by passes, and leaves
    arg | const | iota | uniform | *_grad | pad | interleave | recompute) continue ;;
    # bool or whole numbers, or constant almost everywhere
    isfinite | not | lt | le | gt | ge | eq | ne | and | or | sign | floor | argmax | detach) stops+=("$op") ;;
    *) flows+=("$op") ;;
    esac
done <ops

# Other ops are called by their names. One that is not needs an entry above.
for op in "${flows[@]}" "${stops[@]}"; do
    [[ -z ${spelled[$op]:-} && $op != [lge][te] && ! $op =~ ^(eq|ne|and|or|not|argmax)$ ]] || continue
    cat >call.mpt <<END
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"))
seen = evaluate(rows, batch_size = 4) { mean(f32($op(batch.x))) }
print(seen)
END
    "$mpc" call.mpt --emit=ir >said 2>&1 || fail "$op: this script does not know how it is written: $(head -n 1 said)"
done

# One program for all that flow: each op's own parameter, and it moves.
{
    echo 'data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"), k: i32, label: i32)'
    echo 'module Net() {'
    for op in "${flows[@]}"; do echo "    param p_$op: f32[4] = constant(0.75)"; done
    echo '}'
    echo 'model = Net(); optimizer = SGD(model, lr = 0.1)'
    echo 'for batch in loader(rows, batch_size = 4) {'
    echo 'loss = 0.0 * mean(batch.x)'
    for op in "${flows[@]}"; do
        text=${spelled[$op]:-$op(x)}
        echo "x = batch.x * model.p_$op"
        echo "y = ${text//model.w/model.p_$op}"
        echo 'loss = loss + mean(y * y + y)'
    done
    echo 'backward(loss); optimizer.step(); zero_grad(optimizer); log(loss) }'
} | compile all
train all
for op in "${flows[@]}"; do
    [[ $(weights all "p_$op" | xargs) != '0.75 0.75 0.75 0.75' ]] || fail "$op: its parameter has not moved"
    [[ $(weights all "p_$op") != *nan* ]] || fail "$op: its gradient is NaN"
done

# What has none: an error (or a warning that names the parameter) with the line, never a wrong update.
for op in "${stops[@]}"; do
    case $op in
    lt | le | gt | ge | eq | ne) text=$(echo "$op" | sed 's/lt/x < 1/; s/le/x <= 1/; s/gt/x > 1/; s/ge/x >= 1/; s/eq/x == 1/; s/ne/x != 1/') ;;
    and | or) text="(x > 0) $op (x < 1)" ;;
    not) text='not (x > 0)' ;;
    argmax) text='argmax(x, dim = 1)' ;;
    *) text="$op(x)" ;;
    esac
    cat >stop.mpt <<END
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"))
module Net() { param w: f32[4] = ones() }
model = Net(); optimizer = SGD(model, lr = 0.1)
for batch in loader(rows, batch_size = 4) {
    x = batch.x * model.w
    loss = mean(f32($text))
    backward(loss); optimizer.step(); zero_grad(optimizer); log(loss)
}
END
    status=0
    "$mpc" stop.mpt --emit=ir >/dev/null 2>said || status=$?
    ((status == 0 || status == 2)) || fail "$op: mpc ends with $status"
    grep -qE '^stop\.mpt:[0-9]+:[0-9]+: (error|warning)' said || fail "$op: nothing is said about a loss without a gradient ($text)"
done
finish
