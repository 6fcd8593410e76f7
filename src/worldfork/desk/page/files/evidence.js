// The verdict's forest plots, and the map of all forks.

function forest(index) {
  const one = ledger.parts[index];
  const { all_attempted: all, retained } = one.figures.effect;
  const rows = [
    ["all attempted", all],
    ["retained", retained],
  ];
  const everything = rows.flatMap(([, effect]) => [
    effect.mean,
    ...(Array.isArray(effect.student_t) ? effect.student_t : []),
    ...(Array.isArray(effect.bootstrap) ? effect.bootstrap : []),
    ...Object.values(effect.by_checkpoint),
  ]);
  return chart(
    `Mean dR of ${partName(one)} with its intervals`,
    (canvas, width) => {
      const [left, right, bottom] = [8, width - 8, 78];
      const x = linear(extent(everything, { zero: true, pad: 0.08 }), [left, right]);
      add(canvas, axisX(x, { y: bottom, top: 4, label: "", count: 5, width: right }));
      rows.forEach(([, effect], row) => {
        const y = 22 + 34 * row;
        const weight = row ? "second" : "first";
        for (const mean of Object.values(effect.by_checkpoint)) {
          if (isNumber(mean)) add(canvas, svg("circle", { class: "checkpoint", cx: x(mean), cy: y + 11, r: 2.6 }));
        }
        if (Array.isArray(effect.student_t))
          add(
            canvas,
            svg("line", {
              class: `interval ${weight}`,
              x1: x(effect.student_t[0]),
              x2: x(effect.student_t[1]),
              y1: y,
              y2: y,
            }),
          );
        if (Array.isArray(effect.bootstrap))
          add(
            canvas,
            svg("line", {
              class: `interval inner ${weight}`,
              x1: x(effect.bootstrap[0]),
              x2: x(effect.bootstrap[1]),
              y1: y,
              y2: y,
            }),
          );
        if (isNumber(effect.mean))
          add(canvas, svg("circle", { class: `mean ${weight}`, cx: x(effect.mean), cy: y, r: 5 }));
      });
      return bottom + 20;
    },
    `Above all attempted, below retained. Line: Student-t 95%; thick: bootstrap 95%; dots: the ${all.clusters} checkpoint${all.clusters === 1 ? "" : "s"}. Return per episode, n = ${all.forks} and ${retained.forks} forks.`,
  );
}

function evidence() {
  const current = part();
  const { colour, full } = colouring(current);
  const points = Math.max(...current.forks.map((one) => one.k));
  const means = current.cells.map((_, cell) => {
    const inside = current.forks.filter((one) => one.cell === cell && isScored(one));
    return inside.length ? inside.reduce((sum, one) => sum + one.delta, 0) / inside.length : null;
  });
  const map = chart(
    "dR of every fork",
    (canvas, width) => {
      const many = current.cells.length > 20;
      const high = many ? 15 : 22;
      const [left, right, top] = [width < 560 ? 64 : 196, width - (width < 560 ? 46 : 70), 22];
      const wide = (right - left) / points;
      add(
        canvas,
        svg("text", { class: "label", x: left, y: 12 }, "decision point k →"),
        svg("text", { class: "label", x: width, y: 12, "text-anchor": "end" }, "mean dR"),
      );
      let y = top;
      let direction = null;
      const tops = current.cells.map((cell) => {
        if (direction !== null && cell.direction !== direction) y += 10;
        direction = cell.direction;
        y += high;
        return y - high;
      });
      current.cells.forEach((cell, index) => {
        const seeds = new Set(current.cells.map((one) => one.stream_seed)).size > 1;
        const label =
          width < 560
            ? `${shortened(cell.checkpoint, 4)} ${shortened(cell.direction, seeds ? 4 : 6)}${seeds ? ` ${cell.stream_seed}` : ""}`
            : seeds
              ? cellName(cell)
              : `checkpoint ${cell.checkpoint} · ${cell.direction}`;
        add(
          canvas,
          svg(
            "text",
            {
              x: left - 8,
              y: tops[index] + high / 2 + 4,
              "text-anchor": "end",
              class: many || width < 560 ? "tight" : "",
            },
            shortened(label, 32),
            svg("title", {}, cellName(cell)),
          ),
          svg(
            "text",
            { x: width, y: tops[index] + high / 2 + 4, "text-anchor": "end", class: "figure" },
            isNumber(means[index]) ? signed(means[index], current.digits) : "undef.",
          ),
        );
      });
      current.forks.forEach((one, index) => {
        const [x, line] = [left + (one.k - 1) * wide, tops[one.cell]];
        const box = svg("rect", {
          class: `fork ${sideOf(one)}`,
          x: x + 0.75,
          y: line + 0.75,
          width: Math.max(1, wide - 1.5),
          height: high - 1.5,
          rx: 2,
          fill: colour(one),
          "data-fork": index,
        });
        add(canvas, box);
        if (one.diverged || !isScored(one)) {
          add(
            canvas,
            svg("path", {
              class: "cross",
              d: `M${x + 3} ${line + 3}L${x + wide - 3} ${line + high - 3}M${x + wide - 3} ${line + 3}L${x + 3} ${line + high - 3}`,
            }),
          );
        }
      });
      const at = fork();
      add(
        canvas,
        svg("rect", {
          class: "chosen",
          x: left + (at.k - 1) * wide - 1,
          y: tops[at.cell] - 1,
          width: wide + 2,
          height: high + 2,
          rx: 3,
        }),
      );
      return y + 6;
    },
    `n = ${current.forks.length} forks in ${current.cells.length} cells, k = 1 to ${points}. Colour is dR in return per episode, full from ±${plain(full, current.digits)}. `,
    "A cross marks a diverged fork, or one without a dR.",
  );
  map.canvas.setAttribute("tabindex", "0");
  map.canvas.setAttribute("aria-label", "dR of every fork: arrow keys choose a fork");
  const at = (event) => event.target.dataset && event.target.dataset.fork;
  map.canvas.addEventListener("pointermove", (event) => {
    const index = at(event);
    if (index) tell(event, forkLines(current.forks[index], current));
    else hush();
  });
  map.canvas.addEventListener("pointerleave", hush);
  map.canvas.addEventListener("click", (event) => {
    const index = at(event);
    if (index) change({ fork: Number(index) });
  });
  map.canvas.addEventListener("keydown", walkByKey);
  return map;
}

// Left and right along a stream, up and down to the same decision point of the neighbouring cell.
function walkByKey(event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  const { forks } = part();
  const here = fork();
  let to = state.fork;
  if (step[0]) {
    const next = forks[state.fork + step[0]];
    if (next && next.cell === here.cell) to = state.fork + step[0];
  } else {
    const inside = forks.map((one, index) => [one, index]).filter(([one]) => one.cell === here.cell + step[1]);
    inside.sort(([a], [b]) => Math.abs(a.k - here.k) - Math.abs(b.k - here.k));
    if (inside.length) to = inside[0][1];
  }
  change({ fork: to });
}

function quartiles() {
  const known = Object.entries(part().figures.drift_quartiles);
  const rows = known.map(([direction, runs]) =>
    el(
      "tr",
      {},
      el("th", {}, direction),
      Array.isArray(runs)
        ? runs.map((run) => el("td", {}, shown(run, signed(run, part().digits))))
        : el("td", { colspan: 4 }, shown(runs, ""), " ", el("span", { class: "small" }, whyNot(runs))),
    ),
  );
  const about = `Mean dR by drift quartile, retained forks (n = ${part().figures.forks.retained}), return per episode`;
  return tabled(about, ["direction", "least drift", "second", "third", "most drift"], rows);
}
