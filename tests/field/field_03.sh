#!/usr/bin/env bash
# A loss computed in 16 bits is NaN or has no digits. Every loss is f32, inside autocast and outside,
# and equal to the f32 loss of the same logits. (The report's CTC waits for the op.)
source "$(dirname "${BASH_SOURCE[0]}")/field_lib.sh"

table rows.csv a,b,c,d,t0,t1,t2,t3,label 12 \
    '8*rand(), -9*rand(), rand(), 30*rand(), rand(), rand(), rand(), rand(), i % 4 - (i == 7)'
cat >head <<'END'
data rows = csv("rows.csv") -> (x: f32[4] = columns("a".."d"), t: f32[4] = columns("t0".."t3"), label: i32)
module Net() { fc = Linear(4, 4); forward(x) { return fc(x) } }
END
# losses LOGITS: each loss of them, under names of its own.
names=(ce smooth nll mse l1 near huber bce sums)
losses() {
    cat <<END
ce     = cross_entropy($1, batch.label, ignore_index = -1)
smooth = cross_entropy($1, batch.label, ignore_index = -1, label_smoothing = 0.1)
nll    = nll_loss(log_softmax($1), batch.label, ignore_index = -1)
mse    = mse_loss($1, $2)
l1     = l1_loss($1, $2)
near   = smooth_l1_loss($1, $2)
huber  = huber_loss($1, $2, delta = 0.5)
bce    = bce_with_logits($1, $2)
sums   = mse_loss($1, $2, reduction = "sum")
END
}
all='ce + smooth + nll + mse + l1 + near + huber + bce + sums'
after="print(\"all\", $(IFS=,; echo "${names[*]}"))" batch=12

for type in f16 bf16; do
    # The same numbers, rounded to the type: as 16-bit logits, and widened before the loss.
    for how in low wide; do
        to=$([[ $how == low ]] && echo $type || echo f32)
        {
            cat head
            loop 'SGD(model, lr = 0.0)' $type "low = cast(model(batch.x), $type)" \
                "logits = cast(low, $to)" "target = cast(cast(batch.t, $type), $to)" \
                "$(losses logits target)" "loss = $all"
        } | compile ${type}_$how
        train ${type}_$how
    done
    paste -d' ' <(printed all ${type}_low | tr -s ' ' '\n') <(printed all ${type}_wide | tr -s ' ' '\n') \
        <(printf '%s\n' "${names[@]}") >pairs
    same "$(wc -l <pairs)" ${#names[@]} "$type: losses printed"
    while read -r low wide name; do
        near "$low" "$wide" 1e-5 "$type: $name"
    done <pairs
    # The dump: no softmax, no reduction and no loss in 16 bits.
    dump ${type}_low autocast
    grep -E "= (log_softmax|softmax|logsumexp|cross_entropy|sum|mean|var|exp|log) .*: $type" \
        ${type}_low.autocast && fail "$type: a loss in 16 bits"
    "$mpc" ${type}_low.mpt --explain=json >explained
    grep -E '"op": ?"(cross_entropy|mean|sum|log_softmax)"' explained | grep -vE '"type": ?"([a-z0-9]+ -> )?f32"' &&
        fail "$type: --explain shows a loss that is not f32"

    # Outside of autocast.
    {
        cat head
        echo 'model = Net(); optimizer = SGD(model, lr = 0.1)'
        [[ $type == f16 ]] && echo 'scaler = GradScaler()'
        echo 'for batch in loader(rows, batch_size = 12) {'
        echo "with autocast($type) { logits = model(batch.x) }"
        losses logits "cast(batch.t, $type)"
        echo "loss = $all"
        [[ $type == f16 ]] && echo 'backward(scaler.scale(loss)); scaler.step(optimizer); scaler.update()'
        [[ $type == bf16 ]] && echo 'backward(loss); optimizer.step()'
        echo 'zero_grad(optimizer) }'
    } >outside.mpt
    dump outside autocast
    grep -E "= (log_softmax|softmax|logsumexp|cross_entropy|sum|mean|exp|log) .*: $type" \
        outside.autocast && fail "$type: a loss outside of autocast in 16 bits"
done
finish
