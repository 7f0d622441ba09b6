/* report.js: draws the page from the JSON in #run. */
(() => {
const run = JSON.parse(document.getElementById("run").textContent);
/* ---- numbers as text ---- */

const finite = v => typeof v === "number" && isFinite(v);
const whole = v => Math.round(v).toLocaleString("en-US");
function number(v) {
  if (v === null || v === undefined) return "–";
  if (!finite(v)) return String(v);
  const a = Math.abs(v);
  if (v === 0) return "0";
  if (a < 1e-3 || a >= 1e9) return v.toExponential(2).replace("e+", "e");
  if (a >= 1e4) return whole(v);
  return String(+v.toPrecision(4));
}
function short(v) { /* of an axis */
  const a = Math.abs(v);
  if (v === 0) return "0";
  if (a < 1e-3) return v.toExponential(a / 10 ** Math.floor(Math.log10(a)) % 1 > 0.05 ? 1 : 0);
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (a >= size) return +(v / size).toPrecision(3) + unit;
  return String(+v.toPrecision(4));
}
function bytes(v) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (v >= 1024 && i < 4) { v /= 1024; i++; }
  return (i && v < 100 ? v.toFixed(1) : Math.round(v)) + " " + units[i];
}
function duration(s) {
  if (s < 60) return s.toFixed(s < 10 ? 2 : 1) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.round(s % 3600 / 60) + " min";
}

/* ---- scales and ticks ---- */

function niceTicks(low, high, most) {
  const span = high - low || Math.abs(high) || 1, rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(+(i * step).toPrecision(12));
  return ticks;
}
function logTicks(low, high, most) {
  const a = Math.floor(Math.log10(low) + 1e-9), b = Math.ceil(Math.log10(high) - 1e-9);
  const choices = [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]];
  for (const multiples of choices) {
    const ticks = [];
    for (let e = a; e <= b; e++)
      for (const m of multiples) if (m * 10 ** e >= low * 0.999 && m * 10 ** e <= high * 1.001) ticks.push(m * 10 ** e);
    if (ticks.length <= most && ticks.length > 1) return ticks;
  }
  const every = Math.ceil((b - a + 1) / Math.max(2, most)), ticks = [];
  for (let e = a; e <= b; e += every) if (10 ** e >= low * 0.999 && 10 ** e <= high * 1.001) ticks.push(10 ** e);
  return ticks.length > 1 ? ticks : niceTicks(low, high, most).filter(t => t > 0);
}
/* Powers of two, which a loss scale moves by. */
function twoTicks(low, high, most) {
  const a = Math.ceil(Math.log2(low) - 1e-9), b = Math.floor(Math.log2(high) + 1e-9), ticks = [];
  const every = Math.max(1, Math.ceil((b - a + 1) / most));
  for (let e = a; e <= b; e += every) ticks.push(2 ** e);
  return ticks;
}

function powerOfTwo(v) {
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹", e = Math.round(Math.log2(v));
  return v < 1e6 && e >= 0 ? whole(v) : "2" + (e < 0 ? "⁻" : "") + [...String(Math.abs(e))].map(d => digits[d]).join("");
}

/* Mean of the neighbours on both sides, the nearer the more: it does not lag behind. */
function smooth(y, reach) {
  return y.map((v, i) => {
    if (!finite(v)) return v;
    const side = Math.min(reach, i, y.length - 1 - i);
    let sum = 0, weight = 0;
    for (let k = -side; k <= side; k++) if (finite(y[i + k])) {
      const w = side + 1 - Math.abs(k);
      sum += w * y[i + k];
      weight += w;
    }
    return sum / weight;
  });
}

/* ---- one chart ----
 * series: {name, color 0.., x[], y[], low[], high[], kind: "line" "step" "points", smooth: bool, dash: bool}
 * marks: x values of ticks at the bottom. options: log, logs (may be switched), zero, two, format */
function chart(where, title, series, options = {}) {
  const state = { log: !!options.log, hidden: new Set(), smoothed: series.some(s => s.smooth) };
  const plot = make("div", { class: "plot" }), tip = make("div", { class: "tip", hidden: "" });
  const tools = make("div", { class: "tools" }), legend = make("div", { class: "legend" });
  const toggle = (text, key) => {
    const b = make("button", { type: "button", "aria-pressed": state[key], onclick: () => {
      state[key] = !state[key];
      b.setAttribute("aria-pressed", state[key]);
      render();
    } }, text);
    tools.append(b);
  };
  if (state.smoothed) toggle("smooth", "smoothed");
  if (options.logs) toggle("log", "log");
  const card = make("div", { class: "card" + (options.wide ? " wide" : "") },
    make("div", { class: "head" }, make("h2", {}, title), tools), legend, plot);
  plot.append(tip);
  where.append(card);
  const format = options.format || number;
  for (const s of series) {
    s.css = `var(--c${s.color % 6})`;
    if (series.length + (options.marks?.length ? 1 : 0) < 2) continue;
    const b = make("button", { type: "button", "aria-pressed": "true", onclick: () => {
      state.hidden.has(s) ? state.hidden.delete(s) : state.hidden.add(s);
      b.setAttribute("aria-pressed", !state.hidden.has(s));
      render();
    } }, make("span", { class: "swatch" + (s.dash ? " dash" : ""), style: `color:${s.css}` }), s.name);
    legend.append(b);
  }
  if (options.marks?.length)
    legend.append(make("span", { style: "color:var(--bad)" }, "▲ " + (options.marksName || "marks")));

  const height = options.wide ? 300 : 210;
  let shown = [], sx = null, area = null, svg = null, cross = null, width = 0;

  function prepared() {
    return series.filter(s => !state.hidden.has(s)).map(s => {
      const flat = s.smooth && state.smoothed && s.y.length > 12;
      return { ...s, of: s, main: flat ? smooth(s.y, Math.max(2, Math.round(s.y.length / 40))) : s.y, faint: flat };
    });
  }
  function range(list, values, positive) {
    let low = Infinity, high = -Infinity;
    for (const s of list) for (const v of values(s)) if (finite(v) && (!positive || v > 0)) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
    return low <= high ? [low, high] : positive ? [0.1, 1] : [0, 1];
  }
  /* Rare spikes must not flatten the rest: where they are far above, the raw values are cut. */
  function heights(list, log) {
    let [low, high] = range(list, s => s.kind === "step" || s.kind === "points" ? s.main : [...s.main, ...s.y], log || options.two);
    if (!log && list.some(s => s.faint)) {
      const all = list.flatMap(s => s.y).filter(finite).sort((a, b) => a - b);
      const most = range(list, s => s.main)[1], usual = all[Math.floor(0.995 * (all.length - 1))];
      high = Math.min(high, Math.max(most, usual) * 1.05);
    }
    if (options.two) return [low / 1.6, high * 1.6];
    if (log) {
      const pad = (high / low) ** 0.05 * (high / low < 1.2 ? 1.1 : 1);
      return [low / pad, high * pad];
    }
    if (options.zero || (low >= 0 && low < high * 0.25)) low = 0;
    const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    return [low === 0 ? 0 : low - pad, high + pad];
  }

  function path(s, y, sy, step) {
    let d = "", pen = false;
    s.x.forEach((x, i) => {
      const v = y[i];
      if (v === null) return; /* nothing was said of this step: the line goes on */
      if (!finite(v) || (state.log && v <= 0)) { pen = false; return; }
      const px = sx(x).toFixed(1), py = sy(v).toFixed(1);
      d += !pen ? `M${px} ${py}` : step ? `H${px}V${py}` : `L${px} ${py}`;
      pen = true;
    });
    return d;
  }
  function band(s, sy) {
    const up = [], down = [];
    s.x.forEach((x, i) => {
      if (!finite(s.low[i]) || !finite(s.high[i]) || (state.log && s.low[i] <= 0)) return;
      up.push(`${sx(x).toFixed(1)} ${sy(s.high[i]).toFixed(1)}`);
      down.unshift(`${sx(x).toFixed(1)} ${sy(s.low[i]).toFixed(1)}`);
    });
    return up.length > 1 ? `M${up.join("L")}L${down.join("L")}Z` : "";
  }

  function render() {
    width = Math.max(240, plot.clientWidth);
    tip.hidden = true;
    shown = prepared();
    const log = state.log, [low, high] = heights(shown, log);
    const [x0, x1] = allSteps;
    const most = Math.max(3, Math.floor(height / 42));
    const ticks = options.two ? twoTicks(low, high, most) : log ? logTicks(low, high, most) : niceTicks(low, high, most);
    const labels = ticks.map(options.two ? powerOfTwo : short);
    const left = Math.max(...labels.map(t => t.length), 2) * 7.2 + 12, right = 12, top = 8, bottom = 34;
    area = { left, right: width - right, top, bottom: height - bottom };
    sx = x => left + (x - x0) / (x1 - x0) * (width - left - right);
    const at = log || options.two ? v => Math.log(v) : v => v;
    const sy = v => area.bottom - (at(v) - at(low)) / (at(high) - at(low)) * (area.bottom - top);
    const next = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: "0",
      "aria-label": `${title}: ${series.map(s => `${s.name} ends at ${format(s.y[s.y.length - 1])}`).join(", ")}` });
    const clip = "clip" + Math.random().toString(36).slice(2);
    const defs = draw("defs", {}), box = draw("clipPath", { id: clip });
    box.append(draw("rect", { x: left - 1, y: top - 4, width: width - left - right + 6, height: area.bottom - top + 6 }));
    defs.append(box);
    next.append(defs);
    ticks.forEach((t, i) => {
      const y = sy(t);
      next.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }));
      next.append(draw("text", { x: left - 7, y: y + 4, "text-anchor": "end" }, labels[i]));
    });
    const wide = niceTicks(x0, x1, Math.max(2, Math.floor((width - left) / 90))).filter(t => t === Math.round(t));
    wide.forEach(t => {
      const x = sx(t);
      next.append(draw("line", { class: "axis", x1: x, x2: x, y1: area.bottom, y2: area.bottom + 4 }));
      const anchor = x > width - right - 16 ? "end" : x < left + 12 ? "start" : "middle";
      next.append(draw("text", { x: anchor === "end" ? Math.min(x + 8, width) : x, y: area.bottom + 17, "text-anchor": anchor },
        t < 1e4 ? String(t) : short(t)));
    });
    next.append(draw("text", { x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle" }, "step"));
    next.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: area.bottom, y2: area.bottom }));
    const lines = draw("g", { "clip-path": `url(#${clip})`, fill: "none", "stroke-linejoin": "round" });
    for (const s of shown) {
      if (s.low && s.kind !== "step") lines.append(draw("path", { d: band(s, sy), style: `fill:${s.css}`, opacity: 0.16 }));
      if (s.faint) lines.append(draw("path", { d: path(s, s.y, sy), style: `stroke:${s.css}`, "stroke-width": 1, opacity: 0.38 }));
      lines.append(draw("path", { d: path(s, s.main, sy, s.kind === "step"), style: `stroke:${s.css}`, "stroke-width": 2,
        ...(s.dash ? { "stroke-dasharray": s.dash === "dots" ? "2 4" : "7 4" } : {}) }));
      if (s.x.length === 1 || (s.kind === "points" && s.x.length <= 40)) s.x.forEach((x, i) => {
        if (finite(s.y[i]) && (!log || s.y[i] > 0))
          lines.append(draw("circle", { cx: sx(x), cy: sy(s.y[i]), r: 3.2, style: `fill:${s.css};stroke:var(--card)` }));
      });
    }
    for (const m of options.marks || [])
      lines.append(draw("path", { d: `M${sx(m) - 3.5} ${area.bottom + 1}h7l-3.5 -7z`, style: "fill:var(--bad)" }));
    next.append(lines);
    cross = draw("g", {});
    next.append(cross);
    svg ? svg.replaceWith(next) : plot.prepend(next);
    svg = next;
    svg.addEventListener("pointermove", e => point((e.clientX - svg.getBoundingClientRect().left) * width / svg.clientWidth));
    svg.addEventListener("pointerdown", e => point((e.clientX - svg.getBoundingClientRect().left) * width / svg.clientWidth));
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", e => {
      if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
      e.preventDefault();
      const all = shown[0]?.x || [], i = all.indexOf(state.at ?? all[all.length - 1]);
      const x = all[Math.min(all.length - 1, Math.max(0, i + (e.key === "ArrowLeft" ? -1 : 1)))];
      if (x !== undefined) point(sx(x));
    });
    svg.sy = sy;
  }

  function nearest(x, xs) {
    let a = 0, b = xs.length - 1;
    while (b - a > 1) { const m = (a + b) >> 1; xs[m] <= x ? a = m : b = m; }
    return Math.abs(xs[a] - x) <= Math.abs(xs[b] - x) ? a : b;
  }
  function leave() { tip.hidden = true; cross.replaceChildren(); }
  function point(px) {
    if (!shown.length) return;
    const [x0, x1] = allSteps;
    const x = x0 + (px - area.left) / (area.right - area.left) * (x1 - x0);
    const main = shown.reduce((a, b) => b.x.length > a.x.length ? b : a);
    const at = main.x[nearest(x, main.x)];
    state.at = at;
    cross.replaceChildren(draw("line", { class: "cross", x1: sx(at), x2: sx(at), y1: area.top, y2: area.bottom }));
    const epoch = epochAt(at);
    tip.replaceChildren(make("div", { class: "muted" }, `step ${whole(at)}${epoch ? `, epoch ${epoch}` : ""}`));
    for (const s of shown) {
      const i = nearest(at, s.x), v = s.main[i];
      const other = s.x[i] !== at && s.kind === "points" ? ` (step ${whole(s.x[i])})` : "";
      tip.append(make("div", {}, make("span", { class: "swatch" + (s.dash ? " dash" : ""), style: `color:${s.css}` }),
        s.name + other, make("b", {}, format(v))));
      if (s.faint) tip.append(make("div", { class: "muted" }, "unsmoothed", make("b", {}, format(s.y[i]))));
      if (finite(v) && (!state.log || v > 0))
        cross.append(draw("circle", { cx: sx(s.x[i]), cy: Math.max(area.top, svg.sy(v)), r: 4, style: `fill:${s.css};stroke:var(--card)`, "stroke-width": 1.5 }));
    }
    tip.hidden = false;
    const scale = svg.clientWidth / width, room = tip.offsetWidth + 14, here = sx(at) * scale;
    tip.style.left = Math.max(0, here + room > svg.clientWidth ? here - room : here + 14) + "px";
  }

  render();
  new ResizeObserver(() => { if (Math.abs(plot.clientWidth - width) > 1) render(); }).observe(plot);
}

/* An odd one would leave a hole beside it. */
function widenLast(where) {
  const halves = where.querySelectorAll(".card:not(.wide)");
  if (halves.length % 2) halves[halves.length - 1].classList.add("wide");
}

/* ---- the run's curves ---- */

const curves = run.curves, steps = curves.step;
const everyStep = [...steps, ...run.sets.flatMap(s => s.records.map(r => r.step))].filter(finite);
const first = Math.min(...everyStep), last = Math.max(...everyStep);
const allSteps = !everyStep.length ? [0, 1] : first === last ? [first - 1, last + 1] : [first, last]; /* of every chart */
const columns = new Map(curves.columns.map(c => [c.name, c]));
function epochAt(step) {
  if (!steps.length) return 0;
  let i = steps.findIndex(s => s >= step);
  return curves.epoch[i < 0 ? steps.length - 1 : i];
}
function curve(name, label, color, more = {}) {
  const c = columns.get(name);
  return c && c.mean.some(v => v !== null)
    ? { name: label, color, x: steps, y: c.mean, low: c.low, high: c.high, kind: "line", ...more } : null;
}
const metricNames = set => {
  const names = new Set();
  for (const r of set.records) for (const [k, v] of Object.entries(r))
    if (!["step", "epoch", "samples", "seconds"].includes(k) && (finite(v) || ["nan", "inf", "-inf"].includes(v))) names.add(k);
  return [...names];
};
function evaluated(set, name, label, color) {
  const records = set.records.filter(r => name in r);
  return { name: label, color, x: records.map(r => r.step), y: records.map(r => r[name]), kind: "points", dash: true };
}
const setName = (set, name) => run.sets.length > 1 || !name ? `${set.set}${name ? " " + name : ""}` : name;

function drawCurves() {
  const where = byId("charts"), drawn = new Set(["loss", "lr", "grad_norm", "scale", "samples_per_s", "skips"]);
  const losses = [curve("loss", "training", 0, { smooth: true })].filter(Boolean);
  run.sets.forEach((set, i) => {
    if (metricNames(set).includes("loss")) losses.push(evaluated(set, "loss", set.set, i + 1));
  });
  if (losses.length) chart(where, "Loss", losses, { logs: true, wide: true });

  /* Shares of one have a chart together; whatever else is measured has its own. */
  const shares = [], others = [];
  run.sets.forEach((set, i) => {
    for (const name of metricNames(set)) if (name !== "loss") {
      const s = evaluated(set, name, setName(set, name), shares.length + i);
      (s.y.every(v => !finite(v) || (v >= 0 && v <= 1)) ? shares : others).push(s);
    }
  });
  shares.forEach((s, i) => { s.color = i; s.dash = [false, true, "dots"][i % 3]; });
  if (shares.length) chart(where, shares.length > 1 ? "Metrics" : shares[0].name, shares);
  for (const s of others) chart(where, s.name, [{ ...s, color: 2, dash: false }]);
  for (const c of curves.columns) if (!drawn.has(c.name)) {
    const s = curve(c.name, c.name, 3, { smooth: true });
    if (s) chart(where, c.name, [s]);
  }
  const lr = curve("lr", "learning rate", 2), norm = curve("grad_norm", "before clipping", 3, { smooth: true });
  if (lr) chart(where, "Learning rate", [lr], { zero: true });
  if (norm) chart(where, "Gradient norm", [norm], { logs: true });
  const scale = curve("scale", "loss scale", 4, { kind: "step" }), skips = columns.get("skips");
  const marks = skips ? steps.filter((s, i) => skips.mean[i] > 0) : [];
  if (scale) chart(where, "Loss scale", [scale], { two: true, marks, marksName: `${whole(run.overflows)} skipped update${run.overflows === 1 ? "" : "s"}` });
  const rate = curve("samples_per_s", "samples/s", 5, { smooth: true });
  if (rate) chart(where, "Throughput, samples/s", [rate], { zero: true });
  widenLast(where);
}

/* ---- header and tiles ---- */

function drawHeader() {
  const p = run.program, start = run.start || {}, end = run.end;
  document.title = `${p.name}: training run`;
  byId("name").textContent = p.name;
  const state = !end ? ["running", "warn"] : end.status === 0 ? ["finished", "good"]
    : end.status > 128 ? ["stopped", "warn"] : ["failed", "bad"];
  byId("status").textContent = state[0] + (run.resumes ? `, continued ${run.resumes === 1 ? "once" : run.resumes + " times"}` : "");
  byId("status").classList.add(state[1]);
  byId("about").textContent = [p.source, p.precision, `${whole(p.parameters)} parameters`,
    `${start.device || "cpu"} (${p.cpu})`, start.threads ? `${start.threads} thread${start.threads > 1 ? "s" : ""}` : "",
    `seed ${start.seed}`].filter(Boolean).join("  ·  ");
  if (end?.reason) byId("about").after(make("p", { class: "note" }, end.reason));

  const tiles = byId("tiles");
  const tile = (value, label) => tiles.append(make("div", { class: "tile" }, make("b", {}, value), make("span", {}, label)));
  for (const set of run.sets) {
    const last = set.records[set.records.length - 1];
    const name = metricNames(set).find(n => n !== "loss") || "loss";
    if (last && name in last) {
      const all = set.records.map(r => r[name]).filter(finite), low = name === "loss" || /err|mae|mse|perpl/.test(name);
      const best = low ? Math.min(...all) : Math.max(...all);
      tile(number(last[name]), `${name}, ${set.set}` + (all.length > 1 ? ` (best ${number(best)})` : ""));
    }
  }
  const loss = columns.get("loss"), count = loss ? loss.mean.length : 0;
  if (count) tile(number(loss.mean[count - 1]), "training loss, last");
  const done = end ? end.steps : run.now.step;
  tile(whole(done), run.overflows ? `updates, ${whole(run.overflows)} skipped` : "updates");
  const rate = columns.get("samples_per_s");
  if (rate) {
    const values = rate.mean.filter(v => finite(v) && v > 0).sort((a, b) => a - b);
    if (values.length) tile(short(values[values.length >> 1]), "samples/s, median");
  }
  tile(duration(end ? end.seconds : run.now.seconds), "from start to " + (end ? "end" : "now"));
  if (end) tile(bytes(end.peak_bytes), `memory at most (planned ${bytes(run.memory.planned)})`);
  else tile(bytes(run.memory.planned), "memory planned");
}

/* ---- tables ---- */

function table(heads, rows, attributes = {}) {
  const cells = (tag, row) => make("tr", row.module ? { class: "module" } : {}, ...row.map((c, i) => {
    const text = c === null || c === undefined ? "" : c, right = heads[i]?.endsWith(">");
    return make(tag, { class: [right ? "n" : "", tag === "td" && attributes[i] || ""].join(" ").trim() }, text instanceof Node ? text : String(text));
  }));
  return make("div", { class: "scroll" + (attributes.tall ? " tall" : "") + (attributes.stack ? " stack" : "") }, make("table", {}, make("thead", {}, cells("th", heads.map(h => h.replace(/>$/, "")))),
    make("tbody", {}, ...rows.map(r => cells("td", r)))));
}
function card(title, wide, ...content) {
  byId("details").append(make("div", { class: "card" + (wide ? " wide" : "") }, make("div", { class: "head" }, make("h2", {}, title)), ...content));
}

function drawMatrices() {
  for (const set of run.sets) if (set.matrix) {
    const [name, rows] = Object.entries(set.matrix).find(([, v]) => Array.isArray(v) && Array.isArray(v[0])) || [];
    if (!rows) continue;
    const n = rows.length, large = n > 24, label = i => run.classes[i] || String(i);
    const t = make("table", { class: "matrix" + (large ? " large" : "") });
    t.append(make("tr", {}, make("th", {}, ""), ...rows.map((_, i) => make("th", { title: label(i) }, large && i % 10 ? "" : label(i)))));
    rows.forEach((row, i) => {
      const sum = row.reduce((a, b) => a + b, 0) || 1;
      t.append(make("tr", {}, make("th", { title: label(i) }, large && i % 10 ? "" : label(i)), ...row.map((v, k) => {
        const share = v / sum;
        return make("td", { style: `background:rgba(var(--heat), ${share ? (0.08 + 0.87 * share).toFixed(3) : 0});` +
          (share > 0.5 ? `color:${"var(--card)"}` : v ? "" : "color:var(--muted)"),
          title: `${label(i)} taken for ${label(k)}: ${v} of ${sum} (${(100 * share).toFixed(1)} %)` }, large ? "" : v ? String(v) : "·");
      })));
    });
    card(`${name.replace(/_/g, " ")}, ${set.set}`, n > 14, make("div", { class: "muted", style: "font-size:13px" },
      `after step ${whole(set.matrix.step)}; a row for each label, a column for each answer; shaded by the share of the row`),
      make("div", { class: "scroll" }, t));
  }
}

function drawMemory() {
  const uses = run.memory.uses.filter(u => u.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  const rest = run.memory.arena - run.memory.used;
  if (rest > 0) uses.push({ use: "between buffers", bytes: rest, plain: true });
  const all = uses.reduce((a, u) => a + u.bytes, 0) || 1;
  const color = (u, i) => u.plain ? "var(--line)" : `var(--c${i % 6})`, opacity = i => i >= 6 ? 0.55 : 1;
  const bar = make("div", { class: "bar", role: "img", "aria-label": "shares of the arena" },
    ...uses.map((u, i) => make("i", { style: `flex:${u.bytes};background:${color(u, i)};opacity:${opacity(i)}`, title: `${u.use}: ${bytes(u.bytes)}` })));
  const rows = uses.map((u, i) => [make("span", { style: "display:inline-flex;gap:8px;align-items:center" },
    make("span", { class: "swatch box", style: `background:${color(u, i)};opacity:${opacity(i)}` }), u.use),
    bytes(u.bytes), (100 * u.bytes / all).toFixed(1) + " %",
    run.program.parameters ? (u.bytes / run.program.parameters).toFixed(2) : ""]);
  card("Memory at its fullest", false, bar, table(["what for", "bytes>", "share>", "a parameter>"], rows),
    make("p", { class: "muted", style: "font-size:13px;margin:8px 0 0" },
      `The arena is ${bytes(run.memory.arena)}; with data, batches, threads and the program itself ${bytes(run.memory.planned)} were planned.`));
}

function drawRun() {
  const start = run.start || {}, end = run.end || {}, rows = [];
  for (const [name, o] of Object.entries(start.options || {})) rows.push([name, String(o.value), o.from]);
  if (!start.options?.seed) rows.push(["seed", start.seed, start.seed_from]);
  rows.push(["precision", run.program.precision, "compiled in"], ["cpu", run.program.cpu, "compiled in"],
    ["threads", start.threads, ""], ["mpc", run.program.version, ""]);
  if (finite(end.data_s)) rows.push(["reading data", duration(end.data_s), "measured"]);
  if (finite(end.first_step_s)) rows.push(["first step after", duration(end.first_step_s), "measured"]);
  card("Run", false, table(["setting", "value", "from"], rows, { 0: "code", 1: "code", 2: "muted" }));
}

function drawTypes() {
  const rows = [], kernels = run.kernels.filter(k => k.phase === "forward");
  const seen = new Set();
  const list = module => kernels.filter(k => (k.module || "") === module).forEach(k => {
    seen.add(k);
    rows.push([make("span", { class: "code" }, (k.what || "").replace(/^[^:]*: /, "")), k.types, k.line || "", k.why || ""]);
  });
  for (const m of run.modules) {
    const row = [m.path || run.program.name, m.kind, "", `${m.params ? whole(m.params) + " parameters: " + m.shape : ""}`];
    row.module = true;
    rows.push(row);
    if (m.path) list(m.path);
  }
  const rest = kernels.filter(k => !seen.has(k));
  if (rest.length) {
    const row = ["loss, input and the rest", "", "", ""];
    row.module = true;
    rows.push(row);
    rest.forEach(k => rows.push([make("span", { class: "code" }, k.what || ""), k.types, k.line || "", k.why || ""]));
  }
  if (rows.length) card("Types by module, forward", true, table(["module, kernel", "types in memory", "line>", "why"], rows, { 0: "sub", 1: "code", 3: "why", stack: true }));
}

function drawOverflows() {
  const last = run.last_overflows || [];
  if (!last.length) return;
  card(`Skipped updates: ${whole(run.overflows)}` + (run.overflows > last.length ? `, the last ${last.length}` : ""), false,
    table(["step>", "scale>", "then>", "first not finite", "line>"],
      last.slice().reverse().map(o => [whole(o.step), short(o.scale_old), short(o.scale_new), o.tensor ? `${o.tensor} (${o.op})` : "", o.line]), { tall: true }));
}

drawHeader();
drawCurves();
drawMatrices();
drawMemory();
drawRun();
drawOverflows();
widenLast(byId("details"));
drawTypes();
byId("foot").textContent = `Made by mpc ${run.program.version}; written ${new Date(run.now.written * 1000).toLocaleString("sv-SE")}` +
  (curves.each > 1 ? `; every point of a curve stands for ${whole(curves.each)} records, the band reaches from the least to the greatest` : "") + ".";
})();
