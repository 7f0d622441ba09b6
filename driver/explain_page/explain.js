/* explain.js: draws the model of #data: ops in order, grouped by module, coloured by type, arrows between those that
 * do not follow each other; and what is known of the chosen one. */
(() => {
const data = JSON.parse(byId("data").textContent);
const known = ["f32", "f16", "bf16", "f64"];
const tint = type => `var(--${known.includes(type) ? type : type.startsWith("f8") ? "f8" : "other"})`;
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/* ---- the graphs: what is drawn, and by what it is reached ---- */

const innermost = name => data.modules.filter(m => name === m || name.startsWith(m + "."))
  .sort((a, b) => b.length - a.length)[0] ?? "";
for (const graph of data.graphs) {
  graph.byId = new Map(graph.ops.map(op => [op.id, op]));
  for (const op of graph.ops) {
    op.graph = graph;
    op.module = op.part === "input" || op.part === "param" ? "" : innermost(op.name);
    op.users = [];
  }
  for (const op of graph.ops) for (const id of op.in) graph.byId.get(id)?.users.push(op);
}
const drawn = op => op.part !== "param" && !(op.part === "cast" && op.in.every(id => op.graph.byId.get(id)?.part === "param"));
const title = op => [op.op === "arg" ? op.part : op.op, op.name].filter(Boolean).join(" ");
const types = op => op.from && op.from !== op.type ? `${op.from} → ${op.type}` : op.type;

/* Through casts of parameters and the like to what is on the page. */
function sources(op) {
  return op.in.map(id => op.graph.byId.get(id)).filter(Boolean).flatMap(from => drawn(from) ? [from] : sources(from));
}
function parameters(op) {
  return op.in.map(id => op.graph.byId.get(id)).filter(Boolean)
    .flatMap(from => from.part === "param" ? [{ from, as: from.type }]
      : from.part === "cast" ? parameters(from).map(p => ({ from: p.from, as: from.type })) : []);
}

/* ---- the left side ---- */

let chosen = null;
const rows = new Map();

function row(op) {
  const small = op.part !== "op";
  const b = make("button", { type: "button", class: "op" + (small ? " small" : ""), style: `--tint: ${tint(op.type)}`, "aria-pressed": "false",
    onclick: () => choose(op) },
    make("span", { class: "line" }, op.line ? String(op.line) : ""),
    make("span", { class: "what" }, make("b", {}, op.op === "arg" ? op.part : op.op), op.name ? " " + op.name : ""),
    make("span", { class: "type" }, types(op)));
  rows.set(op, b);
  return b;
}

function drawGraph(graph, several) {
  const flow = make("div", { class: "flow" });
  let box = flow, module = "";
  for (const op of graph.ops.filter(drawn)) {
    if (op.module !== module) {
      module = op.module;
      box = module ? make("div", { class: "module" }, make("div", { class: "path" }, module)) : flow;
      if (module) flow.append(box);
    }
    box.append(row(op));
  }
  if (several) byId("graph").append(make("h3", {}, graph.name));
  byId("graph").append(flow);
  graph.flow = flow;
}

/* Lines in the margin, from an op to those that read it: those of the chosen one stand out. */
const most = 4000; /* lines; beyond them only those of the chosen op */
function drawLines() {
  let left = most;
  for (const graph of data.graphs) {
    for (const old of graph.flow.querySelectorAll("svg")) old.remove();
    const top = graph.flow.getBoundingClientRect().top, svg = draw("svg", { width: 34, "aria-hidden": "true" });
    const middle = op => { const r = rows.get(op).getBoundingClientRect(); return r.top - top + r.height / 2; };
    const ops = graph.ops.filter(drawn);
    for (const to of ops) for (const from of new Set(sources(to))) {
      const near = to === chosen || from === chosen;
      if (!near && left-- <= 0) continue;
      const y0 = middle(from), y1 = middle(to), reach = Math.max(2, 32 - Math.sqrt(y1 - y0) * 1.3);
      const line = draw("path", { d: `M 33 ${y0} C ${reach} ${y0}, ${reach} ${y1}, 33 ${y1}` });
      if (near) { line.classList.add("near"); svg.append(line); } else svg.prepend(line);
    }
    graph.flow.append(svg);
  }
}

function legend() {
  const count = new Map();
  for (const graph of data.graphs) for (const op of graph.ops)
    if (op.part === "op") count.set(op.type, (count.get(op.type) ?? 0) + 1);
  for (const [type, n] of [...count].sort((a, b) => b[1] - a[1]))
    byId("legend").append(make("span", { style: `--tint: ${tint(type)}` }, make("i"), `${plural(n, "op")} in ${type}`));
}

/* ---- the right side ---- */

function sourceLines(op) {
  if (!op.line || !data.source.length) return null;
  const pre = make("pre", { tabindex: "0" }), width = String(op.line + 2).length;
  for (let i = Math.max(1, op.line - 2); i <= Math.min(data.source.length, op.line + 2); i++)
    pre.append(make("span", { class: "row" + (i === op.line ? " here" : ""), style: `--tint: ${tint(op.type)}` },
      make("i", {}, String(i).padStart(width) + "  "), data.source[i - 1] || " "));
  return [make("h3", {}, `${data.file}, line ${op.line}`), pre];
}

function quantity(v, unit) {
  for (const [size, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "K"]])
    if (v >= size) return +(v / size).toPrecision(3) + " " + prefix + unit;
  return v + " " + unit;
}

function kernelsOf(op) {
  const place = `${op.line}:${op.col}`;
  return data.kernels.filter(k => k.places.includes(place))
    .sort((a, b) => (b.why ?? "").startsWith(op.why) - (a.why ?? "").startsWith(op.why));
}

function kernelParts(op) {
  const found = kernelsOf(op);
  if (!found.length) return null;
  return [make("h3", {}, `${plural(found.length, "kernel")} of this place in the source`),
    ...found.slice(0, 12).map((k, i) => make("details", i === 0 ? { open: "" } : {},
      make("summary", {}, make("b", { class: "code" }, k.name), ` ${k.what ?? ""} · ${quantity(k.flops, "FLOP")}, ${quantity(k.bytes, "B")}`),
      make("pre", { tabindex: "0" }, k.text.trim())))];
}

function jump(op, text) {
  return make("button", { type: "button", style: `--tint: ${tint(op.type)}`, onclick: () => choose(op, true) }, text ?? `${title(op)} · ${op.type}`);
}

const classText = {
  low: "low-precision op: its operands are cast to the low type, sums are f32",
  f32: "float32 op: its operands are cast to f32", widest: "takes the widest type of its operands",
  follow: "runs in the type of its operand", forced: "its type is written in the file", none: "no floating-point arithmetic",
};

function choose(op, scroll) {
  if (chosen) rows.get(chosen)?.setAttribute("aria-pressed", "false");
  chosen = op;
  rows.get(op)?.setAttribute("aria-pressed", "true");
  if (scroll) rows.get(op)?.scrollIntoView({ block: "nearest" });
  drawLines();
  const weights = parameters(op), reads = [...new Set(sources(op))];
  const readers = op.graph.ops.filter(o => drawn(o) && sources(o).includes(op));
  const parts = [
    make("h2", {}, title(op)),
    make("div", { class: "types", style: `--tint: ${tint(op.type)}` }, make("span", { class: "tag" }, types(op)),
      make("span", {}, op.shape ? `[${op.shape}]` : "one number"),
      op.module ? make("span", { class: "muted" }, "in " + op.module) : null),
    op.why ? make("p", { class: "reason", style: `--tint: ${tint(op.type)}` }, op.why) : null,
    op.class ? make("p", { class: "muted" }, `Class “${op.class}”: ${classText[op.class]}.`) : null,
    ...(weights.length ? [make("h3", {}, "parameters"), make("ul", {}, ...weights.map(w =>
      make("li", {}, make("span", { class: "code" }, w.from.name), ` ${w.from.type} [${w.from.shape}]`, w.as === w.from.type ? "" : `, read as ${w.as}`)))] : []),
    ...(reads.length ? [make("h3", {}, "reads"), make("div", { class: "inputs" }, ...reads.map(o => jump(o)))] : []),
    ...(readers.length ? [make("h3", {}, "is read by"), make("div", { class: "inputs" }, ...readers.map(o => jump(o)))] : []),
    ...(sourceLines(op) ?? []), ...(kernelParts(op) ?? []),
  ];
  byId("detail").replaceChildren(...parts.filter(Boolean));
}

/* ---- finding ---- */

byId("find").addEventListener("input", event => {
  const word = event.target.value.trim().toLowerCase();
  for (const [op, b] of rows) {
    const text = `${title(op)} ${op.why} ${types(op)} ${op.module} ${op.class}`.toLowerCase();
    b.classList.toggle("off", word !== "" && !text.includes(word) && String(op.line) !== word);
  }
  const first = [...rows].find(([, b]) => word && !b.classList.contains("off"));
  first?.[1].scrollIntoView({ block: "nearest" });
});

/* ---- the page ---- */

document.title = `${data.program}: precision`;
byId("name").textContent = data.program;
byId("about").textContent = `${data.head.replace(/\s+/g, " ").trim()} · ${data.totals}`;
byId("foot").textContent = `Made by mpc --explain=html from ${data.file}.`;
legend();
for (const graph of data.graphs) drawGraph(graph, data.graphs.length > 1);
addEventListener("resize", drawLines);
addEventListener("keydown", event => {
  if (event.target.tagName === "INPUT" || (event.key !== "j" && event.key !== "k")) return;
  const all = [...rows.keys()], at = all.indexOf(chosen);
  const next = all[Math.max(0, Math.min(all.length - 1, at + (event.key === "j" ? 1 : -1)))];
  if (next) choose(next, true);
});
const wanted = /[#&?]op=(\d+)/.exec(location.href)?.[1];
const ops = [...rows.keys()];
const start = ops.find(op => String(op.id) === wanted) ?? ops.find(op => op.part === "op") ?? ops[0];
if (start) choose(start);
})();
