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
  const slider = el("input", {
    type: "range",
    id: "slider",
    min: 0,
    max: values.length,
    step: 1,
    "aria-label": "Threshold, one fork at a time",
    oninput: (event) => set(cut(values, Number(event.target.value))),
  });
  const box = el("input", {
    type: "text",
    id: "threshold-value",
    inputmode: "text",
    size: 12,
    placeholder: "per checkpoint",
    "aria-label": "Threshold value",
    onchange: (event) => {
      const value = readThreshold(event.target.value);
      if (value !== null && value !== "fitted") set(value);
    },
  });
  const drawn = chart("What chance earns", (canvas, width) => drawNull(canvas, width, view), "");
  const readout = el("div", { class: "panel", id: "readout" }, said, drawn, more);
  const set = (value) => {
    change({ threshold: value });
  };
  const refresh = () => {
    if (trigger.signal && (state.threshold === null || (state.threshold === "fitted" && !fitted)))
      state.threshold = firstThreshold(view);
    const fired = firedFlags(view);
    view.total = scored.reduce((sum, { one, index }) => sum + (fired[index] ? one.delta : 0), 0);
    view.fires = scored.filter(({ index }) => fired[index]).length;
    view.chance = control(state.part, side, fired);
    view.judged = judge(view.total, view.chance.permuted);
    view.shifted = judge(view.total, view.chance.shifted);
    if (trigger.signal && state.threshold !== "fitted") {
      box.value = tidy(state.threshold);
      slider.value = values.filter((value) => value < state.threshold).length;
      slider.setAttribute(
        "aria-valuetext",
        `threshold ${tidy(state.threshold)}, ${view.fires} fires, total ${signed(view.total, current.digits)}`,
      );
    } else box.value = "";
    if (scatter) scatter.update(fired);
    drawn.redraw();
    drawn.querySelector("figcaption").textContent =
      `${view.chance.draws.toLocaleString("en-US")} random rules with ${view.fires} fires on n = ${scored.length} forks, as many in every cell as this one; return summed over fired forks.`;
    said.replaceChildren(...headline(view));
    more.replaceChildren(...readouts(view));
    Object.assign(readout.dataset, {
      total: view.total,
      fires: view.fires,
      threshold: String(state.threshold),
      p: view.judged.p,
      shifted: view.shifted.p,
      mean: view.judged.mean,
    });
  };
  const controls = el(
    "div",
    { class: "controls" },
    select(
      "Trigger",
      names.map((name) => [name, name + (current.triggers[name].reference ? " (reference)" : "")]),
      state.trigger,
      (name) => change({ trigger: name, threshold: null }),
    ),
    select(
      "Scored on",
      [
        ["retained", "retained forks"],
        ["all_attempted", "all attempted forks"],
      ],
      side,
      (name) => change({ side: name, threshold: null }),
    ),
    trigger.signal
      ? [
          el("label", { class: "select" }, el("span", {}, "Threshold"), box),
          el("button", { type: "button", onclick: () => set(-Infinity) }, "always"),
          el("button", { type: "button", onclick: () => set(Infinity) }, "never"),
          el(
            "button",
            {
              type: "button",
              onclick: () => set(bestInHindsight(view)),
              title: "the threshold with the largest total on these very forks: a ceiling, not a rule",
            },
            "best in hindsight",
          ),
          fitted
            ? el(
                "button",
                {
                  type: "button",
                  id: "fitted",
                  onclick: () => set("fitted"),
                  title: "for each checkpoint the threshold that suits the others best",
                },
                "fitted, leave one out",
              )
            : null,
        ]
      : null,
  );
  const left = trigger.signal
    ? values.length
      ? el("div", {}, scatter.node, el("div", { class: "slider" }, slider))
      : el("p", {}, "undefined: every value of this signal is missing.")
    : el(
        "p",
        { class: "lede" },
        `${state.trigger} raises alarms: it has decided already, so there is no threshold to set.`,
      );
  const node = el("div", {}, controls, el("div", { class: "two" }, left, readout));
  node.refresh = refresh;
  refresh();
  return node;
}

function firstThreshold({ fitted, values }) {
  const finite = fitted
    ? Object.values(fitted)
        .filter(isNumber)
        .sort((a, b) => a - b)
    : [];
  return finite.length ? finite[Math.floor((finite.length - 1) / 2)] : cut(values, Math.floor(values.length / 2));
}

// The threshold below which exactly `index` distinct values lie: the candidates that scoring fits among.
function cut(values, index) {
  if (index <= 0) return -Infinity;
  if (index >= values.length) return Infinity;
  const middle = values[index - 1] + (values[index] - values[index - 1]) / 2;
  return values[index - 1] < middle ? middle : values[index];
}

const tidy = (value) =>
  value === Infinity ? "∞" : value === -Infinity ? "−∞" : minus(String(Number(value.toPrecision(6))));

function firedFlags({ current, trigger, fitted }) {
  if (!trigger.signal) return trigger.fired;
  if (state.threshold !== "fitted")
    return trigger.signal.map((value) => isNumber(value) && value >= state.threshold);
  return trigger.signal.map((value, index) => {
    const threshold = fitted[current.cells[current.forks[index].cell].checkpoint];
    return (
      isNumber(value) &&
      threshold !== undefined &&
      value >= (typeof threshold === "string" ? readThreshold(threshold) : threshold)
    );
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
