// Returns of both branches, fork by fork, with the line that scoring fitted through them (the paper's third figure).

section("contraction-body", ["part"], contractionSection);

function contractionSection() {
  const { forks, contraction, digits } = part();
  const retained = forks.filter((fork) => isScored(fork) && !fork.diverged);
  if (!retained.length) return el("p", {}, "undefined: no fork was retained.");
  const { slope, intercept, crossing } = contraction;
  let places = [];
  const figure = chart(
    "Return of UPDATE against return of HOLD",
    (canvas, width) => {
      const [left, right, top] = [GUTTER, width - 12, 26];
      const bottom = top + Math.min(340, right - left);
      const x = linear(extent(retained.map((fork) => fork.r_hold)), [left, right]);
      const y = linear(extent(retained.flatMap((fork) => [fork.r_hold, fork.r_update])), [bottom, top]);
      const [from, to] = [Math.max(x.domain[0], y.domain[0]), Math.min(x.domain[1], y.domain[1])];
      places = retained.map((fork) => [x(fork.r_hold), y(fork.r_update), fork]);
      const [start, end] = x.domain;
      add(
        canvas,
        axisY(y, { x: left, right, top, words: "UPDATE, return per episode" }),
        axisX(x, { y: bottom, top, words: "HOLD, return per episode", width: right }),
        line("identity", x(from), y(from), x(to), y(to)),
        places.length > CROWD
          ? crowd(places.map(([px, py, fork]) => [px, py, sideOf(fork)]))
          : places.map(([px, py, fork]) =>
              mark(sideOf(fork), px, py, 4.2, { class: `mark fired ${sideOf(fork)} soft` }),
            ),
        isNumber(slope) && line("fit", x(start), y(intercept + slope * start), x(end), y(intercept + slope * end)),
        isNumber(crossing) &&
          crossing > start &&
          crossing < end && [
            dot("crossing", x(crossing), y(crossing), 7),
            // Beside the name of the axis: anywhere else it would lie on forks.
            label("strong", right, top - 11, "end", `○ crossing ${plain(crossing, digits)}`),
          ],
      );
      return bottom + 40;
    },
    `n = ${whole(retained.length)} retained forks; this plot always shows these. Dotted: UPDATE returns what HOLD does. Line: least squares, slope ${plain(slope, 2)}${contraction.interval ? ` [${contraction.interval.map((end) => plain(end, 2)).join(", ")}]` : ""}; below 1, returns are pulled together.`,
    () => [["HOLD", "UPDATE"], ...retained.map((fork) => [fork.r_hold, fork.r_update])],
  );
  pointAtForks(figure.canvas, (event) => {
    const [x, y] = pointIn(figure.canvas, event);
    const far = ([px, py]) => (px - x) ** 2 + (py - y) ** 2;
    const nearest = places.reduce((best, place) => (far(place) < far(best) ? place : best));
    return far(nearest) < 24 ** 2 ? nearest[2].index : null;
  });
  return figure;
}
