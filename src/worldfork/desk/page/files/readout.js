// What the chosen threshold earns, in words and beside chance.

function headline({ current, scored, total, fires, judged, shifted, side }) {
  const digits = Math.max(0, current.digits - 1);
  const verdict =
    fires === 0
      ? "It never fires."
      : fires === scored.length
        ? "It always fires: chance can do nothing else."
        : judged.p < 0.05 && shifted.p < 0.05
          ? "Better than chance at this threshold, before any correction for looking."
          : "No better than chance.";
  return [
    el(
      "p",
      { class: "big" },
      signed(total, digits),
      el("small", {}, "policy total: return summed over fired forks"),
    ),
    el(
      "p",
      {},
      el("b", {}, fires),
      ` of ${scored.length} ${side === "retained" ? "retained" : "attempted"} forks fire. `,
      verdict,
    ),
  ];
}

function readouts({ current, trigger, figures, scored, known, total, judged, shifted, side }) {
  const digits = Math.max(0, current.digits - 1);
  const { always, oracle } = current.figures[side === "retained" ? "policies" : "policies_all_attempted"];
  return [
    scaleOfPolicies(total, judged, always, oracle, digits, scored.length),
    el(
      "dl",
      {},
      pair("chance, mean", signed(judged.mean, digits)),
      pair("chance, 95%", span(judged.interval, digits)),
      pair("p permuted", chance(judged.p)),
      pair("p shifted in time", chance(shifted.p)),
      pair("AUC (ranking)", [
        shown(figures.auc, chance(figures.auc)),
        Array.isArray(figures.auc_interval)
          ? ` [${figures.auc_interval.map(chance).join(", ")}] ${figures.auc_interval_kind}`
          : "",
      ]),
      trigger.signal ? pair("n with signal", known.length) : null,
    ),
    el(
      "p",
      { class: "small", id: "official" },
      el("b", {}, "worldfork score"),
      ", thresholds fitted leave-one-checkpoint-out: ",
      isNumber(figures.policy_total)
        ? `total ${signed(figures.policy_total, digits)}, ${figures.fires} fires, chance ${signed(figures.random.mean, digits)} ${span(figures.random.interval, digits)}, p ${chance(figures.random.p)}, shifted ${chance(figures.random_shift.p)}: ${figures.passes_control ? "passes" : "does not pass"} its control.`
        : [shown(figures.policy_total, ""), ` (${whyNot(figures.policy_total)}).`],
    ),
  ];
}

// Where a total lies between never, always, chance and the oracle.
function scaleOfPolicies(total, judged, always, oracle, digits, forks) {
  return chart(
    "The total between never, always and the oracle",
    (canvas, width) => {
      const x = linear(extent([0, always, oracle, total, ...judged.interval], { pad: 0.06 }), [10, width - 10]);
      const name = (value, label, row) => [
        svg("line", { class: "tick", x1: x(value), x2: x(value), y1: 22, y2: row ? 44 : 16 }),
        svg(
          "text",
          {
            class: "small",
            x: Math.max(24, Math.min(width - 24, x(value))),
            y: row ? 56 : 11,
            "text-anchor": "middle",
          },
          label,
        ),
      ];
      add(
        canvas,
        svg("line", { class: "track", x1: 10, x2: width - 10, y1: 29, y2: 29 }),
        svg("rect", {
          class: "band",
          x: x(judged.interval[0]),
          width: Math.max(2, x(judged.interval[1]) - x(judged.interval[0])),
          y: 24,
          height: 10,
        }),
        name(0, "never", 0),
        name(always, "always", 1),
        name(oracle, "oracle", 0),
        svg("circle", { class: "mean first", cx: x(total), cy: 29, r: 6 }),
      );
      return 62;
    },
    `n = ${forks} forks: never 0, always ${signed(always, digits)}, oracle ${signed(oracle, digits)}; shaded: chance, 95%.`,
  );
}

function drawNull(canvas, width, { chance: drawn, total, judged, current }) {
  if (!drawn) return 0;
  const [left, right, top, bottom] = [10, width - 10, 22, 130];
  const low = Math.min(
    total,
    ...judged.interval,
    drawn.permuted.reduce((a, b) => Math.min(a, b)),
  );
  const high = Math.max(
    total,
    ...judged.interval,
    drawn.permuted.reduce((a, b) => Math.max(a, b)),
  );
  const x = linear(extent([low, high], { pad: 0.04 }), [left, right]);
  const count = Math.max(20, Math.min(60, Math.floor(width / 8)));
  const bins = new Array(count).fill(0);
  for (const value of drawn.permuted)
    bins[Math.min(count - 1, Math.floor(((value - x.domain[0]) / (x.domain[1] - x.domain[0])) * count))]++;
  const most = Math.max(...bins);
  const wide = (right - left) / count;
  bins.forEach((number, index) => {
    const middle = x.invert(left + (index + 0.5) * wide);
    const inside = middle >= judged.interval[0] && middle <= judged.interval[1];
    if (number)
      add(
        canvas,
        svg("rect", {
          class: inside ? "null inside" : "null",
          x: left + index * wide + 0.5,
          width: Math.max(1, wide - 1),
          y: bottom - (number / most) * (bottom - top),
          height: (number / most) * (bottom - top),
        }),
      );
  });
  add(
    canvas,
    axisX(x, { y: bottom, top: bottom, label: "", count: 4, width: right }),
    svg("line", { class: "observed", x1: x(total), x2: x(total), y1: top - 6, y2: bottom }),
    svg(
      "text",
      { class: "strong", x: Math.max(60, Math.min(width - 60, x(total))), y: 12, "text-anchor": "middle" },
      `this rule ${signed(total, Math.max(0, current.digits - 1))}`,
    ),
  );
  return bottom + 22;
}
