// Tasks, directions, doses and arms beside each other.

function compareSection() {
  const rows = ledger.parts.flatMap((one, index) => {
    const effect = one.figures.effect[state.side];
    return [
      { index, name: partName(one), effect, whole: true },
      ...Object.entries(effect.by_direction).map(([direction, mean]) => ({
        index,
        name: direction,
        effect: { mean, ...effect.by_direction_intervals[direction] },
        whole: false,
      })),
    ];
  });
  const figure = chart(
    "Mean dR of every task, direction and arm",
    (canvas, width) => {
      // A narrow screen has no room for a name beside its line: there it stands above.
      const narrow = width < 560;
      const [left, right, top] = [narrow ? 60 : 260, width - (narrow ? 56 : 70), 14];
      const every = rows.flatMap(({ effect }) => [
        effect.mean,
        ...(Array.isArray(effect.student_t) ? effect.student_t : []),
      ]);
      const heights = rows.map((row) => (!row.whole ? 18 : narrow ? 44 : 26));
      const bottom = top + heights.reduce((a, b) => a + b, 0) + 6;
      const x = bentOrNot(every, [left, right]);
      add(
        canvas,
        axisX(x, {
          y: bottom,
          top: 4,
          label: `mean dR, return per episode${x.bent ? ` (linear within ±${tickText(x.bent)})` : ""}`,
          width,
        }),
      );
      let y = top;
      rows.forEach((row, place) => {
        y += heights[place];
        const above = narrow && row.whole;
        const at = y - (above ? 13 : heights[place] / 2);
        add(
          canvas,
          svg(
            "text",
            {
              x: above ? 0 : left - 10,
              y: above ? at - 14 : at + 4,
              "text-anchor": above ? "start" : "end",
              class: row.whole ? "strong" : "soft",
            },
            shortened(row.name, 36),
            svg("title", {}, row.name),
          ),
          svg(
            "text",
            { class: "figure", x: width, y: at + 4, "text-anchor": "end" },
            isNumber(row.effect.mean) ? signed(row.effect.mean, ledger.parts[row.index].digits) : "undefined",
          ),
        );
        if (Array.isArray(row.effect.student_t))
          add(
            canvas,
            svg("line", {
              class: "interval first",
              x1: x(row.effect.student_t[0]),
              x2: x(row.effect.student_t[1]),
              y1: at,
              y2: at,
            }),
          );
        if (Array.isArray(row.effect.bootstrap))
          add(
            canvas,
            svg("line", {
              class: "interval inner first",
              x1: x(row.effect.bootstrap[0]),
              x2: x(row.effect.bootstrap[1]),
              y1: at,
              y2: at,
            }),
          );
        if (isNumber(row.effect.mean))
          add(
            canvas,
            svg("circle", {
              class: row.whole ? "mean first" : "mean second",
              cx: x(row.effect.mean),
              cy: at,
              r: row.whole ? 5 : 3.5,
            }),
          );
      });
      return bottom + 40;
    },
    `${state.side === "retained" ? "Retained" : "All attempted"} forks, n = ${ledger.parts.map((one) => one.figures.effect[state.side].forks).join(", ")}. Line: Student-t 95%; thick: bootstrap 95%.`,
  );
  const side = select(
    "Forks",
    [
      ["all_attempted", "all attempted"],
      ["retained", "retained"],
    ],
    state.side,
    (value) => change({ side: value, threshold: null }),
  );
  return el(
    "div",
    {},
    el("div", { class: "controls" }, side),
    figure,
    doses(),
    sideBySide(),
    contrasts(),
    spending(),
    whatVaries(),
  );
}

function sideBySide() {
  const heads = [
    "",
    "verdict",
    "all attempted",
    "Student-t 95%",
    "retained",
    "toward − away",
    "helped / hurt",
    "diverged",
    "always",
    "oracle",
    "beat chance",
  ];
  const about =
    "Return per episode; always and oracle are summed over retained forks; toward − away: all attempted forks at the drift levels both directions visit, Student-t 95%";
  return tabled(
    about,
    heads,
    ledger.parts.map((one, index) => {
      const { effect, forks, policies, triggers, verdict } = one.figures;
      const turn = one.figures.direction_contrast.all_attempted;
      const passing = Object.entries(triggers)
        .filter(([, trigger]) => trigger.passes_control === true)
        .map(([name]) => name);
      return el(
        "tr",
        {},
        el(
          "th",
          {},
          el(
            "button",
            {
              type: "button",
              class: "link",
              onclick: () => {
                change({ part: index });
                byId("evidence").scrollIntoView();
              },
            },
            one.task,
          ),
          partName(one) === one.task ? null : el("div", { class: "small" }, one.arm),
        ),
        el("td", {}, typeof verdict === "string" ? verdict : shown(verdict, "")),
        el("td", {}, shown(effect.all_attempted.mean, signed(effect.all_attempted.mean, one.digits))),
        el("td", {}, shown(effect.all_attempted.student_t, span(effect.all_attempted.student_t, one.digits))),
        el("td", {}, shown(effect.retained.mean, signed(effect.retained.mean, one.digits))),
        el(
          "td",
          {},
          isNumber(turn.mean)
            ? `${signed(turn.mean, one.digits)} ${span(turn.student_t, one.digits)}`
            : shown(turn.why ? turn : turn.mean, ""),
        ),
        el("td", {}, `${forks.helped} / ${forks.hurt}`),
        el("td", {}, forks.diverged),
        el("td", {}, signed(policies.always, 0)),
        el("td", {}, signed(policies.oracle, 0)),
        el("td", { title: passing.join(", ") || "none" }, `${passing.length} of ${Object.keys(triggers).length}`),
      );
    }),
  );
}

// Where arms differ in the number of gradient steps: the effect against the dose.
function doses() {
  const tasks = [...new Set(ledger.parts.map((one) => one.task))];
  return tasks.map((task) => {
    const arms = ledger.parts
      .filter((one) => one.task === task && isNumber(ledger.steps[one.arm]))
      .map((one) => ({ one, n: ledger.steps[one.arm], effect: one.figures.effect[state.side] }))
      .sort((a, b) => a.n - b.n);
    if (new Set(arms.map(({ n }) => n)).size < 3) return null;
    return chart(
      `Effect against dose on ${task}`,
      (canvas, width) => {
        const [left, right, top, bottom] = [52, width - 20, 26, 210];
        const x = linear(
          extent(
            arms.map(({ n }) => Math.log2(n + 1)),
            { pad: 0.08 },
          ),
          [left, right],
        );
        const y = linear(
          extent(
            arms.flatMap(({ effect }) => [
              effect.mean,
              ...(Array.isArray(effect.student_t) ? effect.student_t : []),
            ]),
            { zero: true },
          ),
          [bottom, top],
        );
        add(canvas, axisY(y, { x: left, right, top, label: `${task}: mean dR, return per episode` }));
        for (const { n, effect, one } of arms) {
          const at = x(Math.log2(n + 1));
          add(canvas, svg("text", { x: at, y: bottom + 18, "text-anchor": "middle" }, n));
          if (Array.isArray(effect.student_t))
            add(
              canvas,
              svg("line", {
                class: "interval first",
                x1: at,
                x2: at,
                y1: y(effect.student_t[0]),
                y2: y(effect.student_t[1]),
              }),
            );
          if (isNumber(effect.mean))
            add(
              canvas,
              svg(
                "circle",
                { class: "mean first", cx: at, cy: y(effect.mean), r: 5 },
                svg("title", {}, `${one.arm}: ${signed(effect.mean, one.digits)}`),
              ),
            );
        }
        add(
          canvas,
          svg(
            "text",
            { class: "label", x: right, y: bottom + 34, "text-anchor": "end" },
            "gradient steps N per update (log axis)",
          ),
        );
        return bottom + 42;
      },
      `${arms.length} arms, n = ${arms.map(({ effect }) => effect.forks).join(", ")} forks; Student-t 95%.`,
    );
  });
}

function contrasts() {
  const found = Object.entries(ledger.contrasts).flatMap(([name, tasks]) =>
    Object.entries(tasks).map(([task, sides]) => [name, task, sides[state.side]]),
  );
  if (!found.length) return null;
  const heads = ["arms", "task", "difference", "Student-t 95%", "bootstrap 95%", "mean of each", "n cells"];
  return tabled(
    "Arms against the first: difference of mean dR on the cells both have, return per episode; then how alike they are on the forks both have",
    [...heads, "n forks", "Pearson", "Spearman", "same sign"],
    found.map(([name, task, one]) =>
      el(
        "tr",
        {},
        el("th", {}, name),
        el("td", {}, task),
        one
          ? [
              el("td", { class: "strong" }, signed(one.mean, 2)),
              el("td", {}, shown(one.student_t, span(one.student_t, 2))),
              el("td", {}, shown(one.bootstrap, span(one.bootstrap, 2))),
              el("td", {}, `${signed(one.first, 2)}, ${signed(one.second, 2)}`),
              el("td", {}, one.cells),
              el("td", {}, one.paired.forks),
              el("td", {}, shown(one.paired.pearson, signed(one.paired.pearson, 3))),
              el("td", {}, shown(one.paired.spearman, signed(one.paired.spearman, 3))),
              el("td", {}, shown(one.paired.same_sign, `${plain(100 * one.paired.same_sign, 1)}%`)),
            ]
          : el("td", { colspan: 9 }, shown(null, ""), " (the arms have no cell in common)"),
      ),
    ),
  );
}

function whatVaries() {
  const arms = Object.entries(ledger.varies).filter(([, lines]) => lines.length);
  return arms.length
    ? el(
        "details",
        {},
        el("summary", {}, "What the arms vary, with respect to the first"),
        el(
          "ul",
          {},
          arms.map(([arm, lines]) => el("li", {}, el("b", {}, arm), ": ", el("code", {}, lines.join("; ")))),
        ),
      )
    : null;
}
