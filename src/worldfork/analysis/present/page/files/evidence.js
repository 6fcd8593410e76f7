// The map of all forks: one square each, chosen by pointer or arrow keys. Of hundreds of cells, the worst and the best.

const MOST_CELLS = 80;
section("evidence-body", ["part", "fork"], evidenceSection);

function evidenceSection() {
  const { digits, full_colour: full } = part();
  const cells = mappedCells();
  const rowOf = new Map(cells.map((cell, row) => [cell.index, row]));
  const forks = part().forks.filter((fork) => rowOf.has(fork.cell));
  const points = forks.reduce((most, fork) => Math.max(most, fork.k), 1);
  const seeds = new Set(cells.map((cell) => cell.stream_seed)).size > 1;
  const map = chart(
    "dR of every fork: arrow keys choose a fork",
    (canvas, width) => {
      const narrow = width < 560;
      const high = cells.length > 20 ? 15 : 22;
      const [left, right] = narrow ? [64, width - 56] : [196, width - 70];
      const wide = (right - left) / points;
      let y = 22;
      const tops = cells.map((cell, index) => {
        if (index && cell.direction !== cells[index - 1].direction) y += 10;
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
    `n = ${whole(forks.length)} forks in ${cells.length} cells${cells.length < part().cells.length ? ` of ${part().cells.length}: those with the least and the largest mean dR; the list below has all` : ""}, k = 1 to ${points}. Colour is dR in return per episode, at its fullest from ±${plain(full, digits)} on.${forks.some((fork) => sideOf(fork) === "even") ? " An empty box: dR is 0." : ""} A cross marks a diverged fork, or one without a dR.`,
    () => forkRows(part().forks),
  );
  map.canvas.setAttribute("tabindex", "0");
  map.canvas.setAttribute("role", "group");
  map.canvas.addEventListener("keydown", (event) => walkByKey(event, cells.map(({ index }) => index)));
  pointAtForks(map.canvas, (event) => (event.target.dataset?.fork ? Number(event.target.dataset.fork) : null));
  return map;
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
