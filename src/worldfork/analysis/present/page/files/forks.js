// Every fork as a line: sorted by a column, some of them shown, each a link to itself.

const LINES = 25;
section("forks-body", ["part", "side", "trigger", "sort", "order", "show", "find"], forksSection);

const SHOWN = {
  all: () => true,
  helped: (fork) => fork.delta > 0,
  hurt: (fork) => fork.delta < 0,
  diverged: (fork) => fork.diverged,
};

// Every column: its name, what it sorts by, how it is read.
function forkColumns() {
  const { digits, cells, triggers } = part();
  const signal = state.trigger && triggers[state.trigger].signal;
  const seeds = new Set(cells.map((cell) => cell.stream_seed)).size > 1;
  const levels = part().forks.some((fork) => fork.level !== null);
  const number = (key) => ({ key, of: (fork) => fork[key], words: (fork) => plain(fork[key], digits) });
  return [
    {
      key: "delta",
      head: "dR",
      of: (fork) => fork.delta,
      words: (fork) => el("b", { class: sideOf(fork) }, `${GLYPH[sideOf(fork)]} ${signed(fork.delta, digits)}`),
    },
    { key: "checkpoint", of: (fork) => cells[fork.cell].checkpoint },
    { key: "direction", of: (fork) => cells[fork.cell].direction },
    seeds && { key: "stream_seed", head: "seed", of: (fork) => cells[fork.cell].stream_seed },
    { key: "k", of: (fork) => fork.k },
    levels && { key: "level", head: "drift", of: (fork) => fork.level, words: (fork) => brief(fork.level) },
    { ...number("r_hold"), head: "HOLD" },
    { ...number("r_update"), head: "UPDATE" },
    signal && { key: "signal", head: state.trigger, of: (fork) => signal[fork.index], words: (fork) => brief(signal[fork.index]) },
  ].filter(Boolean);
}

const forkRows = (forks) => {
  const columns = forkColumns();
  return [columns.map(({ key, head }) => (key === "delta" ? "dR" : key === "signal" ? head : key)), ...forks.map((fork) => columns.map(({ of }) => of(fork)))];
};

function listedForks() {
  const column = forkColumns().find(({ key }) => key === state.sort) || { of: (fork) => fork.delta };
  const words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (fork) => {
    const cell = part().cells[fork.cell];
    const text = `${cell.checkpoint} ${cell.direction} ${cell.stream_seed} k${fork.k} ${forkName(fork)}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const kept = part().forks.filter(
    (fork) => (SHOWN[state.show] || SHOWN.all)(fork) && (state.side === "all_attempted" || !fork.diverged) && matches(fork),
  );
  const by = (fork) => column.of(fork);
  const numeric = kept.every((fork) => by(fork) === null || !Number.isNaN(Number(by(fork))));
  const compared = (one, other) => {
    const [a, b] = [by(one), by(other)];
    if (a === null || b === null) return (a === null) - (b === null);
    const order = numeric ? Number(a) - Number(b) : String(a).localeCompare(String(b));
    return (state.order === "down" ? -order : order) || one.index - other.index;
  };
  return kept.sort(compared);
}

function forksSection() {
  const forks = listedForks();
  const columns = forkColumns();
  const body = el("tbody");
  const count = el("p", { class: "small", "aria-live": "polite" });
  let first = 0;
  const buttons = [
    button("← previous", () => turn(first - LINES)),
    button("next →", () => turn(first + LINES)),
  ];
  const turn = (to) => {
    first = Math.max(0, Math.min(to, forks.length - 1));
    body.replaceChildren(...forks.slice(first, first + LINES).map((fork) => forkLine(fork, columns)));
    const last = Math.min(first + LINES, forks.length);
    count.textContent = forks.length
      ? `${whole(first + 1)} to ${whole(last)} of n = ${whole(forks.length)} forks.`
      : "n = 0 forks: none is of this kind.";
    buttons[0].disabled = first === 0;
    buttons[1].disabled = last >= forks.length;
  };
  const heads = columns.map(({ key, head = key }) => {
    const sorted = state.sort === key;
    const order = sorted && state.order === "up" ? "down" : "up";
    const words = `${head}${sorted ? (state.order === "up" ? " ↑" : " ↓") : ""}`;
    const spoken = sorted ? (state.order === "up" ? "ascending" : "descending") : "none";
    return el("th", { "aria-sort": spoken }, button(words, () => change({ sort: key, order }), { class: "head", "data-sort": key }));
  });
  const find = el("input", {
    type: "text",
    value: state.find,
    size: 18,
    placeholder: "checkpoint 2 away",
    onchange: (event) => change({ find: event.target.value }),
  });
  const kinds = ["all", "helped", "hurt", ...(part().forks.some((fork) => fork.diverged) ? ["diverged"] : [])];
  const controls = el(
    "div",
    { class: "controls" },
    select("Show", kinds.map((kind) => [kind, kind]), state.show, (show) => change({ show })),
    el("label", { class: "select" }, el("span", {}, "Find"), find),
    csvButton("forks", () => forkRows(forks)),
  );
  turn(0);
  const list = el("table", { class: "forks" }, el("thead", {}, el("tr", {}, el("th", {}, "fork"), heads)), body);
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Every fork" }, list);
  hint.observe(box);
  return el("div", {}, controls, box, el("div", { class: "controls pages" }, buttons, count));
}

function forkLine(fork, columns) {
  const link = el("a", { href: addressOf({ fork: fork.index, at: "stream" }) }, `#${fork.index}`);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    goTo("stream", { fork: fork.index });
  });
  return el(
    "tr",
    { "data-fork": fork.index },
    el("th", {}, link, fork.diverged && el("span", { class: "small" }, " diverged")),
    columns.map(({ of, words }) => el("td", {}, words ? words(fork) : of(fork))),
  );
}
