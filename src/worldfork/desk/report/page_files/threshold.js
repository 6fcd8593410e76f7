// A trigger, a threshold that can be dragged, and what firing there earns.

function thresholdSection() {
  const current = part();
  const names = Object.keys(current.triggers);
  if (!names.length) return el("p", {}, "undefined: the ledger has no signal that a trigger could read.");
  const trigger = current.triggers[state.trigger];
  const side = state.side;
  const scored = scoredForks(current, side);
  const figures = current.figures[side === "retained" ? "triggers" : "triggers_all_attempted"][state.trigger];
  const known = trigger.signal ? scored.filter(({ index }) => isNumber(trigger.signal[index])) : [];
  const values = [...new Set(known.map(({ index }) => trigger.signal[index]))].sort((a, b) => a - b);
  const fitted = trigger.signal && trigger.thresholds[side];
  const view = { current, trigger, side, scored, known, values, fitted, figures };

  const [said, more] = [el("div", { "aria-live": "polite" }), el("div", {})];
  const scatter = trigger.signal && values.length ? signalChart(view, (value) => set(value)) : null;
  const slider = el("input", { type: "range", id: "slider", min: 0, max: values.length, step: 1, "aria-label": "Threshold, one fork at a time", oninput: (event) => set(cut(values, Number(event.target.value))) });
  const box = el("input", { type: "text", id: "threshold-value", inputmode: "text", size: 12, "aria-label": "Threshold value", onchange: (event) => { const value = readThreshold(event.target.value); if (value !== null && value !== "fitted") set(value); } });
  const drawn = chart("What chance earns", (canvas, width) => drawNull(canvas, width, view), "");
  const readout = el("div", { class: "panel", id: "readout" }, said, drawn, more);
  const set = (value) => { change({ threshold: value }); };
  const refresh = () => {
    if (trigger.signal && (state.threshold === null || (state.threshold === "fitted" && !fitted))) state.threshold = firstThreshold(view);
    const fired = firedFlags(view);
    view.total = scored.reduce((sum, { one, index }) => sum + (fired[index] ? one.delta : 0), 0);
    view.fires = scored.filter(({ index }) => fired[index]).length;
    view.chance = control(state.part, side, fired);
    view.judged = judge(view.total, view.chance.permuted);
    view.shifted = judge(view.total, view.chance.shifted);
    if (trigger.signal && state.threshold !== "fitted") {
      box.value = tidy(state.threshold);
      slider.value = values.filter((value) => value < state.threshold).length;
      slider.setAttribute("aria-valuetext", `threshold ${tidy(state.threshold)}, ${view.fires} fires, total ${signed(view.total, current.digits)}`);
    } else box.value = "";
    if (scatter) scatter.update(fired);
    drawn.redraw();
    drawn.querySelector("figcaption").textContent = `${view.chance.draws.toLocaleString("en-US")} random rules with ${view.fires} fires on n = ${scored.length} forks, as many in every cell as this one; return summed over fired forks.`;
    said.replaceChildren(...headline(view));
    more.replaceChildren(...readouts(view));
    Object.assign(readout.dataset, { total: view.total, fires: view.fires, threshold: String(state.threshold), p: view.judged.p, shifted: view.shifted.p, mean: view.judged.mean });
  };
  const controls = el("div", { class: "controls" },
    select("Trigger", names.map((name) => [name, name + (current.triggers[name].reference ? " (reference)" : "")]), state.trigger, (name) => change({ trigger: name, threshold: null })),
    select("Scored on", [["retained", "retained forks"], ["all_attempted", "all attempted forks"]], side, (name) => change({ side: name, threshold: null })),
    trigger.signal ? [
      el("label", { class: "select" }, el("span", {}, "Threshold"), box),
      el("button", { type: "button", onclick: () => set(-Infinity) }, "always"),
      el("button", { type: "button", onclick: () => set(Infinity) }, "never"),
      el("button", { type: "button", onclick: () => set(bestInHindsight(view)), title: "the threshold with the largest total on these very forks: a ceiling, not a rule" }, "best in hindsight"),
      fitted ? el("button", { type: "button", id: "fitted", onclick: () => set("fitted"), title: "for each checkpoint the threshold that suits the others best" }, "fitted, leave one out") : null,
    ] : null);
  const left = trigger.signal
    ? (values.length ? el("div", {}, scatter.node, el("div", { class: "slider" }, slider)) : el("p", {}, "undefined: every value of this signal is missing."))
    : el("p", { class: "lede" }, `${state.trigger} raises alarms: it has decided already, so there is no threshold to set.`);
  const node = el("div", {}, controls, el("div", { class: "two" }, left, readout));
  node.refresh = refresh;
  refresh();
  return node;
}

function firstThreshold({ fitted, values }) {
  const finite = fitted ? Object.values(fitted).filter(isNumber).sort((a, b) => a - b) : [];
  return finite.length ? finite[Math.floor((finite.length - 1) / 2)] : cut(values, Math.floor(values.length / 2));
}

// The threshold below which exactly `index` distinct values lie: the candidates that scoring fits among.
function cut(values, index) {
  if (index <= 0) return -Infinity;
  if (index >= values.length) return Infinity;
  const middle = values[index - 1] + (values[index] - values[index - 1]) / 2;
  return values[index - 1] < middle ? middle : values[index];
}

const tidy = (value) => (value === Infinity ? "∞" : value === -Infinity ? "−∞" : minus(String(Number(value.toPrecision(6)))));

function firedFlags({ current, trigger, fitted }) {
  if (!trigger.signal) return trigger.fired;
  if (state.threshold !== "fitted") return trigger.signal.map((value) => isNumber(value) && value >= state.threshold);
  return trigger.signal.map((value, index) => {
    const threshold = fitted[current.cells[current.forks[index].cell].checkpoint];
    return isNumber(value) && threshold !== undefined && value >= (typeof threshold === "string" ? readThreshold(threshold) : threshold);
  });
}

// Total at every candidate threshold, with what chance would earn there.
function totals({ known, values, trigger, side }) {
  const { cells } = randomOrders(state.part, side);
  const owner = new Map(cells.flatMap((cell, index) => cell.forks.map((place) => [place, index])));
  const order = [...known].sort((a, b) => trigger.signal[b.index] - trigger.signal[a.index]);
  const fires = cells.map(() => 0);
  const found = [{ index: values.length, total: 0, mean: 0, deviation: 0 }];
  let [total, place] = [0, 0];
  for (let index = values.length - 1; index >= 0; index--) {
    for (; place < order.length && trigger.signal[order[place].index] === values[index]; place++) {
      total += order[place].one.delta;
      fires[owner.get(order[place].index)]++;
    }
    const [mean, deviation] = expectation(cells, fires);
    found.push({ index, total, mean, deviation });
  }
  return found.reverse();
}

function bestInHindsight(view) {
  const best = totals(view).reduce((a, b) => (b.total > a.total + 1e-9 * Math.max(1, Math.abs(a.total)) ? b : a));
  return cut(view.values, best.index);
}

function signalChart(view, set) {
  const { current, trigger, known, values, scored, fitted } = view;
  const missing = scored.length - known.length;
  let line, handle, thresholds, x, edge, marks = [];
  const curve = totals(view);
  const height = 300;
  const node = chart(`dR against ${state.trigger}`, (canvas, width) => {
    const [left, right] = [52, width - 12];
    edge = right;
    x = bentOrNot(values, [left + 6, right - 6], { zero: false, spread: 4 });
    const y = bentOrNot(known.map(({ one }) => one.delta), [height, 40]);
    add(canvas, axisY(y, { x: left, right, top: 18, label: `dR, return per episode${y.bent ? ` (linear within ±${y.bent})` : ""}`, count: 5 }));
    marks = known.map(({ one, index }) => {
      const shape = mark(sideOf(one), x(trigger.signal[index]), y(one.delta), 4.6, { "data-fork": index });
      add(canvas, shape);
      return [shape, index];
    });
    const [from, to] = [height + 40, height + 170];
    const sums = linear(extent(curve.flatMap((one) => [one.total, one.mean - 2 * one.deviation, one.mean + 2 * one.deviation]), { zero: true }), [to, from]);
    const at = (index) => (index >= values.length ? right : index <= 0 ? left : x(cut(values, index)));
    const stairs = (value) => curve.flatMap((one) => [[at(one.index), value(one)], [at(one.index + 1), value(one)]]).slice(0, -1);
    const band = [...stairs((one) => sums(one.mean + 1.96 * one.deviation)), ...stairs((one) => sums(one.mean - 1.96 * one.deviation)).reverse()];
    add(canvas, axisY(sums, { x: left, right, top: from, label: "policy total (return, summed over fired forks)", count: 4 }),
      svg("path", { class: "band", d: path(band) + "Z" }), svg("path", { class: "chance", d: path(stairs((one) => sums(one.mean))) }),
      svg("path", { class: "total", d: path(stairs((one) => sums(one.total))) }),
      axisX(x, { y: to, top: to, label: `${state.trigger}${x.bent ? ` (linear within ±${tickText(x.bent)})` : ""} →  fires to the right of the line`, count: width < 500 ? 3 : 6, width: right }));
    thresholds = svg("g", { class: "fitted" });
    line = svg("line", { class: "threshold", y1: 30, y2: to });
    handle = svg("circle", { class: "handle", r: 8, cy: 30, "data-handle": true });
    add(canvas, thresholds, line, handle);
    if (node.lastFired) place(node.lastFired);
    return to + 40;
  }, `n = ${known.length} forks with the signal${missing ? `; ${missing} without it never fire` : ""}; ▲ helped, ▼ hurt, filled where the trigger fires. Below: the policy's total (line) and chance with as many fires in every cell (dashed mean, 95% band).`);
  const place = (fired) => {
    node.lastFired = fired;
    if (!x) return;
    for (const [shape, index] of marks) shape.classList.toggle("fired", Boolean(fired[index]));
    const at = (value) => Math.max(48, Math.min(edge + 4, value === Infinity ? 1e9 : value === -Infinity ? -1e9 : x(value)));
    const many = state.threshold === "fitted";
    for (const one of [line, handle]) one.style.display = many ? "none" : "";
    thresholds.replaceChildren(...(many ? Object.entries(fitted).map(([checkpoint, value]) => {
      const spot = at(typeof value === "string" ? readThreshold(value) : value);
      return svg("line", { class: "threshold", x1: spot, x2: spot, y1: 30, y2: height + 170 }, svg("title", {}, `checkpoint ${checkpoint}`));
    }) : []));
    if (many) return;
    const spot = at(state.threshold);
    line.setAttribute("x1", spot);
    line.setAttribute("x2", spot);
    handle.setAttribute("cx", spot);
  };
  const drag = (event) => set(x.invert(pointIn(node.canvas, event)[0]));
  node.canvas.classList.add("draggable");
  node.canvas.addEventListener("pointerdown", (event) => { node.canvas.setPointerCapture(event.pointerId); node.dragging = true; hush(); drag(event); });
  node.canvas.addEventListener("pointermove", (event) => {
    if (node.dragging) drag(event);
    else if (event.target.dataset.fork) tell(event, [...forkLines(current.forks[event.target.dataset.fork], current), `${state.trigger} ${brief(trigger.signal[event.target.dataset.fork])}`]);
    else hush();
  });
  for (const end of ["pointerup", "pointercancel"]) node.canvas.addEventListener(end, () => { node.dragging = false; });
  node.canvas.addEventListener("pointerleave", hush);
  return { node, update: place };
}

function headline({ current, scored, total, fires, judged, shifted, side }) {
  const digits = Math.max(0, current.digits - 1);
  const verdict = fires === 0 ? "It never fires." : fires === scored.length ? "It always fires: chance can do nothing else." : judged.p < 0.05 && shifted.p < 0.05 ? "Better than chance at this threshold, before any correction for looking." : "No better than chance.";
  return [
    el("p", { class: "big" }, signed(total, digits), el("small", {}, "policy total: return summed over fired forks")),
    el("p", {}, el("b", {}, fires), ` of ${scored.length} ${side === "retained" ? "retained" : "attempted"} forks fire. `, verdict),
  ];
}

function readouts({ current, trigger, figures, scored, known, total, judged, shifted, side }) {
  const digits = Math.max(0, current.digits - 1);
  const { always, oracle } = current.figures[side === "retained" ? "policies" : "policies_all_attempted"];
  return [
    scaleOfPolicies(total, judged, always, oracle, digits, scored.length),
    el("dl", {}, pair("chance, mean", signed(judged.mean, digits)), pair("chance, 95%", span(judged.interval, digits)),
      pair("p permuted", chance(judged.p)), pair("p shifted in time", chance(shifted.p)),
      pair("AUC (ranking)", [shown(figures.auc, chance(figures.auc)), Array.isArray(figures.auc_interval) ? ` [${figures.auc_interval.map(chance).join(", ")}] ${figures.auc_interval_kind}` : ""]),
      trigger.signal ? pair("n with signal", known.length) : null),
    el("p", { class: "small", id: "official" }, el("b", {}, "worldfork score"), ", thresholds fitted leave-one-checkpoint-out: ",
      isNumber(figures.policy_total) ? `total ${signed(figures.policy_total, digits)}, ${figures.fires} fires, chance ${signed(figures.random.mean, digits)} ${span(figures.random.interval, digits)}, p ${chance(figures.random.p)}, shifted ${chance(figures.random_shift.p)}: ${figures.passes_control ? "passes" : "does not pass"} its control.`
        : [shown(figures.policy_total, ""), ` (${whyNot(figures.policy_total)}).`]),
  ];
}

// Where a total lies between never, always, chance and the oracle.
function scaleOfPolicies(total, judged, always, oracle, digits, forks) {
  return chart("The total between never, always and the oracle", (canvas, width) => {
    const x = linear(extent([0, always, oracle, total, ...judged.interval], { pad: 0.06 }), [10, width - 10]);
    const name = (value, label, row) => [svg("line", { class: "tick", x1: x(value), x2: x(value), y1: 22, y2: row ? 44 : 16 }),
      svg("text", { class: "small", x: Math.max(24, Math.min(width - 24, x(value))), y: row ? 56 : 11, "text-anchor": "middle" }, label)];
    add(canvas, svg("line", { class: "track", x1: 10, x2: width - 10, y1: 29, y2: 29 }),
      svg("rect", { class: "band", x: x(judged.interval[0]), width: Math.max(2, x(judged.interval[1]) - x(judged.interval[0])), y: 24, height: 10 }),
      name(0, "never", 0), name(always, "always", 1), name(oracle, "oracle", 0), svg("circle", { class: "mean first", cx: x(total), cy: 29, r: 6 }));
    return 62;
  }, `n = ${forks} forks: never 0, always ${signed(always, digits)}, oracle ${signed(oracle, digits)}; shaded: chance, 95%.`);
}

function drawNull(canvas, width, { chance: drawn, total, judged, current }) {
  if (!drawn) return 0;
  const [left, right, top, bottom] = [10, width - 10, 22, 130];
  const low = Math.min(total, ...judged.interval, drawn.permuted.reduce((a, b) => Math.min(a, b)));
  const high = Math.max(total, ...judged.interval, drawn.permuted.reduce((a, b) => Math.max(a, b)));
  const x = linear(extent([low, high], { pad: 0.04 }), [left, right]);
  const count = Math.max(20, Math.min(60, Math.floor(width / 8)));
  const bins = new Array(count).fill(0);
  for (const value of drawn.permuted) bins[Math.min(count - 1, Math.floor(((value - x.domain[0]) / (x.domain[1] - x.domain[0])) * count))]++;
  const most = Math.max(...bins);
  const wide = (right - left) / count;
  bins.forEach((number, index) => {
    const middle = x.invert(left + (index + 0.5) * wide);
    const inside = middle >= judged.interval[0] && middle <= judged.interval[1];
    if (number) add(canvas, svg("rect", { class: inside ? "null inside" : "null", x: left + index * wide + 0.5, width: Math.max(1, wide - 1), y: bottom - (number / most) * (bottom - top), height: (number / most) * (bottom - top) }));
  });
  add(canvas, axisX(x, { y: bottom, top: bottom, label: "", count: 4, width: right }),
    svg("line", { class: "observed", x1: x(total), x2: x(total), y1: top - 6, y2: bottom }),
    svg("text", { class: "strong", x: Math.max(60, Math.min(width - 60, x(total))), y: 12, "text-anchor": "middle" }, `this rule ${signed(total, Math.max(0, current.digits - 1))}`));
  return bottom + 22;
}
