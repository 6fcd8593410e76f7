// The reader's choices, kept in the address: a reload or a link comes back to the page as it was left.

const state = {
  part: 0,
  fork: 0,
  trigger: null,
  side: "all_attempted",
  threshold: null,
  sort: "delta",
  order: "up",
  show: "all",
  find: "",
  theme: null,
  at: null,
};
const listeners = [];
const part = () => ledger.parts[state.part];
const chosenFork = () => part().forks[state.fork];

function change(next) {
  const before = { ...state };
  Object.assign(state, next);
  if (state.part !== before.part) Object.assign(state, { fork: 0, trigger: null, threshold: null, ...next });
  settleState();
  try {
    history.replaceState(null, "", addressOf({}));
  } catch {
    // Inside a notebook the page has no address of its own.
  }
  for (const listener of listeners) listener(Object.keys(state).filter((key) => state[key] !== before[key]));
}

// The address of the page as it is, or as it would be with other choices.
function addressOf(next) {
  const words = Object.entries({ ...state, ...next }).filter(([, value]) => value !== null && value !== "");
  return "#" + words.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
}

function settleState() {
  const within = (value, count) => Math.min(Math.max(0, Math.trunc(value) || 0), count - 1);
  state.part = within(state.part, ledger.parts.length);
  state.fork = within(state.fork, part().forks.length);
  const names = Object.keys(part().triggers);
  if (!names.includes(state.trigger)) {
    state.trigger = names.find((name) => part().triggers[name].signal) || names[0] || null;
    state.threshold = null;
  }
  if (state.side !== "retained") state.side = "all_attempted";
  if (state.order !== "down") state.order = "up";
  if (!["light", "dark"].includes(state.theme)) state.theme = null;
}

function readAddress() {
  for (const word of location.hash.slice(1).split("&")) {
    const [key, value] = word.split("=");
    if (!(key in state) || value === undefined) continue;
    let text = value;
    try {
      text = decodeURIComponent(value);
    } catch {
      continue; // a link that was cut short
    }
    state[key] = ["part", "fork"].includes(key) ? Number(text) : key === "threshold" ? readThreshold(text) : text;
  }
  settleState();
}

// "fitted" (leave-one-checkpoint-out), a number, or an infinity.
const readThreshold = (text) => (text === "fitted" ? text : text === "" || Number.isNaN(Number(text)) ? null : Number(text));

