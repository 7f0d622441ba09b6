#!/usr/bin/env bash
# report.sh: report.html of a run that ended well, of one that failed and of one that continued: one file that
# fetches nothing, cannot be broken by what stands in it, and draws itself where there is a browser.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
train=$(program digits)

quietly "$train" --out run --epochs 3 --log none
page=run/report.html
[[ -s $page ]] || { fail "no report"; finish; }
(($(stat -c %s $page) < 400000)) || fail "the report has $(stat -c %s $page) bytes"
if grep -nE '(src|href|action)=|@import|url\([^#]|fetch\(|XMLHttp|import\(' $page >hits; then
    fail "the report may fetch something: $(head -n 2 hits)"
fi
grep -o 'https\?://[^"]*' $page | grep -v '^http://www.w3.org/2000/svg$' && fail "the report names an address"
[[ $(grep -o '</script' $page | wc -l) == 2 ]] || fail "not two scripts"
grep -o '"end":{[^}]*' $page | grep '"status":0' >/dev/null || fail "the report does not know of the end"

# data_of PAGE: the JSON in it.
data_of() {
    sed -n 's|.*<script type="application/json" id="run">\(.*\)</script>$|\1|p' "$1"
}
[[ $(data_of $page | wc -l) == 1 ]] || fail "the data are not one line"
if command -v python3 >/dev/null; then
    data_of $page | python3 -c '
import json, sys
run = json.load(sys.stdin)
log = [json.loads(line) for line in open("run/log.jsonl")]
steps = [r for r in log if r["event"] == "step"]
loss = next(c for c in run["curves"]["columns"] if c["name"] == "loss")
assert run["curves"]["step"] == [r["step"] for r in steps]
assert all(abs(a - r["loss"]) <= 1e-6 * r["loss"] for a, r in zip(loss["mean"], steps))
assert [r["accuracy"] for r in run["sets"][0]["records"]] == [r["accuracy"] for r in log if r["event"] == "eval"]
assert run["memory"]["used"] <= run["memory"]["arena"] and run["memory"]["uses"]
assert any(k["module"] == "fc2" and k["line"] == 25 for k in run["kernels"])
' || fail "the data are not those of the log"
fi

# What files and command lines say stays text.
cat >evil.mpt <<'MPT'
option note = "</script><script>alert(1)</script>"
option lr   = 0.1
data points = csv("points.csv") -> (x: f32[2] = columns("a", "b"), y: f32)
module Line() {
    fc = Linear(2, 1)
    forward(x) { return fc(x).squeeze(-1) }
}
model     = Line()
optimizer = SGD(model.parameters(), lr = lr)
for epoch in 0..2 {
    for batch in loader(points, batch_size = 2) {
        loss = mse_loss(model(batch.x), batch.y)
        backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        log(loss)
    }
}
MPT
printf 'a,b,y\n1,2,0\n0,0,0\n3,4,0\n' >points.csv
quietly "$mpc" evil.mpt --cpu=generic -O0 -o evil
quietly ./evil --out evil-run --log none --note '</script><b>&amp;'
[[ $(grep -o '</script' evil-run/report.html | wc -l) == 2 ]] || fail "an option's text got into the page"

# A run that fails has a report that says so.
run 1 'not finite|is (nan|inf)' ./evil --out bad --lr 1e30
grep -o '"end":{[^}]*' bad/report.html | grep '"status":1' >/dev/null || fail "a failed run: $(ls bad)"

# A browser, where there is one: no error, every part drawn.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -n $browser ]]; then
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=2000 --dump-dom \
        "file://$tmp/$page" >dom 2>/dev/null || fail "the browser ends with $?"
    for part in '>finished<' '<svg' 'Learning rate' 'Loss scale' 'Memory at its fullest' 'Types by module'; do
        grep -F -- "$part" dom >/dev/null || fail "the page lacks $part"
    done
fi
finish
