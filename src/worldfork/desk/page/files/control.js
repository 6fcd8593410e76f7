// A policy against chance: the same number of fires in every cell, placed at random (docs/scoring.md).
//
// For one cell and one draw, dR is put in random order, and n fires there earn the sum of the first n. The sums are
// kept for every n, so that moving a threshold only looks them up.

const DRAWS = 10000;
const kept = new Map();

// A small generator with a fixed seed: the same page shows the same distribution on every machine.
function generator(seed) {
  let word = seed >>> 0;
  return () => {
    word = (word + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(word ^ (word >>> 15), word | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const scoredForks = (current, side) =>
  current.forks
    .map((one, index) => ({ one, index }))
    .filter(({ one }) => isScored(one) && (side === "all_attempted" || !one.diverged));

function randomOrders(index, side) {
  const key = `${index} ${side}`;
  if (kept.has(key)) return kept.get(key);
  const current = ledger.parts[index];
  const cells = current.cells.map(() => []);
  for (const { one, index: place } of scoredForks(current, side)) cells[one.cell].push([place, one.delta]);
  const forks = cells.reduce((sum, cell) => sum + cell.length, 0);
  const draws = Math.max(200, Math.min(DRAWS, Math.floor(4e6 / Math.max(1, forks))));
  const random = generator(20 + index);
  const found = {
    draws,
    cells: cells
      .filter((cell) => cell.length)
      .map((cell) => {
        const size = cell.length;
        const sums = new Float64Array(draws * (size + 1));
        const turns = new Uint16Array(draws);
        const order = cell.map(([, delta]) => delta);
        for (let draw = 0; draw < draws; draw++) {
          let sum = 0;
          for (let place = 0; place < size; place++) {
            const other = place + Math.floor(random() * (size - place));
            [order[place], order[other]] = [order[other], order[place]];
            sum += order[place];
            sums[draw * (size + 1) + place + 1] = sum;
          }
          turns[draw] = Math.floor(random() * size);
        }
        return { forks: cell.map(([place]) => place), delta: cell.map(([, delta]) => delta), sums, turns };
      }),
  };
  kept.set(key, found);
  return found;
}

// What chance earns with as many fires in every cell: by permutation, and by moving the fires around the cell.
function control(index, side, fired) {
  const { draws, cells } = randomOrders(index, side);
  const permuted = new Float64Array(draws);
  const shifted = new Float64Array(draws);
  for (const cell of cells) {
    const size = cell.forks.length;
    const flags = cell.forks.map((place) => fired[place]);
    const fires = flags.filter(Boolean).length;
    const moved = cell.delta.map((_, turn) =>
      cell.delta.reduce((sum, delta, place) => sum + (flags[(place - turn + size) % size] ? delta : 0), 0),
    );
    for (let draw = 0; draw < draws; draw++) {
      permuted[draw] += cell.sums[draw * (size + 1) + fires];
      shifted[draw] += moved[cell.turns[draw]];
    }
  }
  return { draws, permuted, shifted };
}

function judge(observed, totals) {
  const enough = observed - 1e-9 * Math.max(1, Math.abs(observed));
  let reached = 0;
  let sum = 0;
  for (const total of totals) {
    if (total >= enough) reached++;
    sum += total;
  }
  const sorted = Float64Array.from(totals).sort();
  const quantile = (share) => {
    const place = share * (sorted.length - 1);
    const low = Math.floor(place);
    return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (place - low);
  };
  return {
    mean: sum / totals.length,
    interval: [quantile(0.025), quantile(0.975)],
    p: (1 + reached) / (1 + totals.length),
  };
}

// Mean and standard deviation of chance without drawing: n of N without replacement, cell by cell.
function expectation(cells, fires) {
  let [mean, variance] = [0, 0];
  cells.forEach((cell, index) => {
    const [size, n] = [cell.delta.length, fires[index]];
    const average = cell.delta.reduce((sum, delta) => sum + delta, 0) / size;
    mean += n * average;
    if (size > 1)
      variance +=
        ((n * (size - n)) / (size - 1)) *
        (cell.delta.reduce((sum, delta) => sum + (delta - average) ** 2, 0) / size);
  });
  return [mean, Math.sqrt(variance)];
}
