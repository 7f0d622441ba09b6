#!/usr/bin/env bash
# explain_page.sh: --explain=html: one file that fetches nothing, whose data are those of --explain=json and of the
# emitted kernels, which no text from the source can break, and which draws itself where there is a browser.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

"$mpc" "$examples/digits.mpt" --cpu=generic --explain=html -o page.html || fail "--explain=html ends with $?"
"$mpc" "$examples/digits.mpt" --cpu=generic --explain=html >stdout.html || fail "to stdout: $?"
cmp -s page.html stdout.html || fail "-o and stdout differ"
[[ ! -e digits ]] || fail "--explain=html made a program"
if grep -nE '(src|href|action)=|@import|url\([^#]|fetch\(|XMLHttp|import\(' page.html >hits; then
    fail "the page may fetch something: $(head -n 2 hits)"
fi
run 2 'explain=html' "$mpc" "$examples/digits.mpt" --explain=html --emit=c
run 2 'text, json, html|none of' "$mpc" "$examples/digits.mpt" --explain=htm

# What the source says stays text.
cat >evil.mpt <<'MPT'
# </script><script>alert(1)</script>
data points = csv("</script>.csv") -> (x: f32[2] = columns("a", "b"), y: f32)
module Line() {
    fc = Linear(2, 1)
    forward(x) { return fc(x).squeeze(-1) }   # <!-- "\ </script>
}
model     = Line()
optimizer = SGD(model.parameters(), lr = 0.1)
for batch in loader(points, batch_size = 2) {
    loss = mse_loss(model(batch.x), batch.y)
    backward(loss)
    optimizer.step()
    optimizer.zero_grad()
}
MPT
"$mpc" evil.mpt --cpu=generic --explain=html -o evil.html || fail "evil.mpt: $?"
for page in page.html evil.html; do
    [[ $(grep -o '</script' $page | wc -l) == 2 ]] || fail "$page: not two scripts"
done

if command -v python3 >/dev/null; then
    "$mpc" "$examples/digits.mpt" --explain=json >explain.json
    "$mpc" "$examples/digits.mpt" --cpu=generic --emit=c >digits.c
    python3 - page.html evil.html <<'PY' || fail "the data are not those of --explain=json"
import json, re, sys

def data(path):
    text = open(path).read()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))

page = data(sys.argv[1])
told = json.load(open("explain.json"))["ops"]
graph = page["graphs"][0]
ops = [op for op in graph["ops"] if op["part"] == "op"]
keys = ("line", "name", "op", "type", "from", "class", "why")
assert [[op[k] for k in keys] for op in ops] == [[op[k] for k in keys] for op in told]
ids = {op["id"] for op in graph["ops"]}
assert all(i in ids for op in graph["ops"] for i in op["in"])
assert {op["name"] for op in graph["ops"] if op["part"] == "param"} >= {"fc1.weight", "fc3.bias"}
assert page["source"] == open(page["file"]).read().split("\n")[:len(page["source"])]
c = open("digits.c").read()
assert page["kernels"] and all(k["text"].strip() in c for k in page["kernels"])
for op in ops: # each has its kernels
    assert any(f'{op["line"]}:{op["col"]}' in k["places"] for k in page["kernels"]), op
assert data(sys.argv[2])["source"][0] == "# </script><script>alert(1)</script>"
PY
fi

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -n $browser ]]; then
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=2000 --dump-dom \
        "file://$tmp/page.html" >dom 2>/dev/null || fail "the browser ends with $?"
    for part in 'linear fc1' 'ops in f16' 'on the low-precision list' 'drop(relu(fc1(image)))' 'fc1_matmul_relu' '<path'; do
        grep -F -- "$part" dom >/dev/null || fail "the page lacks $part"
    done
fi
finish
