// Update value against hold return: the fit, where it crosses the identity, and the bins (the paper's third figure).

function contractionSection() {
  const current = part();
  const fit = current.figures.contraction;
  const retained = scoredForks(current, "retained").map(({ one, index }) => ({ one, index }));
  if (!retained.length) return el("p", {}, "undefined: no fork was retained.");
  const returns = retained.flatMap(({ one }) => [one.r_hold, one.r_update]);
  const hold = retained.map(({ one }) => one.r_hold);
  const middle = hold.reduce((a, b) => a + b, 0) / hold.length;
  const centre = retained.reduce((sum, { one }) => sum + one.r_update, 0) / retained.length;
  const scatter = chart(
    "Return of UPDATE against return of HOLD",
    (canvas, width) => {
      const [left, right, top] = [52, width - 12, 26];
      const bottom = top + Math.min(340, right - left);
      const x = linear(extent(hold), [left, right]);
      const y = linear(extent(returns), [bottom, top]);
      add(
        canvas,
        axisY(y, { x: left, right, top, label: "UPDATE, return per episode" }),
        axisX(x, { y: bottom, top, label: "HOLD, return per episode", width: right }),
      );
      const from = Math.max(x.domain[0], y.domain[0]);
      const to = Math.min(x.domain[1], y.domain[1]);
      add(canvas, svg("line", { class: "identity", x1: x(from), y1: y(from), x2: x(to), y2: y(to) }));
      canvas.places = retained.map(({ one, index }) => {
        add(
          canvas,
          mark(sideOf(one), x(one.r_hold), y(one.r_update), 4.2, {
            "data-fork": index,
            class: `mark fired ${sideOf(one)} soft`,
          }),
        );
        return [x(one.r_hold), y(one.r_update), index];
      });
      if (isNumber(fit.slope)) {
        const line = (value) => centre + fit.slope * (value - middle);
        add(
          canvas,
          svg("line", {
            class: "fit",
            x1: x(x.domain[0]),
            x2: x(x.domain[1]),
            y1: y(line(x.domain[0])),
            y2: y(line(x.domain[1])),
          }),
        );
        if (isNumber(fit.crossing) && fit.crossing > x.domain[0] && fit.crossing < x.domain[1]) {
          add(
            canvas,
            svg("circle", { class: "crossing", cx: x(fit.crossing), cy: y(fit.crossing), r: 7 }),
            svg(
              "text",
              { class: "strong", x: Math.min(x(fit.crossing) + 12, width - 96), y: y(fit.crossing) + 20 },
              `crossing ${plain(fit.crossing, current.digits)}`,
            ),
          );
        }
      }
      return bottom + 40;
    },
    `n = ${retained.length} retained forks; dotted: the identity. Slope `,
    shown(fit.slope, plain(fit.slope, 2)),
    Array.isArray(fit.slope_interval) ? ` ${span(fit.slope_interval, 2)}` : "",
    ", crossing ",
    shown(fit.crossing, plain(fit.crossing, current.digits)),
    ", variance ratio ",
    shown(fit.variance_ratio, plain(fit.variance_ratio, 2)),
    Array.isArray(fit.variance_ratio_interval) ? ` ${span(fit.variance_ratio_interval, 2)}` : "",
    " (95%, cells resampled). HOLD's own halves give slope ",
    shown(fit.split_half.slope, plain(fit.split_half.slope, 2)),
    " without any update.",
  );
  scatter.canvas.addEventListener("pointermove", (event) => {
    const index = nearest(scatter.canvas.places || [], ...pointIn(scatter.canvas, event));
    if (index === null) hush();
    else tell(event, forkLines(current.forks[index], current));
  });
  scatter.canvas.addEventListener("pointerleave", hush);
  scatter.canvas.addEventListener("click", (event) => {
    const index = nearest(scatter.canvas.places || [], ...pointIn(scatter.canvas, event));
    if (index !== null) change({ fork: index });
  });
  return el(
    "div",
    { class: "two even" },
    scatter,
    Array.isArray(fit.bins) ? bins(current, fit.bins) : el("p", {}, `Bins: undefined, ${whyNot(fit.bins)}.`),
  );
}

function bins(current, found) {
  const digits = current.digits;
  const name = (bin) =>
    bin.low === null
      ? `below ${plain(bin.high, digits)}`
      : bin.high === null
        ? `${plain(bin.low, digits)} up`
        : `${plain(bin.low, digits)} to ${plain(bin.high, digits)}`;
  return chart(
    "Mean dR by hold return",
    (canvas, width) => {
      const [left, right, top] = [52, width - 12, 26];
      const bottom = top + Math.min(340, right - left);
      const edge = (bin, sign) =>
        isNumber(bin.mean) ? bin.mean + sign * (isNumber(bin.standard_error) ? bin.standard_error : 0) : null;
      const y = linear(
        extent(
          found.flatMap((bin) => [edge(bin, -1), edge(bin, 1)]),
          { zero: true, pad: 0.1 },
        ),
        [bottom, top],
      );
      const wide = (right - left) / found.length;
      add(canvas, axisY(y, { x: left, right, top, label: "mean dR, return per episode" }));
      found.forEach((bin, index) => {
        const middle = left + (index + 0.5) * wide;
        const words = name(bin).split(" ");
        add(
          canvas,
          words.map((word, row) =>
            svg("text", { class: "small", x: middle, y: bottom + 16 + 12 * row, "text-anchor": "middle" }, word),
          ),
          svg(
            "text",
            { class: "small soft", x: middle, y: bottom + 16 + 12 * 3, "text-anchor": "middle" },
            `n=${bin.forks}`,
          ),
        );
        if (!isNumber(bin.mean)) {
          add(
            canvas,
            svg(
              "text",
              { class: "absent", x: middle, y: y(0) - 6, "text-anchor": "middle" },
              "undef.",
              svg("title", {}, whyNot(bin.mean)),
            ),
          );
          return;
        }
        add(
          canvas,
          svg("rect", {
            class: `bin ${bin.mean > 0 ? "help" : "hurt"}`,
            x: middle - 0.32 * wide,
            width: 0.64 * wide,
            y: Math.min(y(0), y(bin.mean)),
            height: Math.abs(y(bin.mean) - y(0)),
            rx: 2,
          }),
        );
        if (isNumber(bin.standard_error))
          add(
            canvas,
            svg("line", { class: "whisker", x1: middle, x2: middle, y1: y(edge(bin, -1)), y2: y(edge(bin, 1)) }),
          );
      });
      add(
        canvas,
        svg("text", { class: "label", x: right, y: bottom + 70, "text-anchor": "end" }, "HOLD, return per episode"),
      );
      return bottom + 76;
    },
    `n = ${found.reduce((sum, bin) => sum + bin.forks, 0)} retained forks in ${found.length} bins; whiskers: standard errors.`,
  );
}
