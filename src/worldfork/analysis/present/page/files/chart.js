// Scales, axes and a chart that is drawn anew at whatever width it is given.

function linear(domain, range) {
  const [low, high] = domain[0] === domain[1] ? [domain[0] - 1, domain[1] + 1] : domain;
  const scale = (value) => range[0] + ((value - low) / (high - low)) * (range[1] - range[0]);
  scale.invert = (place) => low + ((place - range[0]) / (range[1] - range[0])) * (high - low);
  scale.domain = [low, high];
  scale.ticks = (count) => steps(low, high, count);
  return scale;
}

// For signals that are positive and spread over more than a decade.
function logarithmic(domain, range) {
  const base = linear(domain.map(Math.log10), range);
  const scale = (value) => base(Math.log10(Math.max(value, Number.MIN_VALUE)));
  scale.invert = (place) => 10 ** base.invert(place);
  scale.domain = domain;
  scale.ticks = () => {
    const among = (multiples) => {
      const found = [];
      for (let power = Math.floor(Math.log10(domain[0])); 10 ** power <= domain[1]; power++)
        for (const times of multiples) found.push(Number((times * 10 ** power).toPrecision(6)));
      return found.filter((value) => value >= domain[0] && value <= domain[1]);
    };
    return among([1]).length > 2 ? among([1]) : among([1, 2, 5]);
  };
  return scale;
}

function steps(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = power * ([1, 2, 5, 10].find((times) => times * power >= rough) || 10);
  const found = [];
  for (let index = Math.ceil(low / size - 1e-9); index * size <= high + 1e-9 * size; index++)
    found.push(Number((index * size).toPrecision(12)));
  return found;
}

// The range of values with some room; what is never negative gets no room below zero.
function extent(values, { pad = 0.05, zero = false } = {}) {
  let [low, high] = zero ? [0, 0] : [Infinity, -Infinity];
  for (const value of values)
    if (isNumber(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low > high) return [0, 1];
  // Totals that differ by rounding alone are one value, and no axis has ticks between them.
  const flat = high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high));
  const room = (flat ? Math.abs(high) || 1 : high - low) * Math.max(pad, flat ? 0.05 : 0);
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

function tickText(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e7 || size < 1e-4) return minus(value.toExponential(0));
  return minus(value.toLocaleString("en-US", { maximumSignificantDigits: 4 }));
}

const GUTTER = 60; // left of an axis: room for "−10,000"

function axisX(scale, { y, top = y, words, count = 5, width }) {
  const marks = [];
  // One number on an axis says nothing about its scale.
  const few = scale.ticks(count);
  for (const value of few.length > 1 ? few : scale.ticks(3 * count)) {
    const last = marks[marks.length - 1];
    const room = 3.5 * (tickText(value).length + tickText(last ?? 0).length) + 10;
    if (last === undefined || scale(value) - scale(last) >= room) marks.push(value);
    else if (value === 0) marks[marks.length - 1] = 0;
  }
  const drawn = marks.map((value) => [
    line(value === 0 ? "zero" : "grid", scale(value), top, scale(value), y),
    label("", scale(value), y + 15, "middle", tickText(value)),
  ]);
  return svg("g", { class: "axis across" }, drawn, label("label", width, y + 32, "end", words));
}

function axisY(scale, { x, right, words, count = 5, top }) {
  const drawn = scale
    .ticks(count)
    .map((value) => [
      line(value === 0 ? "zero" : "grid", x, scale(value), right, scale(value)),
      label("", x - 6, scale(value) + 4, "end", tickText(value)),
    ]);
  return svg("g", { class: "axis" }, drawn, label("label", 0, top - 11, "start", words));
}

// A figure with its caption. `draw(canvas, width)` fills the canvas and returns its height; `rows()` is what it shows,
// as a table whose first row names the columns.
function chart(name, draw, caption, rows = null) {
  const canvas = svg("svg", { role: "img", "aria-label": name });
  const words = el("span", { class: "words" }, caption);
  const node = el("figure", {}, canvas, el("figcaption", {}, words, rows && [" ", csvButton(name, rows)]));
  let drawn = 0;
  node.redraw = () => {
    const width = Math.floor(node.clientWidth);
    if (!width) return;
    drawn = width;
    canvas.replaceChildren();
    const height = draw(canvas, width);
    for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }))
      canvas.setAttribute(key, value);
  };
  new ResizeObserver(() => Math.floor(node.clientWidth) !== drawn && node.redraw()).observe(node);
  node.canvas = canvas;
  return node;
}

function path(points) {
  let pen = "M";
  return points
    .map(([x, y]) => {
      const text = isNumber(y) ? `${pen}${x.toFixed(1)} ${y.toFixed(1)}` : "";
      pen = text ? "L" : "M";
      return text;
    })
    .join("");
}

// Thousands of points as squares of a few pixels: the more points, the fuller; the colour is that of most of them.
function crowd(points, size = 5) {
  const squares = new Map();
  for (const [x, y, side] of points) {
    const key = `${Math.floor(x / size)} ${Math.floor(y / size)}`;
    const square = squares.get(key) || { x: Math.floor(x / size) * size, y: Math.floor(y / size) * size, help: 0, hurt: 0 };
    square[side === "help" ? "help" : "hurt"] += 1;
    squares.set(key, square);
  }
  const most = Math.max(...[...squares.values()].map(({ help, hurt }) => help + hurt), 1);
  return [...squares.values()].map(({ x, y, help, hurt }) =>
    svg("rect", {
      class: `crowd ${help > hurt ? "help" : "hurt"}`,
      ...{ x, y, width: size, height: size },
      "fill-opacity": (0.25 + 0.75 * Math.sqrt((help + hurt) / most)).toFixed(2),
    }),
  );
}
const CROWD = 2000; // points beyond which they are drawn as squares

function mark(side, x, y, size, attributes) {
  const shape = {
    help: `M${x} ${y - size}L${x + size} ${y + 0.8 * size}H${x - size}Z`,
    hurt: `M${x} ${y + size}L${x + size} ${y - 0.8 * size}H${x - size}Z`,
    even: `M${x - size} ${y}a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0 ${-2 * size} 0Z`,
  };
  return svg("path", { d: shape[side], class: `mark ${side}`, ...attributes });
}

function pointIn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
