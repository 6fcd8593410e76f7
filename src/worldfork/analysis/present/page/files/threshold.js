// A trigger, a threshold that can be moved, and what firing there earns. Totals, controls and p at every threshold come
// with the page (`worldfork.analysis.score.threshold_curves`); here they are looked up.

section("threshold-body", ["part", "trigger", "side"], thresholdSection, "threshold");

function thresholdSection() {
  const names = Object.keys(part().triggers);
  if (!names.length) return el("p", {}, "undefined: the ledger has no signal that a trigger could read.");
  const view = thresholdView();
  const { rows } = view;
  const [headline, figures] = [el("div", { "aria-live": "polite" }), el("dl")];
  const scale = chart("What it earns between never, always and the oracle", (canvas, width) => drawScale(canvas, width, view), "");
  const readout = el("div", { class: "panel", id: "readout" }, headline, scale, figures);
  const set = (threshold) => change({ threshold });
  const scatter = rows && view.known.length ? signalChart(view, set) : null;
  const slider = el("input", {
    type: "range",
    id: "slider",
    min: 0,
    max: rows ? rows.total.length - 1 : 0,
    step: 1,
    "aria-label": "Threshold, one value at a time",
    oninput: (event) => set(rows.threshold[event.target.value]),
  });
  const controls = el(
    "div",
    { class: "controls" },
    select("Trigger", groupedTriggers(names), state.trigger, (name) => change({ trigger: name, threshold: null })),
    scatter && button("best in hindsight", () => set(rows.threshold[rows.best]), { title: "the largest total on these very forks: a ceiling, not a rule" }),
    scatter && view.official && button("fitted, leave one out", () => set("fitted"), { id: "fitted", title: "for each checkpoint the threshold that suits the others best" }),
  );
  const refresh = () => {
    if (rows && (state.threshold === null || (state.threshold === "fitted" && !view.official)))
      state.threshold = rows.threshold[rows.start];
    Object.assign(view, lookUp(view));
    const { digits } = part();
    const each = (value) => signed(value / view.deployments, digits);
    if (scatter) {
      if (state.threshold !== "fitted") slider.value = view.row;
      slider.setAttribute("aria-valuetext", `threshold ${tidy(state.threshold)}, ${view.fires} fires, ${each(view.total)} per deployment`);
      scatter.place(view);
    }
    headline.replaceChildren(...thresholdWords(view, digits));
    scale.redraw();
    scale.querySelector("figcaption .words").textContent =
      `n = ${whole(view.forks)} forks, return per deployment: never 0, always ${each(view.always)}, oracle ${each(view.oracle)}; shaded: 95% of ${whole(view.draws)} random rules with as many fires in every cell.`;
    const p = (value) => (isNumber(value) ? chance(value) : "undefined");
    figures.replaceChildren(
      ...(scatter ? pair("threshold", tidy(state.threshold)) : []),
      ...pair("chance, mean", each(view.mean)),
      ...pair("chance, 95%", isNumber(view.low) ? `[${each(view.low)}, ${each(view.high)}]` : "undefined"),
      ...pair("p permuted", p(view.p)),
      ...pair("p shifted in time", p(view.p_shift)),
      ...(rows ? pair("n with signal", whole(view.known.length)) : []),
    );
    for (const key of LOOKED_UP) readout.dataset[key] = view[key];
    readout.dataset.threshold = state.threshold;
  };
  const absent = rows
    ? "undefined: every value of this signal is missing."
    : `${state.trigger} raises alarms: it has decided already, so there is no threshold to set.`;
  const left = scatter
    ? el("div", {}, scatter.node, el("div", { class: "slider" }, el("span", {}, "always fires"), slider, el("span", {}, "never fires")))
    : el("p", { class: "lede" }, absent);
  const node = el("div", {}, controls, el("div", { class: "two" }, left, readout));
  node.refresh = refresh;
  refresh();
  return node;
}

// References apart from the triggers that somebody would use.
function groupedTriggers(names) {
  const of = (standing) => names.filter((name) => part().triggers[name].standing === standing);
  const words = { exploratory: "not among candidates", reference: "reference" };
  return ["candidate", "exploratory", "reference"].flatMap((standing) =>
    of(standing).map((name) => [name, standing === "candidate" ? name : `${name} (${words[standing]})`]),
  );
}

function thresholdView() {
  const trigger = part().triggers[state.trigger];
  const official = trigger.official[state.side];
  const rows = trigger.rows && (trigger.rows[state.side] || trigger.rows.all_attempted);
  const scored = scoredForks();
  const valueOf = (fork) => trigger.signal[fork.index];
  const known = rows
    ? scored.map((fork) => ({ fork, value: valueOf(fork) })).filter(({ value }) => isNumber(value))
    : [];
  return { trigger, official, rows, known, missing: scored.length - known.length, ...part().policies[state.side] };
}

// The row of a threshold, or of the nearest stricter one that is on the page.
function rowOf({ rows }, threshold) {
  const row = rows.threshold.findIndex((value) => value >= threshold);
  return row < 0 ? rows.total.length - 1 : row;
}

const LOOKED_UP = ["total", "fires", "mean", "low", "high", "p", "p_shift"];

function lookUp(view) {
  const { trigger, official, rows } = view;
  if (!rows || state.threshold === "fitted") {
    const figures = official || Object.fromEntries(LOOKED_UP.map((key) => [key, null]));
    return { ...figures, draws: ledger.permutations, fired: ({ index }) => trigger.fired[state.side][index] === 1 };
  }
  const row = rowOf(view, state.threshold);
  const figures = Object.fromEntries(LOOKED_UP.map((key) => [key, rows[key][row]]));
  const fired = ({ index }) => trigger.signal[index] !== null && trigger.signal[index] >= rows.threshold[row];
  return { ...figures, row, draws: trigger.draws, fired };
}

function thresholdWords({ total, fires, forks, p, p_shift, always, oracle, deployments }, digits) {
  const fixed = always > 0 ? "always" : "never";
  const verdict =
    fires === 0
      ? "It never fires."
      : fires === forks
        ? "It always fires: chance can do nothing else."
        : p < 0.05 && p_shift < 0.05
          ? `Better than chance at this threshold, which was chosen knowing the outcomes: no finding${total < Math.max(0, always) ? `; ${fixed} updating earns more` : ""}.`
          : "No better than chance.";
  const share = oracle > 0 && total > 0 ? `, for ${plain((100 * total) / oracle, 0)}% of what the oracle earns` : "";
  const unit = `return gained per deployment of ${points()} episodes, one after each decision point`;
  const words = [el("b", {}, whole(fires ?? 0)), ` of ${whole(forks)} forks fire${share}. ${verdict}`];
  return [
    el("p", { class: "big" }, signed(total / deployments, digits), el("small", {}, unit)),
    el("p", {}, isNumber(total) ? words : "No threshold could be fitted."),
  ];
}

// Where a total lies between never, always, chance and the oracle; names that would touch stand on two lines.
function drawScale(canvas, width, view) {
  const each = (key) => (isNumber(view[key]) ? view[key] / view.deployments : view[key]);
  const [total, low, high, always, oracle] = ["total", "low", "high", "always", "oracle"].map(each);
  const x = linear(extent([0, always, oracle, total, low, high], { pad: 0.06 }), [10, width - 10]);
  let last = -Infinity;
  const names = Object.entries({ never: 0, always, oracle })
    .sort(([, one], [, other]) => one - other)
    .map(([name, value]) => {
      const above = x(value) - last > 54;
      if (above) last = x(value);
      return [
        line("tick", x(value), above ? 16 : 29, x(value), above ? 29 : 44),
        label("small", Math.max(24, Math.min(width - 24, x(value))), above ? 11 : 56, "middle", name),
      ];
    });
  const band = isNumber(low) && { x: x(low), width: Math.max(2, x(high) - x(low)), y: 24, height: 10 };
  add(
    canvas,
    line("track", 10, 29, width - 10, 29),
    band && svg("rect", { class: "band", ...band }),
    names,
    isNumber(total) && dot("mean first", x(total), 29, 6),
  );
  return 62;
}

const points = () => part().forks.reduce((most, fork) => Math.max(most, fork.k), 1);
const tidy = (value) =>
  value === "fitted" ? "of each checkpoint" : value === Infinity ? "∞" : value === -Infinity ? "−∞" : minus(String(Number(value.toPrecision(6))));

// dR against the signal with the threshold to drag; below it the total at every threshold.
function signalChart(view, set) {
  const { trigger, rows, known, missing, deployments } = view;
  const crowded = known.length > CROWD;
  const each = Object.fromEntries(
    ["total", "low", "mean", "high"].map((key) => [key, Array.from(rows[key], (value) => value / deployments)]),
  );
  const values = known.map(({ value }) => value);
  const [least, most] = extent(values, { pad: 0 });
  const [height, from, to] = [300, 346, 476];
  // In two pieces: a whole line would strike the words between the charts.
  const thresholdLine = (at) => [line("threshold", at, 30, at, height), line("threshold", at, from, at, to)];
  let [marks, x, edge, movable, fitted, last] = [[], null, 0, null, null, null];
  const node = chart(
    `dR against ${state.trigger}`,
    (canvas, width) => {
      const [left, right] = [GUTTER, width - 12];
      edge = right + 4;
      const wide = least > 0 && most > 20 * least;
      x = wide ? logarithmic([least, most], [left + 6, right - 6]) : linear(extent(values), [left + 6, right - 6]);
      const y = linear(extent(known.map(({ fork }) => fork.delta), { zero: true }), [height, 40]);
      const sums = linear(extent([...each.total, ...each.low, ...each.high], { zero: true }), [to, from]);
      const corner = (row) => (row === 0 ? left : row >= rows.total.length - 1 ? right : x(rows.threshold[row]));
      const step = (value, row) => [[corner(row), sums(value)], [corner(row + 1), sums(value)]];
      const stairs = (column) => column.flatMap(step).slice(0, -1);
      const shape = ({ fork, value }) =>
        mark(sideOf(fork), x(value), y(fork.delta), 4.6, { "data-fork": fork.index });
      marks = crowded ? [] : known.map((one) => [shape(one), one.fork]);
      const squares = crowded ? crowd(known.map(({ fork, value }) => [x(value), y(fork.delta), sideOf(fork)])) : [];
      fitted = svg("g", { class: "fitted" }, trigger.fitted[state.side].map((value) => thresholdLine(x(value))));
      movable = svg("g", {}, thresholdLine(0), svg("circle", { class: "handle", r: 8, cy: 30, "data-handle": true }));
      add(
        canvas,
        axisY(y, { x: left, right, top: 18, words: "dR, return per episode" }),
        squares,
        marks.map(([shape]) => shape),
        axisY(sums, { x: left, right, top: from, words: "return gained per deployment, at every threshold", count: 4 }),
        svg("path", { class: "band", d: path([...stairs(each.high), ...stairs(each.low).reverse()]) + "Z" }),
        svg("path", { class: "chance", d: path(stairs(each.mean)) }),
        svg("path", { class: "total", d: path(stairs(each.total)) }),
        axisX(x, {
          y: to,
          words: `${state.trigger}${wide ? ", log axis" : ""} →  fires to the right of the line`,
          count: width < 500 ? 3 : 6,
          width: right,
        }),
        fitted,
        movable,
      );
      if (last) place(last);
      return to + 40;
    },
    `n = ${whole(known.length)} forks with the signal${missing ? `; ${whole(missing)} without it never fire` : ""}; ▲ helped, ▼ hurt, filled where the trigger fires. Below: what the rule earns (line), and chance with as many fires in every cell (dashed mean, 95% band)${rows.total.length < rows.of ? `, at ${whole(rows.total.length)} of ${whole(rows.of)} thresholds` : ""}.`,
    () => [
      ["threshold", "total", "fires", "chance mean", "chance low", "chance high", "p", "p shifted"],
      ...Array.from(rows.total, (_, row) => [rows.threshold[row], ...LOOKED_UP.map((key) => rows[key][row])]),
    ],
  );
  const place = (view) => {
    last = view;
    if (!x) return;
    for (const [shape, fork] of marks) shape.classList.toggle("fired", view.fired(fork));
    const many = state.threshold === "fitted";
    fitted.style.display = many ? "" : "none";
    movable.style.display = many ? "none" : "";
    const spot = many ? 0 : Math.max(48, Math.min(edge, x(state.threshold)));
    movable.setAttribute("transform", `translate(${spot} 0)`);
  };
  const drag = (event) => set(rows.threshold[rowOf({ rows }, x.invert(pointIn(node.canvas, event)[0]))]);
  node.canvas.classList.add("draggable");
  node.canvas.addEventListener("pointerdown", (event) => {
    node.canvas.setPointerCapture(event.pointerId);
    node.dragging = true;
    hush();
    drag(event);
  });
  node.canvas.addEventListener("pointermove", (event) => {
    const index = event.target.dataset.fork;
    if (node.dragging) drag(event);
    else if (index)
      tell(event, [...forkLines(part().forks[index]), `${state.trigger} ${brief(trigger.signal[index])}`]);
    else hush();
  });
  for (const end of ["pointerup", "pointercancel"])
    node.canvas.addEventListener(end, () => (node.dragging = false));
  node.canvas.addEventListener("pointerleave", hush);
  return { node, place };
}
