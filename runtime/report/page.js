"use strict";
/* page.js: what the pages share: elements, theme. No library, nothing is fetched. Text reaches a page only by
 * textContent. */
const byId = id => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes))
    k === "class" ? e.className = v : k.startsWith("on") ? e.addEventListener(k.slice(2), v) : e.setAttribute(k, v);
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}
function draw(tag, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}

/* ---- theme ---- */

function store(value) {
  try { return value === undefined ? localStorage.getItem("mpc-theme") : localStorage.setItem("mpc-theme", value); }
  catch { return null; } /* a file without storage keeps the system's */
}
const dark = () => document.documentElement.dataset.theme === "dark" ||
  (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
const wished = /[?#&]theme=(light|dark)/.exec(location.href)?.[1] || store();
if (wished === "light" || wished === "dark") document.documentElement.dataset.theme = wished;
byId("theme").addEventListener("click", () => {
  const to = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = to;
  store(to);
});

