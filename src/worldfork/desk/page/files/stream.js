// One cell over time: what the forks earned, and what a trigger could see before each of them.

function streamSection() {
  const current = part();
  const cell = fork().cell;
  const inside = current.forks.map((one, index) => ({ one, index })).filter(({ one }) => one.cell === cell);
  const log = ledger.streams[current.cells[cell].stream];
  const firstOf = (index) => current.forks.findIndex((one) => one.cell === index);
  const to = (index) => {
    const sameK = current.forks.findIndex((one) => one.cell === index && one.k === fork().k);
    change({ fork: sameK >= 0 ? sameK : firstOf(index) });
  };
  const controls = el(
    "div",
    { class: "controls" },
    el(
      "button",
      { type: "button", disabled: cell === 0, onclick: () => to(cell - 1), "aria-label": "Previous cell" },
      "←",
    ),
    select(
      "Cell",
      current.cells.map((one, index) => [index, cellName(one)]),
      cell,
      (index) => to(Number(index)),
    ),
    el(
      "button",
      {
        type: "button",
        disabled: cell === current.cells.length - 1,
        onclick: () => to(cell + 1),
        "aria-label": "Next cell",
      },
      "→",
    ),
  );
  const figure = chart(
    `The stream of ${cellName(current.cells[cell])}`,
    (canvas, width) => drawStream(canvas, width, current, inside, log),
    streamCaption(inside, log),
  );
  figure.canvas.setAttribute("tabindex", "0");
  figure.canvas.addEventListener("keydown", walkByKey);
  const near = (event) => {
    const [x] = pointIn(figure.canvas, event);
    const places = figure.canvas.places || [];
    return places.length
      ? places.reduce((best, place) => (Math.abs(place[0] - x) < Math.abs(best[0] - x) ? place : best))[1]
      : null;
  };
  figure.canvas.addEventListener("pointermove", (event) => {
    const index = near(event);
    if (index !== null) tell(event, forkLines(current.forks[index], current));
  });
  figure.canvas.addEventListener("pointerleave", hush);
  figure.canvas.addEventListener("click", (event) => {
    const index = near(event);
    if (index !== null) change({ fork: index });
  });
  return el("div", { class: "two" }, el("div", {}, controls, figure), forkPanel(current, fork()));
}

function streamCaption(inside, log) {
  const forks = `n = ${inside.length} forks`;
  if (!log)
    return `${forks}. No stream: a flat table has the forks alone. Stems run from HOLD (○) to UPDATE (▲ helped, ▼ hurt).`;
  const lost = Object.entries(log.non_finite)
    .filter(([name, count]) => count && log[name])
    .map(([name, count]) => `${count} non-finite values of ${name} are not drawn`);
  return [
    `${forks}, ${log.steps} control steps, ${log.episode_return.length} episodes. Stems run from HOLD (○) to UPDATE (▲ helped, ▼ hurt), `,
    `the grey steps are the frozen model's own return; error and KL are means of ${log.width} steps with their range. `,
    "The shaded segment is what a trigger sees before the chosen fork. ",
    lost.length ? lost.join("; ") + "." : "",
  ].join("");
}

function drawStream(canvas, width, current, inside, log) {
  const { colour } = colouring(current);
  const [left, right] = [52, width - 10];
  const stepOf = (one) => (log && isNumber(one.step) && one.step ? one.step : one.k);
  const last = log ? log.steps : Math.max(...inside.map(({ one }) => one.k)) + 0.5;
  const x = linear([log ? 0 : 0.5, last], [left, right]);
  const segment = log ? log.episode_steps : 1;
  const chosen = fork();
  let top = 28;
  const panel = (height, draw) => {
    draw(top, top + height);
    top += height + 34;
  };
  const high = (bins) => (bins ? 84 : 20);
  const bottom = log ? 28 + 150 + 34 + high(log.error) + 34 + high(log.kl) + 34 + 64 : 28 + 190;
  add(
    canvas,
    svg("rect", {
      class: "segment",
      x: x(Math.max(x.domain[0], stepOf(chosen) - segment)),
      y: 18,
      width: Math.max(2, x(stepOf(chosen)) - x(Math.max(x.domain[0], stepOf(chosen) - segment))),
      height: bottom - 18,
    }),
    svg("line", { class: "here", x1: x(stepOf(chosen)), x2: x(stepOf(chosen)), y1: 18, y2: bottom }),
  );
  panel(log ? 150 : 190, (from, to) => {
    const returns = inside.flatMap(({ one }) => [one.r_hold, one.r_update]).concat(log ? log.episode_return : []);
    const y = linear(extent(returns), [to, from]);
    add(canvas, axisY(y, { x: left, right, top: from, label: "return per episode", count: 4 }));
    if (log)
      log.episode_return.forEach((value, index) => {
        if (isNumber(value))
          add(
            canvas,
            svg("line", {
              class: "deployed",
              x1: x(index * segment),
              x2: x((index + 1) * segment),
              y1: y(value),
              y2: y(value),
            }),
          );
      });
    for (const { one, index } of inside) {
      const at = x(stepOf(one));
      const size = index === state.fork ? 7 : 5;
      if (!isScored(one)) {
        add(canvas, svg("text", { class: "lost", x: at, y: to - 4, "text-anchor": "middle" }, "×"));
        continue;
      }
      add(
        canvas,
        svg("line", { class: "stem", x1: at, x2: at, y1: y(one.r_hold), y2: y(one.r_update), stroke: colour(one) }),
        svg("circle", { class: "held", cx: at, cy: y(one.r_hold), r: size - 2 }),
        mark(sideOf(one), at, y(one.r_update), size, { fill: colour(one), "data-fork": index }),
      );
    }
  });
  if (log) {
    panel(high(log.error), (from, to) =>
      drawBins(canvas, log.error, log, {
        x,
        from,
        to,
        left,
        right,
        label: "one-step error (the model's units)",
        name: "error",
      }),
    );
    panel(high(log.kl), (from, to) =>
      drawBins(canvas, log.kl, log, { x, from, to, left, right, label: "KL (nats)", name: "KL" }),
    );
    panel(64, (from, to) => {
      const y = linear([-0.05, 1.05], [to, from]);
      add(
        canvas,
        axisY(y, { x: left, right, top: from, label: "drift level g (0 to 1)", count: 2 }),
        svg("path", {
          class: "level",
          d: path(log.level.map((value, index) => [x(index * log.width), isNumber(value) ? y(value) : null])),
        }),
      );
    });
  }
  add(
    canvas,
    axisX(x, {
      y: bottom,
      top: bottom,
      label: log ? "control steps since deployment" : "decision point k",
      count: width < 500 ? 4 : 8,
      width: right,
    }),
  );
  canvas.places = inside.map(({ one, index }) => [x(stepOf(one)), index]);
  return bottom + 40;
}

function drawBins(canvas, bins, log, { x, from, to, left, right, label, name }) {
  if (!bins) {
    add(
      canvas,
      svg("text", { class: "label", x: 0, y: from - 8 }, label),
      svg("text", { class: "absent", x: left, y: (from + to) / 2 + 4 }, `undefined: this agent logged no ${name}`),
    );
    return;
  }
  const top = Math.max(...bins.mean.filter(isNumber));
  const highs = bins.high.filter(isNumber).sort((a, b) => a - b);
  const cap = Math.min(highs[highs.length - 1], Math.max(1.6 * top, highs[Math.floor(0.9 * (highs.length - 1))]));
  const y = linear(extent([0, cap, ...bins.mean, ...bins.low], { pad: 0.03 }), [to, from]);
  const place = (index) => x(Math.min(log.steps, (index + 0.5) * log.width));
  const clip = (value) => (isNumber(value) ? y(Math.min(value, cap)) : null);
  add(canvas, axisY(y, { x: left, right, top: from, label, count: 3 }));
  bins.mean.forEach((value, index) => {
    if (isNumber(value))
      add(
        canvas,
        svg("line", {
          class: "range",
          x1: place(index),
          x2: place(index),
          y1: clip(bins.low[index]),
          y2: clip(bins.high[index]),
        }),
      );
  });
  add(
    canvas,
    svg("path", { class: "trace", d: path(bins.mean.map((value, index) => [place(index), clip(value)])) }),
  );
}
