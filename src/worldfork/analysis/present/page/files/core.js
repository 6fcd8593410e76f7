// The data and the small tools that every section uses. Every statistic is looked up: the page computes places on a
// screen and nothing else. Text enters it through text nodes alone.

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index++) bytes[index] = text.charCodeAt(index);
  return bytes;
}

if (!("DecompressionStream" in window)) {
  const words = "This browser is from before 2023 and can not open the figures: the answer, the tables and the record can be read, the rest needs a newer one.";
  document.body.prepend(Object.assign(document.createElement("p"), { className: "noscript", textContent: words }));
  return;
}
const packed = new Blob([bytesOf(document.getElementById("ledger").textContent)]);
const ledger = await new Response(packed.stream().pipeThrough(new DecompressionStream("deflate"))).json();
for (const { forks, triggers } of ledger.parts) {
  forks.forEach((fork, index) => (fork.index = index));
  // JSON has no infinities: they come as words.
  for (const { rows = {} } of Object.values(triggers))
    for (const side of Object.values(rows)) side.threshold = side.threshold.map(Number);
}

// Appends nodes, texts and nested lists of them; leaves out what is null or false.
function add(node, ...children) {
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

function make(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "fill" || name === "stroke") node.style[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  return add(node, children);
}
const el = (tag, attributes = {}, ...children) => make(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });
const dot = (kind, cx, cy, r, ...inside) => svg("circle", { class: kind, cx, cy, r }, ...inside);
const label = (kind, x, y, anchor, ...words) => svg("text", { class: kind, x, y, "text-anchor": anchor }, ...words);
const byId = (id) => document.getElementById(id);

// ---- sections: each is drawn anew when a choice it depends on changes, or refreshed by one that moves little ----
const SECTIONS = {};
function section(id, of, draw, refreshedBy = null) {
  SECTIONS[id] = { of, draw, refreshedBy };
}
function goTo(id, choices) {
  change({ ...choices, at: id });
  // At once: on the way the address would name every section that passes by.
  byId(id)?.scrollIntoView({ behavior: "instant" });
}

// ---- numbers as people read them ----
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const minus = (text) => text.replace(/-/g, "−");
const plain = (value, digits = 1) =>
  isNumber(value)
    ? minus(value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }))
    : "undefined";
const signed = (value, digits = 1) => (isNumber(value) && value > 0 ? "+" : "") + plain(value, digits);
const brief = (value) => (isNumber(value) ? minus(String(Number(value.toPrecision(4)))) : "undefined");
const chance = (p) => (p < 0.001 ? "<.001" : p >= 0.9995 ? "1" : p.toFixed(3).replace(/^0/, ""));
const whole = (value) => value.toLocaleString("en-US");

// A table that reaches beyond its box says so.
const hint = new ResizeObserver((entries) => {
  for (const { target } of entries) target.classList.toggle("more", target.scrollWidth > target.clientWidth + 1);
});

// ---- what a fork did ----
const isScored = (fork) => fork.delta !== null;
const sideOf = (fork) => (!isScored(fork) ? "none" : fork.delta > 0 ? "help" : fork.delta < 0 ? "hurt" : "even");
const GLYPH = { help: "▲", hurt: "▼", even: "●", none: "×" };

// The larger |dR|, the fuller the colour.
function colour(fork) {
  const side = sideOf(fork);
  if (side === "none") return "transparent";
  const share = Math.round(18 + 82 * Math.min(1, Math.abs(fork.delta) / part().full_colour) ** 0.7);
  return side === "even" ? "var(--blank)" : `color-mix(in oklab, var(--${side}) ${share}%, var(--blank))`;
}

// A direction or a seed that all cells share says nothing.
function cellName(cell, between = " · ") {
  const several = (key) => part().cells.some((other) => other[key] !== cell[key]);
  const words = [`checkpoint ${cell.checkpoint}`];
  if (several("direction")) words.push(cell.direction);
  if (several("stream_seed")) words.push(`seed ${cell.stream_seed}`);
  return words.join(between);
}
const shortened = (text, limit) => (text.length > limit ? text.slice(0, limit - 1) + "…" : text);
const scoredForks = () =>
  part().forks.filter((fork) => isScored(fork) && (state.side === "all_attempted" || !fork.diverged));
const forkName = (fork) => `${cellName(part().cells[fork.cell], ", ")}, k = ${fork.k}`;

function select(words, options, value, onchange) {
  const chosen = (key) => String(key) === String(value);
  const box = el(
    "select",
    { onchange: (event) => onchange(event.target.value) },
    options.map(([key, text]) => el("option", { value: key, selected: chosen(key) }, text)),
  );
  return el("label", { class: "select" }, el("span", {}, words), box);
}
const button = (words, onclick, more = {}) => el("button", { type: "button", onclick, ...more }, words);
const pair = (name, value) => [el("dt", {}, name), el("dd", {}, value)];
const row = (kind, [first, ...rest]) => el("tr", {}, el("th", {}, first), rest.map((cell) => el(kind, {}, cell)));
const table = (heads, rows, more = {}) =>
  el("table", more, heads && el("thead", {}, row("th", heads)), el("tbody", {}, rows.map((cells) => row("td", cells))));

function tell(event, lines) {
  const box = byId("tooltip");
  box.replaceChildren(...lines.map((text, index) => el(index || lines.length === 1 ? "div" : "b", {}, text)));
  box.hidden = false;
  const [width, height] = [box.offsetWidth, box.offsetHeight];
  box.style.left = `${Math.max(6, Math.min(event.clientX + 14, innerWidth - width - 6))}px`;
  box.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
}
// By pointer or by keyboard, a word says what it means; Escape puts it away.
function explainTerms() {
  const explain = (event) => {
    const node = event.target.closest?.("[data-means]");
    if (!node) return;
    const box = node.getBoundingClientRect();
    tell({ clientX: box.left - 14, clientY: box.bottom - 12 }, [node.dataset.means]);
    node.setAttribute("aria-describedby", "tooltip");
  };
  const stop = (event) => {
    const node = event.target.closest?.("[data-means]");
    if (!node) return;
    hush();
    node.removeAttribute("aria-describedby");
  };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, explain);
  for (const kind of ["pointerout", "focusout"]) document.addEventListener(kind, stop);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hush());
}

const hush = () => {
  byId("tooltip").hidden = true;
};

function forkLines(fork) {
  const { digits, cells } = part();
  return [
    `${GLYPH[sideOf(fork)]} k = ${fork.k}: dR ${signed(fork.delta, digits)}`,
    cellName(cells[fork.cell]),
    `HOLD ${plain(fork.r_hold, digits)}, UPDATE ${plain(fork.r_update, digits)}`,
    ...(fork.diverged ? ["diverged (UPDATE far below HOLD): not among the retained forks"] : []),
  ];
}

// Shows the fork under the pointer and goes to it at a click; `find` names it, or null.
function pointAtForks(canvas, find) {
  canvas.addEventListener("pointermove", (event) => {
    const index = find(event);
    if (index === null) hush();
    else tell(event, forkLines(part().forks[index]));
  });
  canvas.addEventListener("pointerleave", hush);
  canvas.addEventListener("click", (event) => {
    const index = find(event);
    if (index !== null) change({ fork: index });
  });
}
