// The map of all forks: one square each, chosen by pointer or arrow keys, below the drift that they met. Of hundreds of
// cells, the worst and the best.

const MOST_CELLS = 80;
section("evidence-body", ["part", "fork"], evidenceSection);

function evidenceSection() {
  const { digits, full_colour: full } = part();
  const cells = mappedCells();
  const rowOf = new Map(cells.map((cell, row) => [cell.index, row]));
  const forks = part().forks.filter((fork) => rowOf.has(fork.cell));
  const points = forks.reduce((most, fork) => Math.max(most, fork.k), 1);
  const drift = driftMet(forks);
  const seeds = new Set(cells.map((cell) => cell.stream_seed)).size > 1;
  const map = chart(
    "dR of every fork: arrow keys choose a fork",
    (canvas, width) => {
      const narrow = width < 560;
      const high = cells.length > 20 ? 15 : 22;
      const [left, right] = narrow ? [64, width - 56] : [196, width - 70];
      const wide = (right - left) / points;
      let y = 22;
      const tops = cells.map(({ direction }, index) => {
        if (direction !== cells[index - 1]?.direction) y = drawDrift(canvas, drift.get(direction), { left, wide, y: y + (index ? 10 : 0) });
        y += high;
        return y - high;
      });
      add(
        canvas,
        label("label", left, 12, "start", "decision point k →"),
        label("label", width, 12, "end", "mean dR"),
        cells.map((cell, index) => {
          const words = narrow
            ? `${shortened(cell.checkpoint, 4)} ${shortened(cell.direction, seeds ? 4 : 6)}${seeds ? ` ${cell.stream_seed}` : ""}`
            : cellName(cell);
          const base = tops[index] + high / 2 + 4;
          return [
            label(
              narrow || high < 20 ? "tight" : "",
              left - 8,
              base,
              "end",
              shortened(words, 32),
              svg("title", {}, cellName(cell)),
            ),
            label("figure", width, base, "end", isNumber(cell.mean) ? signed(cell.mean, digits) : "undef."),
          ];
        }),
        forks.map((fork) => {
          const [x, top] = [left + (fork.k - 1) * wide, tops[rowOf.get(fork.cell)]];
          const square = { x: x + 0.75, y: top + 0.75, width: Math.max(1, wide - 1.5), height: high - 1.5, rx: 2 };
          const crossed = `M${x + 3} ${top + 3}L${x + wide - 3} ${top + high - 3}M${x + wide - 3} ${top + 3}L${x + 3} ${top + high - 3}`;
          return [
            svg("rect", { class: `fork ${sideOf(fork)}`, ...square, fill: colour(fork), "data-fork": fork.index }),
            (fork.diverged || !isScored(fork)) && svg("path", { class: "cross", d: crossed }),
          ];
        }),
      );
      const { k, cell } = chosenFork();
      const top = tops[rowOf.get(cell)];
      const ring = { x: left + (k - 1) * wide - 1, y: top - 1, width: wide + 2, height: high + 2, rx: 3 };
      if (top !== undefined) add(canvas, svg("rect", { class: "chosen", ...ring }));
      return y + 6;
    },
    `n = ${whole(forks.length)} forks in ${cells.length} cells${cells.length < part().cells.length ? ` of ${part().cells.length}: those with the least and the largest mean dR; the list below has all` : ""}, k = 1 to ${points}. The fuller the colour, the larger dR (return per episode), up to ±${plain(full, digits)}.${forks.some((fork) => sideOf(fork) === "even") ? " An empty box: dR is 0." : ""} A cross: a diverged fork, or one without a dR.${drift.values().next().value?.size ? " Above the boxes of each direction: the drift that they met, 0 to 1." : ""}`,
    () => forkRows(part().forks),
  );
  map.canvas.setAttribute("tabindex", "0");
  map.canvas.setAttribute("role", "group");
  map.canvas.addEventListener("keydown", (event) => walkByKey(event, cells.map(({ index }) => index)));
  pointAtForks(map.canvas, (event) => (event.target.dataset?.fork ? Number(event.target.dataset.fork) : null));
  return map;
}

// The least and the largest drift level of each direction and decision point; empty where a table has none.
function driftMet(forks) {
  const met = new Map();
  for (const { cell, k, level } of forks) {
    const { direction } = part().cells[cell];
    if (!met.has(direction)) met.set(direction, new Map());
    const [least, most] = met.get(direction).get(k) || [1, 0];
    if (level !== null) met.get(direction).set(k, [Math.min(least, level), Math.max(most, level)]);
  }
  return met;
}

// The track above the rows of a direction; returns where these begin.
function drawDrift(canvas, levels, { left, wide, y }) {
  if (!levels.size) return y;
  const height = 18;
  add(
    canvas,
    label("tight", left - 8, y + height - 4, "end", "drift level"),
    [...levels].map(([k, [least, most]]) => {
      const x = left + (k - 1) * wide;
      const words = least === most ? brief(least) : `${brief(least)} to ${brief(most)}`;
      return [
        svg("rect", { class: "band", x, y: y + height * (1 - least), width: wide, height: height * least }, svg("title", {}, `k = ${k}: drift level ${words}`)),
        line("level", x, y + height * (1 - most), x + wide, y + height * (1 - most)),
      ];
    }),
  );
  return y + height + 4;
}

// Left and right along a stream, up and down to the same decision point of the neighbouring cell in this order.
function walkByKey(event, order = part().cells.map((_, index) => index)) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  const [{ forks }, here] = [part(), chosenFork()];
  const cell = step[1] ? order[order.indexOf(here.cell) + step[1]] : here.cell;
  const inside = forks.filter((fork) => fork.cell === cell);
  const next = step[0]
    ? forks[state.fork + step[0]]
    : inside.sort((a, b) => Math.abs(a.k - here.k) - Math.abs(b.k - here.k))[0];
  if (next && next.cell === cell) change({ fork: next.index });
}

function mappedCells() {
  const cells = part().cells.map((cell, index) => ({ ...cell, index }));
  if (cells.length <= MOST_CELLS) return cells;
  const sorted = cells.filter(({ mean }) => isNumber(mean)).sort((one, other) => one.mean - other.mean);
  const extremes = [...sorted.slice(0, MOST_CELLS / 2), ...sorted.slice(-MOST_CELLS / 2)];
  // Each direction by itself, from the least mean to the largest.
  const directions = [...new Set(cells.map(({ direction }) => direction))];
  return directions.flatMap((direction) => extremes.filter((cell) => cell.direction === direction));
}
