// One fork's row: the paired episodes of both branches, what the update did, and what was not finite.

function forkPanel(current, one) {
  const digits = current.digits;
  const side = sideOf(one);
  const paired = one.hold && one.update;
  const better = paired
    ? one.hold.filter((hold, index) => isNumber(hold) && isNumber(one.update[index]) && one.update[index] > hold)
        .length
    : 0;
  return el(
    "aside",
    {
      class: "panel fork-panel",
      id: "fork",
      "aria-live": "polite",
      "data-k": one.k,
      "data-delta": isScored(one) ? one.delta : "undefined",
    },
    el("h3", {}, `Fork ${one.k}`, el("small", {}, cellName(current.cells[one.cell]))),
    el(
      "p",
      { class: `big ${side}` },
      isScored(one) ? [GLYPH[side], " ", signed(one.delta, digits)] : "undefined",
      el("small", {}, isScored(one) ? "dR, return per episode" : "dR: an episode's return is not finite"),
    ),
    one.diverged
      ? el("p", { class: "warning" }, "Diverged: counted among all attempted forks, left out of the retained ones.")
      : null,
    paired
      ? slopes(one, better)
      : el("p", { class: "small" }, "Episode returns: undefined, the table holds the means alone."),
    el(
      "dl",
      {},
      pair("HOLD", plain(one.r_hold, digits)),
      pair("UPDATE", plain(one.r_update, digits)),
      pair("drift level", isNumber(one.level) ? brief(one.level) : "undefined"),
      one.step ? pair("control step", one.step.toLocaleString("en-US")) : null,
      isNumber(one.env_step) ? pair("environment step", one.env_step.toLocaleString("en-US")) : null,
    ),
    one.fit ? fitTable(one) : null,
    signalTable(current, one),
    paired ? episodeTable(one) : null,
    one.digest ? el("p", { class: "small digest" }, "row ", el("code", {}, one.digest.slice(0, 24)), "…") : null,
  );
}

const pair = (name, value) => [el("dt", {}, name), el("dd", {}, value)];

function fitTable(one) {
  const { fit } = one;
  const number = (value) =>
    isNumber(value) ? brief(value) : el("span", { class: "undefined", title: "not finite" }, "not finite");
  const counts = Object.entries(one.counts);
  const clean = fit.non_finite === 0 && counts.every(([, count]) => count.hold === 0 && count.update === 0);
  return [
    el("h4", {}, "What the update did"),
    el(
      "dl",
      {},
      pair("loss", [number(fit.loss_before), " → ", number(fit.loss_after)]),
      pair("gradient norm, last step", number(fit.grad_norm)),
      pair("parameter shift", number(fit.param_shift)),
      pair("window", `${fit.window.toLocaleString("en-US")} transitions`),
    ),
    clean
      ? el("p", { class: "small" }, "Nothing was non-finite or unstable: parameters, actions, returns, episodes.")
      : el(
          "table",
          { class: "counts" },
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              ["", "HOLD", "UPDATE"].map((head) => el("th", {}, head)),
            ),
          ),
          el(
            "tbody",
            {},
            el("tr", {}, el("th", {}, "non-finite parameters"), el("td", {}, "–"), el("td", {}, fit.non_finite)),
            counts.map(([name, count]) =>
              el("tr", {}, el("th", {}, name), el("td", {}, count.hold), el("td", {}, count.update)),
            ),
          ),
        ),
  ];
}

function signalTable(current, one) {
  const index = current.forks.indexOf(one);
  const rows = Object.entries(current.triggers).map(([name, trigger]) =>
    el(
      "tr",
      {},
      el("th", {}, name),
      el(
        "td",
        {},
        trigger.signal
          ? isNumber(trigger.signal[index])
            ? brief(trigger.signal[index])
            : shown({ why: "the signal is missing at this fork: it never fires" }, "")
          : trigger.fired[index]
            ? "alarm"
            : "no alarm",
      ),
    ),
  );
  return el(
    "details",
    {},
    el("summary", {}, `Signals before the fork (${rows.length})`),
    el("table", {}, el("tbody", {}, rows)),
  );
}

function episodeTable(one) {
  const rows = one.hold.map((hold, index) =>
    el(
      "tr",
      {},
      el("th", {}, index + 1),
      el("td", {}, shown(hold, brief(hold))),
      el("td", {}, shown(one.update[index], brief(one.update[index]))),
      el(
        "td",
        {},
        isNumber(hold) && isNumber(one.update[index]) ? signed(one.update[index] - hold, 2) : "undefined",
      ),
    ),
  );
  return el(
    "details",
    {},
    el("summary", {}, `Episode returns (m = ${rows.length} pairs)`),
    el(
      "table",
      { id: "episodes" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ["episode", "HOLD", "UPDATE", "difference"].map((head) => el("th", {}, head)),
        ),
      ),
      el("tbody", {}, rows),
    ),
  );
}

// The same episode in both branches, joined: lines that rise are episodes that the update made better.
function slopes(one, better) {
  return chart(
    "Paired episode returns",
    (canvas, width) => {
      const [left, right, top, bottom] = [58, width - 58, 22, 168];
      const y = linear(extent([...one.hold, ...one.update]), [bottom, top]);
      add(
        canvas,
        axisY(y, { x: 44, right: width - 44, top, label: "", count: 4 }),
        svg("text", { class: "strong", x: left, y: 12, "text-anchor": "middle" }, "HOLD"),
        svg("text", { class: "strong", x: right, y: 12, "text-anchor": "middle" }, "UPDATE"),
      );
      one.hold.forEach((hold, index) => {
        const update = one.update[index];
        if (!isNumber(hold) || !isNumber(update)) return;
        add(
          canvas,
          svg("line", {
            class: `pair ${update > hold ? "help" : update < hold ? "hurt" : "even"}`,
            x1: left,
            x2: right,
            y1: y(hold),
            y2: y(update),
          }),
        );
      });
      if (isNumber(one.r_hold) && isNumber(one.r_update)) {
        add(
          canvas,
          svg("line", { class: "pair-mean", x1: left, x2: right, y1: y(one.r_hold), y2: y(one.r_update) }),
          svg("circle", { class: "mean first", cx: left, cy: y(one.r_hold), r: 4 }),
          svg("circle", { class: "mean first", cx: right, cy: y(one.r_update), r: 4 }),
        );
      }
      return bottom + 12;
    },
    `m = ${one.hold.length} paired episodes, return per episode; UPDATE is better in ${better}. Thick: the means.`,
  );
}
