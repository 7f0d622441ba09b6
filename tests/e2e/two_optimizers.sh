#!/usr/bin/env bash
# two_optimizers.sh: a generator and a discriminator in one loop. Its losses are PyTorch's, whose second forward
# takes the discriminator as its step has left it; with loss scaling each optimizer is skipped on its own.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"

awk 'BEGIN { print "a,b,c,d,e,f"
    for (x = i = 1; i <= 128; i++) {
        row = ""
        for (k = 0; k < 6; k++) { x = (x * 16807) % 2147483647; row = row (k ? "," : "") sprintf("%.6f", x / 1073741824 - 1) }
        print row } }' >"$tmp/points.csv"

# trained NAME EPOCHS SED-COMMAND
trained() {
    sed -E "s/0\.\.3/0..$2/; $3" "$src/tests/e2e/two_optimizers.mpt" >"$tmp/$1.mpt"
    quietly "$mpc" -O0 --cpu=generic --verify-passes "$tmp/$1.mpt" -o "$tmp/$1"
    quietly "$tmp/$1" --seed 3 --data "$tmp" --out "$tmp/$1_run"
}

# close KEY RUN VALUE TOLERANCE: of the last step
close() {
    local last
    last=$(field "$1" step "$2" | tail -n 1)
    holds "$last - $3 < $4 && $3 - $last < $4" || fail "$2: $1 is $last, and PyTorch has $3"
}

# numbers RUN FROM TO: weights, those of the generator first
numbers() {
    local file=$1/model.safetensors head
    head=$(od -A n -t u8 -N 8 "$file")
    od -A n -v -t f4 -j $((8 + head)) -w4 "$file" | sed -n "$2,$3p"
}

trained f32 3 ''
close d_loss "$tmp/f32_run" 1.387990 2e-6
close g_loss "$tmp/f32_run" 0.709352 2e-6

# Both accumulate over two batches and step in a block of their own: as one backward of the sum of the losses does.
window='s/batch in loader/i, batch in enumerate(loader/; s/32\) \{/32)) {/; /zero_grad|clip_grad|opt_d.step/d
s/^( *)opt_g[.]step.*/\1if i % 2 == 1 {\nopt_d.step()\nopt_g.step()\nopt_d.zero_grad()\nopt_g.zero_grad()\n}/
s/discriminator\(fake\)$/square(fake[:, 0])/'
trained window 2 "$window"
trained sum 2 "$window"$'\n''/d_loss[.]backward/d; s/g_loss[.]backward/(d_loss + g_loss).backward/'
same_weights "$tmp/window_run" "$tmp/sum_run" "two backwards in a window, and one of the sum"
cmp -s "$tmp/window_run/model.safetensors" "$tmp/f32_run/model.safetensors" && fail "a window is no window"

scaled='s/^opt_d /scaler = GradScaler()\nopt_d /
s/( *)(.)_loss\.backward\(\)/\1scaler.scale(\2_loss).backward()\n\1scaler.unscale(opt_\2)/
s/(opt_.)\.step\(\)/scaler.step(\1)/
s/^( *)log[(]/\1scaler.update()\n\1log(/
s/(fake|answer) *= (.*)/with autocast(f16) { \1 = \2 }/'
two_scalers='s/^scaler = GradScaler\(\)/&\nother = GradScaler(init_scale = 1024.0)/
s/scaler([.][a-z]+\((g_loss|opt_g)\))/other\1/g
s/scaler[.]update[(][)]/&; other.update()/'
trained f16 3 "$scaled"$'\n'"$two_scalers"
[[ $(field 'scale\/scaler' step "$tmp/f16_run" | tail -n 1) == 65536 ]] || fail "the log does not show scaler's scale"
[[ $(field 'scale\/other' step "$tmp/f16_run" | tail -n 1) == 1024 ]] || fail "the log does not show other's scale"
close d_loss "$tmp/f16_run" 1.387990 2e-3
close g_loss "$tmp/f16_run" 0.709352 2e-3

# The generator's loss overflows: it stays as it is, the discriminator learns by its schedule, and the scale falls
# once a batch.
scaled+=$'\ns/ones_like\\(answer\\)\\)/& * 3e38/'
scaled+=$'\ns/^for epoch/halve = StepLR(opt_d, 1, gamma = 0.5)\\n&/; s/scaler[.]update[(][)]/&; halve.step()/'
trained one 1 "$scaled"
trained two 2 "$scaled"
[[ $(numbers "$tmp/one_run" 1 114) == "$(numbers "$tmp/two_run" 1 114)" ]] || fail "a skipped generator changed"
[[ $(numbers "$tmp/one_run" 115 179) != "$(numbers "$tmp/two_run" 115 179)" ]] || fail "the discriminator did not learn"
[[ $(field scale step "$tmp/one_run" | tail -n 1) == 8192 ]] || fail "4 batches with an overflow halve the scale 4 times: \
$(field scale step "$tmp/one_run" | tr '\n' ' ')"
[[ $(field lr step "$tmp/one_run" | tail -n 1) == 0.00125 ]] || fail "the skip of one optimizer holds the schedule of the other"
[[ $(field 'lr\/opt_d' step "$tmp/one_run" | tail -n 1) == 0.00125 ]] || fail "the log does not show opt_d's rate"
[[ $(field 'lr\/opt_g' step "$tmp/one_run" | tail -n 1) == 0.01 ]] || fail "the log does not show opt_g's rate"
finish
