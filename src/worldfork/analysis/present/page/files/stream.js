// One cell over time: what the forks earned, and what a trigger could see before each of them; below it one fork's row.

section("stream-body", ["part", "fork"], streamSection);

function streamSection() {
  const { cells, forks } = part();
  const cell = chosenFork().cell;
  const inside = forks.filter((fork) => fork.cell === cell);
  const log = readStream(cells[cell].stream);
  const to = (index) => {
    const sameK = forks.findIndex((fork) => fork.cell === index && fork.k === chosenFork().k);
    change({ fork: sameK >= 0 ? sameK : forks.findIndex((fork) => fork.cell === index) });
  };
  const options = cells.map((one, index) => [index, cellName(one)]);
  const controls = el(
    "div",
    { class: "controls" },
    button("←", () => to(cell - 1), { disabled: cell === 0, "aria-label": "Previous cell" }),
    select("Cell", options, cell, (index) => to(Number(index))),
    button("→", () => to(cell + 1), { disabled: cell === cells.length - 1, "aria-label": "Next cell" }),
  );
  const figure = chart(
    `The stream of ${cellName(cells[cell])}`,
    (canvas, width) => drawStream(canvas, width, inside, log),
    streamCaption(inside, log),
    () => [["k", "step", "HOLD", "UPDATE", "dR"], ...inside.map((fork) => [fork.k, fork.step, fork.r_hold, fork.r_update, fork.delta])],
  );
  figure.canvas.setAttribute("tabindex", "0");
  figure.canvas.addEventListener("keydown", walkByKey);
  pointAtForks(figure.canvas, (event) => {
    const [x] = pointIn(figure.canvas, event);
    const far = (fork) => Math.abs(figure.canvas.place(fork) - x);
    return inside.reduce((best, fork) => (far(fork) < far(best) ? fork : best)).index;
  });
  return el("div", {}, controls, figure, forkPanel(chosenFork()));
}

// A panel's heights back as values (streams.py).
function readStream(index) {
  if (index === null || index === undefined) return undefined;
  const log = ledger.streams[index];
  const values = ({ floor, cap }, heights) =>
    Array.from(heights, (height) => (height === 255 ? null : floor + ((cap - floor) * height) / 254));
  const panels = log.panels.map((one) =>
    one.mean ? { ...one, ...Object.fromEntries(["low", "mean", "high"].map((key) => [key, values(one, one[key])])) } : one,
  );
  return { ...log, panels, level: values({ floor: 0, cap: 1 }, log.level) };
}

function streamCaption(inside, log) {
  const stems = "Stems run from HOLD (○) to UPDATE (▲ helped, ▼ hurt)";
  const absent = ledger.study ? "this copy of the study came without its streams" : "a flat table has the forks alone";
  if (!log) return `n = ${inside.length} forks. No stream: ${absent}. ${stems}.`;
  const lost = log.panels
    .filter(({ non_finite }) => non_finite)
    .map(({ name, non_finite }) => ` ${whole(non_finite)} values of ${name} are not finite and not drawn.`);
  return `n = ${inside.length} forks, ${whole(log.steps)} control steps, ${log.episode_return.length} episodes. ${stems}, means over the paired episodes; the grey steps are the episodes of the frozen model on its way. Below: means of ${log.width} steps with their range, cut where it leaves the axis. The shaded segment is what a trigger sees before the chosen fork.${lost.join("")}`;
}

function drawStream(canvas, width, inside, log) {
  const [left, right] = [GUTTER, width - 10];
  const stepOf = (fork) => (log && fork.step ? fork.step : fork.k);
  const x = linear(log ? [0, log.steps] : [0.5, Math.max(...inside.map((fork) => fork.k)) + 0.5], [left, right]);
  const seen = log ? log.episode_steps : 1;
  const heights = log ? [150, ...log.panels.map(({ mean }) => (mean ? 84 : 20)), 64] : [190];
  const bottom = heights.reduce((sum, height) => sum + height + 34, 28) - 34;
  const from = x(Math.max(x.domain[0], stepOf(chosenFork()) - seen));
  const at = x(stepOf(chosenFork()));
  let top = 28;
  const panel = (draw) => {
    const height = heights.shift();
    // Panel by panel: a line through all of them would strike the words between.
    const segment = { x: from, y: top, width: Math.max(2, at - from), height };
    add(canvas, log && svg("rect", { class: "segment", ...segment }), line("here", at, top, at, top + height));
    draw(top, top + height);
    top += height + 34;
  };
  panel((top, bottom) => drawReturns(canvas, inside, log, { x, stepOf, left, right, top, bottom }));
  for (const one of log ? log.panels : [])
    panel((top, bottom) => drawBins(canvas, one, log, { x, left, right, top, bottom }));
  if (log)
    panel((top, bottom) => {
      const y = linear([-0.05, 1.05], [bottom, top]);
      const points = log.level.map((value, index) => [x(index * log.width), isNumber(value) ? y(value) : null]);
      add(
        canvas,
        axisY(y, { x: left, right, top, words: "drift level g (0 to 1)", count: 2 }),
        svg("path", { class: "level", d: path(points) }),
      );
    });
  const words = log ? "control steps since deployment" : "decision point k";
  // Decision points are counted: there is none between two.
  const counted = log ? null : steps(1, x.domain[1] - 0.5, 8).filter(Number.isInteger);
  if (counted) x.ticks = () => counted;
  add(canvas, axisX(x, { y: bottom, words, count: width < 500 ? 4 : 8, width: right }));
  canvas.place = (fork) => x(stepOf(fork));
  return bottom + 40;
}

function drawReturns(canvas, inside, log, { x, stepOf, left, right, top, bottom }) {
  const deployed = log ? log.episode_return : [];
  const y = linear(extent([...inside.flatMap((fork) => [fork.r_hold, fork.r_update]), ...deployed]), [bottom, top]);
  add(canvas, axisY(y, { x: left, right, top, words: "return per episode", count: 4 }));
  deployed.forEach((value, index) => {
    const [from, to] = [x(index * log.episode_steps), x((index + 1) * log.episode_steps)];
    if (isNumber(value)) add(canvas, line("deployed", from, y(value), to, y(value)));
  });
  for (const fork of inside) {
    const [at, size] = [x(stepOf(fork)), fork === chosenFork() ? 7 : 5];
    const stem = { x1: at, x2: at, y1: y(fork.r_hold), y2: y(fork.r_update), stroke: colour(fork) };
    if (!isScored(fork)) add(canvas, label("lost", at, bottom - 4, "middle", "×"));
    else
      add(
        canvas,
        svg("line", { class: "stem", ...stem }),
        dot("held", at, y(fork.r_hold), size - 2),
        mark(sideOf(fork), at, y(fork.r_update), size, { fill: colour(fork) }),
      );
  }
}

function drawBins(canvas, { name, words, low, mean, high, floor, cap }, log, { x, left, right, top, bottom }) {
  if (!mean) {
    add(
      canvas,
      label("label", 0, top - 8, "start", words),
      label("absent", left, (top + bottom) / 2 + 4, "start", `undefined: this agent logged no ${name}`),
    );
    return;
  }
  const y = linear([floor, cap], [bottom, top]);
  const place = (index) => x(Math.min(log.steps, (index + 0.5) * log.width));
  const clip = (value) => (isNumber(value) ? y(Math.min(value, cap)) : null);
  add(
    canvas,
    mean.map(
      (value, index) =>
        isNumber(value) && line("range", place(index), clip(low[index]), place(index), clip(high[index])),
    ),
    axisY(y, { x: left, right, top, words, count: 3 }),
    // Last: a line of the grid would cut the curve.
    svg("path", { class: "trace", d: path(mean.map((value, index) => [place(index), clip(value)])) }),
  );
}

function forkPanel(fork) {
  const { digits, cells, triggers } = part();
  const side = sideOf(fork);
  const seen = ({ signal, fired }) =>
    !signal
      ? fired.all_attempted[fork.index]
        ? "alarm"
        : "no alarm"
      : isNumber(signal[fork.index])
        ? brief(signal[fork.index])
        : "missing: it never fires";
  const number = (value) => (isNumber(value) ? brief(value) : "not finite");
  const folded = (words, inside) => el("details", {}, el("summary", {}, words), inside);
  const episodes = (fork.hold || []).map((hold, row) => [row + 1, brief(hold), brief(fork.update[row])]);
  return el(
    "aside",
    {
      class: "panel fork-panel",
      id: "fork",
      "aria-live": "polite",
      "data-k": fork.k,
      "data-delta": fork.delta ?? "undefined",
    },
    el("h3", {}, `Fork #${fork.index}`, el("small", {}, `${cellName(cells[fork.cell])} · k = ${fork.k}`)),
    el(
      "p",
      { class: `big ${side}` },
      isScored(fork) ? `${GLYPH[side]} ${signed(fork.delta, digits)}` : "undefined",
      el("small", {}, isScored(fork) ? `dR, return per episode; ${standing(fork)}` : "dR: an episode's return is not finite"),
    ),
    fork.diverged
      ? el("p", { class: "warning" }, "Diverged: counted among all attempted forks, left out of the retained ones.")
      : null,
    fork.hold
      ? slopes(fork)
      : el(
          "p",
          { class: "small" },
          "Episode returns are not here: the table has the means alone, or the page is of more than 5,000 forks.",
        ),
    watch(fork),
    el(
      "dl",
      {},
      pair(el("span", { class: "branch hold" }, "HOLD"), plain(fork.r_hold, digits)),
      pair(el("span", { class: "branch update" }, "UPDATE"), plain(fork.r_update, digits)),
      fork.draws
        ? pair(`its ${fork.draws.length} draws`, fork.draws.map((value) => plain(value, digits)).join(", "))
        : null,
      fork.level === null ? null : pair("drift level", brief(fork.level)),
      fork.step ? pair("control step", whole(fork.step)) : null,
      fork.env_step ? pair("environment step", whole(fork.env_step)) : null,
    ),
    fork.fit && [
      el("h4", {}, fork.draws ? "What the first draw of the update did" : "What the update did"),
      el(
        "dl",
        {},
        pair("loss", `${number(fork.fit[0])} → ${number(fork.fit[1])}`),
        pair("gradient norm, last step", number(fork.fit[2])),
        pair("parameter shift", number(fork.fit[3])),
        pair("window", `${whole(fork.fit[4])} transitions`),
      ),
      el("p", { class: "small" }, fork.broken || "Nothing was non-finite or unstable: parameters, actions, returns, episodes."),
    ],
    folded(
      `Signals before the fork (${Object.keys(triggers).length})`,
      table(null, Object.entries(triggers).map(([name, trigger]) => [name, seen(trigger)])),
    ),
    fork.hold && folded(`Episode returns (m = ${fork.hold.length} pairs)`, table(["episode", "HOLD", "UPDATE"], episodes, { id: "episodes" })),
    fork.digest && el("p", { class: "small digest" }, "row ", el("code", {}, fork.digest), "…"),
  );
}

// Where a fork stands among all of its task and arm, by dR.
function standing(fork) {
  const scored = part().forks.filter(isScored);
  const worse = scored.filter(({ delta }) => delta < fork.delta).length;
  const better = scored.filter(({ delta }) => delta > fork.delta).length;
  if (!worse) return `the worst of ${whole(scored.length)} forks`;
  if (!better) return `the best of ${whole(scored.length)} forks`;
  return `${whole(worse)} of ${whole(scored.length)} forks are worse`;
}

// The fork's own video where there is one, or what to type for it.
function watch(fork) {
  const id = part().cells[fork.cell].id;
  const films = [...document.querySelectorAll("#watch figure")].filter(
    ({ dataset }) => dataset.cell && dataset.cell === id && dataset.k === String(fork.k),
  );
  if (films.length) return films.map((film) => film.firstElementChild.cloneNode(true));
  if (!id) return null;
  if (!ledger.replay) return el("p", { class: "small" }, "No video: replaying a fork needs the models, and this copy of the study came without them. To watch it, run the study from its registration and replay it there (worldfork run, worldfork replay).");
  const command = ledger.replay.replaceAll("CELL", id).replace("--k K", `--k ${fork.k}`).replace("-kK-", `-k${fork.k}-`);
  return el("details", { class: "watch" }, el("summary", {}, "Watch this fork"), el("pre", { tabindex: 0 }, command));
}

// The same episode in both branches, joined: lines that rise are episodes that the update made better.
function slopes(fork) {
  return chart(
    "Paired episode returns",
    (canvas, width) => {
      const [left, right, top, bottom] = [58, width - 58, 22, 168];
      const y = linear(extent([...fork.hold, ...fork.update]), [bottom, top]);
      const joined = (kind, hold, update) => line(kind, left, y(hold), right, y(update));
      add(
        canvas,
        axisY(y, { x: 44, right: width - 44, top, words: "", count: 4 }),
        label("branch hold", left, 12, "middle", "HOLD"),
        label("branch update", right, 12, "middle", "UPDATE"),
        fork.hold.map((hold, index) => {
          const update = fork.update[index];
          const kind = update > hold ? "help" : update < hold ? "hurt" : "even";
          return isNumber(hold) && isNumber(update) && joined(`pair ${kind}`, hold, update);
        }),
        isScored(fork) && [
          joined("pair-mean", fork.r_hold, fork.r_update),
          dot("mean first", left, y(fork.r_hold), 4),
          dot("mean first", right, y(fork.r_update), 4),
        ],
      );
      return bottom + 12;
    },
    `m = ${fork.hold.length} paired episodes, return per episode; UPDATE is better in ${fork.better} of them. Thick: the means.`,
    () => [["episode", "HOLD", "UPDATE"], ...fork.hold.map((hold, row) => [row + 1, hold, fork.update[row]])],
  );
}
