// Every rule's total beside the random rule that fires as often (the paper's second figure).

function policiesSection() {
  const current = part();
  const side = state.side;
  const triggers = Object.entries(current.figures[side === "retained" ? "triggers" : "triggers_all_attempted"]);
  const { never, always, oracle } = current.figures[side === "retained" ? "policies" : "policies_all_attempted"];
  const digits = Math.max(0, current.digits - 1);
  const forks = scoredForks(current, side).length;
  const rows = [
    ["never", { policy_total: never, fixed: true, fires: 0 }],
    ["always", { policy_total: always, fixed: true, fires: forks }],
    ["dR oracle", { policy_total: oracle, fixed: true, fires: null }],
    ...triggers.map(([name, one]) => [name, one]),
  ];
  const figure = chart(
    "Policy totals",
    (canvas, width) => {
      const [left, right, top, high] = [width < 560 ? 112 : 150, width - (width < 560 ? 58 : 76), 14, 24];
      const bottom = top + high * rows.length + 4;
      const every = rows
        .flatMap(([, one]) => [one.policy_total, ...(one.random && one.random.interval ? one.random.interval : [])])
        .filter(isNumber);
      const reach = Math.max(1e-9, ...every.map(Math.abs));
      const bend = 10 ** (Math.floor(Math.log10(reach)) - 1);
      const domain = extent(every, { zero: true });
      const x = symlog([Math.min(domain[0], -bend), Math.max(domain[1], bend)], [left, right], bend);
      add(
        canvas,
        axisX(x, {
          y: bottom,
          top: 4,
          label: `policy total, summed return (linear within ±${tickText(bend)})`,
          width,
        }),
      );
      rows.forEach(([name, one], index) => {
        const y = top + high * (index + 0.5);
        add(
          canvas,
          svg("text", { x: left - 10, y: y + 4, "text-anchor": "end", class: one.fixed ? "strong" : "" }, name),
        );
        if (!isNumber(one.policy_total)) {
          add(
            canvas,
            svg(
              "text",
              { class: "absent", x: left + 4, y: y + 4 },
              "undefined",
              svg("title", {}, whyNot(one.policy_total)),
            ),
          );
          return;
        }
        if (one.random && one.random.interval) {
          add(
            canvas,
            svg("rect", {
              class: "band",
              x: x(one.random.interval[0]),
              width: Math.max(2, x(one.random.interval[1]) - x(one.random.interval[0])),
              y: y - 7,
              height: 14,
              rx: 2,
            }),
            svg("line", { class: "chance", x1: x(one.random.mean), x2: x(one.random.mean), y1: y - 7, y2: y + 7 }),
          );
        }
        add(
          canvas,
          svg("line", { class: "lead", x1: x(0), x2: x(one.policy_total), y1: y, y2: y }),
          svg(
            "circle",
            {
              class: `policy ${one.fixed ? "fixed" : one.passes_control === true ? "passes" : ""}`,
              cx: x(one.policy_total),
              cy: y,
              r: 5.5,
            },
            svg("title", {}, `${name}: ${signed(one.policy_total, digits)}`),
          ),
          svg(
            "text",
            { class: "figure", x: width, y: y + 4, "text-anchor": "end" },
            signed(one.policy_total, digits),
          ),
        );
      });
      return bottom + 40;
    },
    `n = ${forks} ${side === "retained" ? "retained" : "attempted"} forks. Thresholds fitted leave-one-checkpoint-out. Filled: beats its control (both p, Holm-adjusted, below 0.05). Band: 95% of ${ledger.permutations.toLocaleString("en-US")} random rules with as many fires in every cell.`,
  );
  return el("div", {}, figure, policyTable(triggers, digits), unavailable(current));
}

function policyTable(triggers, digits) {
  const heads = [
    "trigger",
    "AUC",
    "n with signal",
    "total",
    "fires",
    "gradient steps",
    "chance",
    "p",
    "p shifted",
    "beats chance",
    "running quantile",
    "corr. with dR",
  ];
  return tabled(
    "Totals in return summed over fired forks; running quantile: the label-free threshold",
    heads,
    triggers.map(([name, one]) =>
      el(
        "tr",
        {},
        el("th", {}, name),
        el("td", {}, shown(one.auc, chance(one.auc))),
        el("td", {}, one.n_defined),
        el("td", { class: "strong" }, shown(one.policy_total, signed(one.policy_total, digits))),
        el("td", {}, shown(one.fires, one.fires)),
        el(
          "td",
          {},
          shown(one.gradient_steps, isNumber(one.gradient_steps) ? one.gradient_steps.toLocaleString("en-US") : ""),
        ),
        el(
          "td",
          {},
          isNumber(one.random.mean)
            ? `${signed(one.random.mean, digits)} ${span(one.random.interval, digits)}`
            : shown(one.random, ""),
        ),
        el("td", {}, shown(one.random.p === undefined ? one.random : one.random.p, chance(one.random.p))),
        el(
          "td",
          {},
          shown(
            one.random_shift.p === undefined ? one.random_shift : one.random_shift.p,
            chance(one.random_shift.p),
          ),
        ),
        el(
          "td",
          {},
          typeof one.passes_control === "boolean"
            ? one.passes_control
              ? el("b", { class: "yes" }, "✓ yes")
              : "no"
            : shown(one.passes_control, ""),
        ),
        el("td", {}, shown(one.running_quantile.policy_total, signed(one.running_quantile.policy_total, digits))),
        el("td", {}, shown(one.correlation, plain(one.correlation, 2))),
      ),
    ),
  );
}

function unavailable(current) {
  const names = Object.entries(current.unavailable);
  return names.length
    ? el(
        "p",
        { class: "small" },
        "Not to be read in this ledger: ",
        names.map(([name, why], index) => [index ? "; " : "", el("b", {}, name), ` (${why})`]),
        ".",
      )
    : null;
}
