// The data, the reader's choices, and the small tools that every section uses. Every statistic is looked up: the
// page computes places on a screen and nothing else. Text enters it through text nodes alone.

const ledger = JSON.parse(document.getElementById("ledger").textContent);
for (const part of ledger.parts) {
  const columns = Object.entries(part.forks);
  part.forks = part.forks.k.map((_, index) =>
    Object.fromEntries(columns.map(([name, values]) => [name, values[index]])),
  );
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

// ---- numbers as people read them ----
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const minus = (text) => text.replace(/-/g, "−");
const plain = (value, digits = 1) =>
  isNumber(value)
    ? minus(value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }))
    : "undefined";
const signed = (value, digits = 1) => (isNumber(value) && value > 0 ? "+" : "") + plain(value, digits);
const brief = (value) => (isNumber(value) ? minus(String(Number(value.toPrecision(4)))) : "undefined");
const chance = (p) => (p < 0.001 ? "< .001" : p >= 0.9995 ? "1" : p.toFixed(3).replace(/^0/, ""));
const whole = (value) => value.toLocaleString("en-US");

// ---- what a fork did ----
const isScored = (fork) => isNumber(fork.delta);
const sideOf = (fork) => (!isScored(fork) ? "none" : fork.delta > 0 ? "help" : fork.delta < 0 ? "hurt" : "even");
const GLYPH = { help: "▲", hurt: "▼", even: "●", none: "×" };

// The larger |dR|, the fuller the colour.
function colour(fork) {
  const side = sideOf(fork);
  if (side === "none") return "transparent";
  const share = Math.round(18 + 82 * Math.min(1, Math.abs(fork.delta) / part().full_colour) ** 0.7);
  return side === "even" ? "var(--blank)" : `color-mix(in oklab, var(--${side}) ${share}%, var(--blank))`;
}

const cellName = (cell) => `checkpoint ${cell.checkpoint} · ${cell.direction} · seed ${cell.stream_seed}`;
const shortened = (text, limit) => (text.length > limit ? text.slice(0, limit - 1) + "…" : text);
const scoredForks = () =>
  part().forks.filter((fork) => isScored(fork) && (state.side === "all_attempted" || !fork.diverged));

// ---- the reader's choices, kept in the address: a reload or a link comes back to the same place ----
const state = { part: 0, fork: 0, trigger: null, side: "all_attempted", threshold: null };
const listeners = [];
const part = () => ledger.parts[state.part];
const chosenFork = () => part().forks[state.fork];

function change(next) {
  const before = { ...state };
  Object.assign(state, next);
  if (state.part !== before.part) Object.assign(state, { fork: 0, trigger: null, threshold: null, ...next });
  settleState();
  const words = Object.entries(state).filter(([, value]) => value !== null);
  try {
    history.replaceState(
      null,
      "",
      "#" + words.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&"),
    );
  } catch {
    // Inside a notebook the page has no address of its own.
  }
  for (const listener of listeners) listener(Object.keys(state).filter((key) => state[key] !== before[key]));
}

function settleState() {
  const within = (value, count) => Math.min(Math.max(0, Math.trunc(value) || 0), count - 1);
  state.part = within(state.part, ledger.parts.length);
  state.fork = within(state.fork, part().forks.length);
  const names = Object.keys(part().triggers);
  if (!names.includes(state.trigger)) {
    state.trigger = names.find((name) => part().triggers[name].signal) || names[0] || null;
    state.threshold = null;
  }
  if (state.side !== "retained") state.side = "all_attempted";
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
  const spelled = text
    .trim()
    .replace(/−/g, "-")
    .replace(/^([+-]?)(inf|∞)$/i, "$1Infinity");
  return spelled === "" || Number.isNaN(Number(spelled)) ? null : Number(spelled);
}

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
const table = (heads, rows, more = {}) =>
  el(
    "table",
    more,
    heads &&
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map((head) => el("th", {}, head)),
        ),
      ),
    el(
      "tbody",
      {},
      rows.map(([first, ...rest]) =>
        el(
          "tr",
          {},
          el("th", {}, first),
          rest.map((cell) => el("td", {}, cell)),
        ),
      ),
    ),
  );

function tell(event, lines) {
  const box = byId("tooltip");
  box.replaceChildren(...lines.map((text, index) => el(index ? "div" : "b", {}, text)));
  box.hidden = false;
  const [width, height] = [box.offsetWidth, box.offsetHeight];
  box.style.left = `${Math.max(6, Math.min(event.clientX + 14, innerWidth - width - 6))}px`;
  box.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
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
    ...(fork.diverged ? ["diverged: not among the retained forks"] : []),
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
