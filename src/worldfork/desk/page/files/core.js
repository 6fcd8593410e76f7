// The data, the state that a reader changes, and the small tools that every section uses.
// Text enters the page through text nodes alone: a cell named <script> stays text.

const ledger = JSON.parse(document.getElementById("ledger").textContent);
const SVG = "http://www.w3.org/2000/svg";

// Appends nodes, texts and nested lists of them; leaves out what is null, undefined or false.
function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "fill" || name === "stroke") node.style[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  return add(node, children);
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

// ---- numbers as people read them; an undefined one is a word with its reason ----
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const whyNot = (value) => (value && value.why) || "it was not recorded";
const minus = (text) => text.replace(/-/g, "−");

function plain(value, digits = 1) {
  if (!isNumber(value)) return "undefined";
  return minus(value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
}
const signed = (value, digits = 1) => (isNumber(value) && value > 0 ? "+" : "") + plain(value, digits);
const brief = (value) => (isNumber(value) ? minus(String(Number(value.toPrecision(4)))) : "undefined");
const span = (pair, digits) =>
  Array.isArray(pair) ? `[${signed(pair[0], digits)}, ${signed(pair[1], digits)}]` : "undefined";
function chance(p) {
  if (!isNumber(p)) return "undefined";
  return p < 0.001 ? "< .001" : p >= 0.9995 ? "1" : p.toFixed(3).replace(/^0/, "");
}
function shown(value, text) {
  return isNumber(value) || Array.isArray(value)
    ? text
    : el("span", { class: "undefined", tabindex: 0, title: whyNot(value) }, "undefined");
}

// ---- what a fork did ----
const isScored = (fork) => isNumber(fork.delta);
const sideOf = (fork) => (!isScored(fork) ? "none" : fork.delta > 0 ? "help" : fork.delta < 0 ? "hurt" : "even");
const GLYPH = { help: "▲", hurt: "▼", even: "●", none: "×" };

// The larger |dR|, the fuller the colour; the size at which it is full leaves out the largest twentieth.
function colouring(part) {
  const sizes = part.forks
    .filter(isScored)
    .map((fork) => Math.abs(fork.delta))
    .sort((a, b) => a - b);
  const full = sizes.length ? sizes[Math.floor(0.95 * (sizes.length - 1))] || 1 : 1;
  const colour = (fork) => {
    const side = sideOf(fork);
    if (side === "none") return "transparent";
    const share = Math.round(18 + 82 * Math.min(1, Math.abs(fork.delta) / full) ** 0.7);
    return side === "even" ? "var(--blank)" : `color-mix(in oklab, var(--${side}) ${share}%, var(--blank))`;
  };
  return { colour, full };
}

const cellName = (cell) => `checkpoint ${cell.checkpoint} · ${cell.direction} · seed ${cell.stream_seed}`;
const shortened = (text, limit) => (text.length > limit ? text.slice(0, limit - 1) + "…" : text);
const partName = (part) =>
  part.arm && ledger.parts.some((one) => one.arm !== part.arm) ? `${part.arm} · ${part.task}` : part.task;

// ---- state: kept in the address, so that a reload or a link comes back to the same place ----
const state = { part: 0, fork: 0, trigger: null, side: "retained", threshold: null };
const listeners = [];
const part = () => ledger.parts[state.part];
const fork = () => part().forks[state.fork];
const onChange = (listener) => listeners.push(listener);

function change(next) {
  const before = { ...state };
  Object.assign(state, next);
  if (state.part !== before.part) Object.assign(state, { fork: 0, trigger: null, threshold: null, ...next });
  settleState();
  const words = Object.entries(state)
    .filter(([, value]) => value !== null)
    .map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  history.replaceState(null, "", "#" + words.join("&"));
  for (const listener of listeners) listener(before);
}

function settleState() {
  state.part = Math.min(Math.max(0, Math.trunc(state.part) || 0), ledger.parts.length - 1);
  state.fork = Math.min(Math.max(0, Math.trunc(state.fork) || 0), part().forks.length - 1);
  const names = Object.keys(part().triggers);
  if (!names.includes(state.trigger)) {
    state.trigger = names.find((name) => part().triggers[name].signal) || names[0] || null;
    state.threshold = null;
  }
  if (!["retained", "all_attempted"].includes(state.side)) state.side = "retained";
}

function readAddress() {
  for (const word of location.hash.slice(1).split("&")) {
    const [key, value] = word.split("=");
    if (!(key in state) || value === undefined) continue;
    const text = decodeURIComponent(value);
    state[key] = ["part", "fork"].includes(key) ? Number(text) : key === "threshold" ? readThreshold(text) : text;
  }
  settleState();
}

// "fitted" (leave-one-checkpoint-out), a number, or an infinity.
function readThreshold(text) {
  if (text === "fitted") return text;
  const spelled = String(text)
    .trim()
    .replace(/−/g, "-")
    .replace(/^([+-]?)(inf|∞)$/i, "$1Infinity");
  const number = Number(spelled);
  return spelled === "" || Number.isNaN(number) ? null : number;
}

function select(label, options, value, onchange) {
  const box = el(
    "select",
    { onchange: (event) => onchange(event.target.value) },
    options.map(([key, text]) => el("option", { value: key, selected: String(key) === String(value) }, text)),
  );
  return el("label", { class: "select" }, el("span", {}, label), box);
}

// A table that scrolls by itself where the screen is narrow, below what it is about.
const tabled = (caption, heads, rows) => [
  el("p", { class: "small caption" }, caption),
  el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map((head) => el("th", {}, head)),
        ),
      ),
      el("tbody", {}, rows),
    ),
  ),
];

function tell(event, lines) {
  const box = byId("tooltip");
  box.replaceChildren(...lines.map((line, index) => el(index ? "div" : "b", {}, line)));
  box.hidden = false;
  const [width, height] = [box.offsetWidth, box.offsetHeight];
  box.style.left = `${Math.max(6, Math.min(event.clientX + 14, innerWidth - width - 6))}px`;
  box.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
}
const hush = () => {
  byId("tooltip").hidden = true;
};

function forkLines(one, current) {
  const digits = current.digits;
  return [
    `${GLYPH[sideOf(one)]} k = ${one.k}: dR ${isScored(one) ? signed(one.delta, digits) : "undefined"}`,
    cellName(current.cells[one.cell]),
    `HOLD ${plain(one.r_hold, digits)}, UPDATE ${plain(one.r_update, digits)}`,
    one.diverged ? "diverged: left out of the retained forks" : null,
  ].filter(Boolean);
}
