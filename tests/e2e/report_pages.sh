#!/usr/bin/env bash
# report_pages.sh: names as long as tools make them compile and are in the report whole; a run of one step has a
# report, too; no page is wider than a telephone, on which nothing lies beyond its edge or on other text.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

long=of_the_remaining_useful_life_of_the_batteries_in_cycles_at_full_load
cat >"program_$long.mpt" <<MPT
option rate_$long = 0.01
option path = "/a/very/long/path/without/any/blank/anywhere/in/it/that/goes/on/and/on/forever.bin"
data points_$long = csv("points.csv") -> (x: f32[2] = columns("a", "b"), y: f32)
module Regressor_$long() {
    first_$long = Linear(2, 4)
    second_$long = Linear(4, 1)
    forward(x) { return second_$long(tanh(first_$long(x))).squeeze(-1) }
}
model     = Regressor_$long()
optimizer = SGD(model.parameters(), lr = rate_$long)
for epoch in 0..6 {
    for batch in loader(points_$long, batch_size = 2) {
        loss = mse_loss(model(batch.x), batch.y)
        backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        error_$long = l1_loss(model(batch.x), batch.y)
        log(loss, error_$long)
    }
    e = evaluate(points_$long, batch_size = 2) { mse_loss(model(batch.x), batch.y) }
}
MPT
printf 'a,b,y\n1,2,0\n0,0,0\n3,4,0\n' >points.csv
quietly "$mpc" "program_$long.mpt" --cpu=generic -O0 -o long
quietly ./long --out whole --log tensorboard
quietly ./long --out one --max-steps 1 --log none
for run in whole one; do
    sed -n 's|.*<script type="application/json" id="run">\(.*\)</script>$|\1|p' $run/report.html >data
    for name in '"name":"loss"' "\"name\":\"error_$long\"" "\"set\":\"points_$long\""; do
        grep -F "$name" data >/dev/null || fail "$run: the report lacks $name"
    done
done
if command -v python3 >/dev/null; then
    python3 "$src/tests/e2e/event_files.py" whole 0 || fail "event files cut long names"
fi

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[[ -n $browser ]] || { echo "there is no browser"; finish; }
# The pages in a frame of 390 pixels, and what is wrong with them, in the text of a page around them.
cat >around.html <<'HTML'
<body><iframe id="whole" src="whole/report.html" width="390" height="800"></iframe>
<iframe id="one" src="one/report.html#theme=dark" width="390" height="800"></iframe><pre id="found"></pre>
<script>
function faults(page, out) {
  const wide = page.documentElement.clientWidth, crossing = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 &&
    a.top < b.bottom - 3 && b.top < a.bottom - 3;
  if (page.documentElement.scrollWidth > wide) out.push(`wider than ${wide}: ${page.documentElement.scrollWidth}`);
  for (const e of page.querySelectorAll("body *"))
    if (e.getBoundingClientRect().right > wide + 1) out.push(`beyond the edge: ${e.tagName} ${e.textContent.slice(0, 60)}`);
  for (const e of page.querySelectorAll(".scroll"))
    if (e.scrollWidth > e.clientWidth + 1) out.push(`a table is wider than its card: ${e.textContent.slice(0, 60)}`);
  for (const e of page.querySelectorAll("td, th"))
    if (e.clientHeight > 400) out.push(`a cell is ${e.clientHeight} high: ${e.textContent.slice(0, 60)}`);
  for (const svg of page.querySelectorAll("svg")) {
    const texts = [...svg.querySelectorAll("text")].map(t => [t.getBoundingClientRect(), t.textContent]);
    texts.forEach(([a, s], i) => texts.slice(0, i).forEach(([b, t]) => crossing(a, b) && out.push(`${s} lies on ${t}`)));
    if (!svg.querySelector("circle") && [...svg.querySelectorAll("path")].every(p => !/[LHV]/.test(p.getAttribute("d") || "")))
      out.push(`an empty chart: ${svg.getAttribute("aria-label")}`);
  }
}
setTimeout(() => {
  const out = [];
  for (const f of [whole, one]) { out.push(`${f.id}: ${f.contentDocument.querySelectorAll("svg").length} charts`); faults(f.contentDocument, out); }
  found.textContent = "\n" + out.join("\n") + "\n";
}, 1500);
</script>
HTML
timeout 60 "$browser" --headless --no-sandbox --disable-gpu --allow-file-access-from-files --window-size=1000,900 \
    --virtual-time-budget=4000 --dump-dom "file://$tmp/around.html" >dom 2>/dev/null || fail "the browser ends with $?"
sed -n '/<pre id="found">/,/<\/pre>/p' dom | sed '1d;$d' >faults
[[ $(grep -cE '^(whole|one): [1-9][0-9]* charts$' faults) == 2 ]] || fail "the pages were not drawn: $(head -n 5 faults)"
grep -vE '^(whole|one): [0-9]+ charts$' faults >&2 && fail "the pages have faults"
finish
