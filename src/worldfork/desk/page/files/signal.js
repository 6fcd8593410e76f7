// dR against a signal with a threshold to drag, and the total at every threshold below it.

function signalChart(view, set) {
  const { current, trigger, known, values, scored, fitted } = view;
  const missing = scored.length - known.length;
  let line,
    handle,
    thresholds,
    x,
    edge,
    marks = [];
  const curve = totals(view);
  const height = 300;
  const node = chart(
    `dR against ${state.trigger}`,
    (canvas, width) => {
      const [left, right] = [52, width - 12];
      edge = right;
      x = bentOrNot(values, [left + 6, right - 6], { zero: false, spread: 4 });
      const y = bentOrNot(
        known.map(({ one }) => one.delta),
        [height, 40],
      );
      add(
        canvas,
        axisY(y, {
          x: left,
          right,
          top: 18,
          label: `dR, return per episode${y.bent ? ` (linear within ±${y.bent})` : ""}`,
          count: 5,
        }),
      );
      marks = known.map(({ one, index }) => {
        const shape = mark(sideOf(one), x(trigger.signal[index]), y(one.delta), 4.6, { "data-fork": index });
        add(canvas, shape);
        return [shape, index];
      });
      const [from, to] = [height + 46, height + 176];
      const sums = linear(
        extent(
          curve.flatMap((one) => [one.total, one.mean - 2 * one.deviation, one.mean + 2 * one.deviation]),
          { zero: true },
        ),
        [to, from],
      );
      const at = (index) => (index >= values.length ? right : index <= 0 ? left : x(cut(values, index)));
      const stairs = (value) =>
        curve
          .flatMap((one) => [
            [at(one.index), value(one)],
            [at(one.index + 1), value(one)],
          ])
          .slice(0, -1);
      const band = [
        ...stairs((one) => sums(one.mean + 1.96 * one.deviation)),
        ...stairs((one) => sums(one.mean - 1.96 * one.deviation)).reverse(),
      ];
      add(
        canvas,
        axisY(sums, {
          x: left,
          right,
          top: from,
          label: "policy total (return, summed over fired forks)",
          count: 4,
        }),
        svg("path", { class: "band", d: path(band) + "Z" }),
        svg("path", { class: "chance", d: path(stairs((one) => sums(one.mean))) }),
        svg("path", { class: "total", d: path(stairs((one) => sums(one.total))) }),
        axisX(x, {
          y: to,
          top: to,
          label: `${state.trigger}${x.bent ? ` (linear within ±${tickText(x.bent)})` : ""} →  fires to the right of the line`,
          count: width < 500 ? 3 : 6,
          width: right,
        }),
      );
      thresholds = svg("g", { class: "fitted" });
      line = svg("line", { class: "threshold", y1: 30, y2: to });
      handle = svg("circle", { class: "handle", r: 8, cy: 30, "data-handle": true });
      add(canvas, thresholds, line, handle);
      if (node.lastFired) place(node.lastFired);
      return to + 40;
    },
    `n = ${known.length} forks with the signal${missing ? `; ${missing} without it never fire` : ""}; ▲ helped, ▼ hurt, filled where the trigger fires. Below: the policy's total (line) and chance with as many fires in every cell (dashed mean, 95% band).`,
  );
  const place = (fired) => {
    node.lastFired = fired;
    if (!x) return;
    for (const [shape, index] of marks) shape.classList.toggle("fired", Boolean(fired[index]));
    const at = (value) =>
      Math.max(48, Math.min(edge + 4, value === Infinity ? 1e9 : value === -Infinity ? -1e9 : x(value)));
    const many = state.threshold === "fitted";
    for (const one of [line, handle]) one.style.display = many ? "none" : "";
    thresholds.replaceChildren(
      ...(many
        ? Object.entries(fitted).map(([checkpoint, value]) => {
            const spot = at(typeof value === "string" ? readThreshold(value) : value);
            return svg(
              "line",
              { class: "threshold", x1: spot, x2: spot, y1: 30, y2: height + 176 },
              svg("title", {}, `checkpoint ${checkpoint}`),
            );
          })
        : []),
    );
    if (many) return;
    const spot = at(state.threshold);
    line.setAttribute("x1", spot);
    line.setAttribute("x2", spot);
    handle.setAttribute("cx", spot);
  };
  const drag = (event) => set(x.invert(pointIn(node.canvas, event)[0]));
  node.canvas.classList.add("draggable");
  node.canvas.addEventListener("pointerdown", (event) => {
    node.canvas.setPointerCapture(event.pointerId);
    node.dragging = true;
    hush();
    drag(event);
  });
  node.canvas.addEventListener("pointermove", (event) => {
    if (node.dragging) drag(event);
    else if (event.target.dataset.fork)
      tell(event, [
        ...forkLines(current.forks[event.target.dataset.fork], current),
        `${state.trigger} ${brief(trigger.signal[event.target.dataset.fork])}`,
      ]);
    else hush();
  });
  for (const end of ["pointerup", "pointercancel"])
    node.canvas.addEventListener(end, () => {
      node.dragging = false;
    });
  node.canvas.addEventListener("pointerleave", hush);
  return { node, update: place };
}
