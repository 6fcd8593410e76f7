// Scales, axes and a chart that is drawn anew at whatever width it is given.

function linear(domain, range) {
  const [low, high] = domain[0] === domain[1] ? [domain[0] - 1, domain[1] + 1] : domain;
  const scale = (value) => range[0] + ((value - low) / (high - low)) * (range[1] - range[0]);
  scale.invert = (place) => low + ((place - range[0]) / (range[1] - range[0])) * (high - low);
  scale.domain = [low, high];
  scale.ticks = (count = 5) => steps(low, high, count);
  return scale;
}

// Linear within ±c, logarithmic beyond, smooth in between.
function symlog(domain, range, c) {
  const bend = (value) => Math.sign(value) * Math.log1p(Math.abs(value) / c);
  const unbend = (value) => Math.sign(value) * c * Math.expm1(Math.abs(value));
  const base = linear([bend(domain[0]), bend(domain[1])], range);
  const scale = (value) => base(bend(value));
  scale.invert = (place) => unbend(base.invert(place));
  scale.domain = domain;
  scale.ticks = () => {
    const reach = Math.max(Math.abs(domain[0]), Math.abs(domain[1]));
    const among = (multiples) => {
      const found = [0];
      for (let size = c; size <= reach; size *= 10)
        for (const times of multiples) found.push(times * size, -times * size);
      return found
        .filter((value) => value >= domain[0] && value <= domain[1])
        .map((value) => Number(value.toPrecision(6)))
        .sort((a, b) => a - b);
    };
    return among([1]).length > 3 ? among([1]) : among([1, 2, 5]);
  };
  scale.bent = c;
  return scale;
}

function steps(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = power * ([1, 2, 5, 10].find((one) => one * power >= rough) || 10);
  const found = [];
  for (let index = Math.ceil(low / size - 1e-9); index * size <= high + 1e-9 * size; index++)
    found.push(Number((index * size).toPrecision(12)));
  return found;
}

function extent(values, { pad = 0.05, zero = false } = {}) {
  const known = values.filter(isNumber);
  if (zero) known.push(0);
  if (!known.length) return [0, 1];
  let [low, high] = [known[0], known[0]];
  for (const value of known) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  // Totals that differ by rounding alone are one value, and no axis has ticks between them.
  const flat = high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high));
  const room = (flat ? Math.abs(high) || 1 : high - low) * Math.max(pad, flat ? 0.05 : 0);
  return [low - room, high + room];
}

// Where values spread over orders of magnitude a bent axis shows them all; the bend is at a power of ten.
function bentOrNot(values, range, { zero = true, spread = 8 } = {}) {
  const known = values.filter(isNumber);
  const domain = extent(known, { zero });
  const sizes = known
    .map(Math.abs)
    .filter((size) => size > 0)
    .sort((a, b) => a - b);
  const [middle, top] = [sizes[Math.floor(sizes.length / 2)], sizes[sizes.length - 1]];
  if (!(top > spread * middle)) return linear(domain, range);
  return symlog(domain, range, 10 ** Math.floor(Math.log10(middle)));
}

function tickText(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e5 || size < 1e-3) return minus(value.toExponential(0));
  return minus(value.toLocaleString("en-US", { maximumSignificantDigits: 4 }));
}

function axisX(scale, { y, top, label, count = 5, width }) {
  const marks = [];
  for (const value of scale.ticks(count)) {
    const near = () =>
      marks.length && scale(value) - scale(marks[marks.length - 1]) < tickText(value).length * 7 + 8;
    if (value === 0) while (near()) marks.pop();
    if (!near()) marks.push(value);
  }
  return svg(
    "g",
    { class: "axis" },
    marks.map((value) => [
      svg("line", { class: value === 0 ? "zero" : "grid", x1: scale(value), x2: scale(value), y1: top, y2: y }),
      svg("text", { x: scale(value), y: y + 15, "text-anchor": "middle" }, tickText(value)),
    ]),
    svg("text", { class: "label", x: width, y: y + 32, "text-anchor": "end" }, label),
  );
}

function axisY(scale, { x, right, label, count = 5, top }) {
  let last = Infinity;
  const marks = scale.ticks(count).filter((value) => {
    const keep = last - scale(value) > 13 || value === 0;
    if (keep) last = scale(value);
    return keep;
  });
  return svg(
    "g",
    { class: "axis" },
    marks.map((value) => [
      svg("line", { class: value === 0 ? "zero" : "grid", x1: x, x2: right, y1: scale(value), y2: scale(value) }),
      svg("text", { x: x - 6, y: scale(value) + 4, "text-anchor": "end" }, tickText(value)),
    ]),
    svg("text", { class: "label", x: 0, y: top - 11 }, label),
  );
}

// A figure with its caption. `draw(canvas, width)` fills the canvas and returns its height.
function chart(name, draw, ...caption) {
  const canvas = svg("svg", { role: "img", "aria-label": name });
  const node = el("figure", {}, canvas, el("figcaption", {}, ...caption));
  let drawn = 0;
  const redraw = () => {
    const width = Math.floor(node.clientWidth);
    if (!width) return;
    drawn = width;
    canvas.replaceChildren();
    const height = draw(canvas, width);
    canvas.setAttribute("width", width);
    canvas.setAttribute("height", height);
    canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
  };
  new ResizeObserver(() => {
    if (Math.floor(node.clientWidth) !== drawn) redraw();
  }).observe(node);
  node.redraw = redraw;
  node.canvas = canvas;
  return node;
}

function path(points) {
  let pen = "M";
  return points
    .map(([x, y]) => {
      if (!isNumber(y)) {
        pen = "M";
        return "";
      }
      const text = `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = "L";
      return text;
    })
    .join("");
}

function mark(side, x, y, size, attributes) {
  const shape =
    side === "help"
      ? `M${x} ${y - size}L${x + size} ${y + 0.8 * size}H${x - size}Z`
      : side === "hurt"
        ? `M${x} ${y + size}L${x + size} ${y - 0.8 * size}H${x - size}Z`
        : `M${x - size} ${y}a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0 ${-2 * size} 0Z`;
  return svg("path", { d: shape, class: `mark ${side}`, ...attributes });
}

// The fork nearest to the pointer, among [x, y, index].
function nearest(places, x, y, reach = 24) {
  let best = null;
  let least = reach * reach;
  for (const [px, py, index] of places) {
    const far = (px - x) ** 2 + (py - y) ** 2;
    if (far < least) [least, best] = [far, index];
  }
  return best;
}

function pointIn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
