// The map of all forks: one square each, chosen by pointer or arrow keys.

function evidenceSection() {
  const { cells, forks, digits, full_colour: full } = part();
  const points = Math.max(...forks.map((fork) => fork.k));
  const seeds = new Set(cells.map((cell) => cell.stream_seed)).size > 1;
  const map = chart(
    "dR of every fork: arrow keys choose a fork",
    (canvas, width) => {
      const narrow = width < 560;
      const high = cells.length > 20 ? 15 : 22;
      const [left, right] = narrow ? [64, width - 46] : [196, width - 70];
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
            : seeds
              ? cellName(cell)
              : `checkpoint ${cell.checkpoint} · ${cell.direction}`;
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
        forks.map((fork, index) => {
          const [x, top] = [left + (fork.k - 1) * wide, tops[fork.cell]];
          const square = { x: x + 0.75, y: top + 0.75, width: Math.max(1, wide - 1.5), height: high - 1.5, rx: 2 };
          const crossed = `M${x + 3} ${top + 3}L${x + wide - 3} ${top + high - 3}M${x + wide - 3} ${top + 3}L${x + 3} ${top + high - 3}`;
          return [
            svg("rect", { class: `fork ${sideOf(fork)}`, ...square, fill: colour(fork), "data-fork": index }),
            (fork.diverged || !isScored(fork)) && svg("path", { class: "cross", d: crossed }),
          ];
        }),
      );
      const { k, cell } = chosenFork();
      const ring = { x: left + (k - 1) * wide - 1, y: tops[cell] - 1, width: wide + 2, height: high + 2, rx: 3 };
      add(canvas, svg("rect", { class: "chosen", ...ring }));
      return y + 6;
    },
    `n = ${forks.length} forks in ${cells.length} cells, k = 1 to ${points}. Colour is dR in return per episode, full from ±${plain(full, digits)}. A cross marks a diverged fork, or one without a dR.`,
  );
  map.canvas.setAttribute("tabindex", "0");
  map.canvas.setAttribute("role", "group");
  map.canvas.addEventListener("keydown", walkByKey);
  pointAtForks(map.canvas, (event) => (event.target.dataset?.fork ? Number(event.target.dataset.fork) : null));
  return map;
}

// Left and right along a stream, up and down to the same decision point of the neighbouring cell.
function walkByKey(event) {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  const [{ forks }, here] = [part(), chosenFork()];
  const inside = forks.filter((fork) => fork.cell === here.cell + step[1]);
  const next = step[0]
    ? forks[state.fork + step[0]]
    : inside.sort((a, b) => Math.abs(a.k - here.k) - Math.abs(b.k - here.k))[0];
  if (next && next.cell === here.cell + step[1]) change({ fork: forks.indexOf(next) });
}
