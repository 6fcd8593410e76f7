// Puts the sections on the page, draws anew what a choice concerns, and keeps a live page up to date.

// A section that is drawn anew gives the focus back to the control that had it.
function drawSection(id) {
  const place = byId(id);
  const reachable = () => [...place.querySelectorAll("button, select, input, summary, [tabindex]")];
  const focused = reachable().indexOf(document.activeElement);
  place.replaceChildren(SECTIONS[id].draw());
  if (focused >= 0) reachable()[focused]?.focus({ preventScroll: true });
}

// What the template printed once per part and set of forks: the chosen one is shown.
function showChosen() {
  for (const node of document.querySelectorAll("[data-of-part], [data-of-side]")) {
    const { ofPart = String(state.part), ofSide = state.side } = node.dataset;
    node.hidden = ofPart !== String(state.part) || ofSide !== state.side;
  }
  for (const box of document.querySelectorAll("select[data-choice]")) box.value = state[box.dataset.choice];
}

listeners.push((changed) => {
  for (const [id, { of, refreshedBy }] of Object.entries(SECTIONS))
    if (of.some((key) => changed.includes(key))) drawSection(id);
    else if (changed.includes(refreshedBy)) byId(id).firstChild?.refresh?.();
  if (changed.includes("theme")) showTheme();
  if (changed.includes("part") || changed.includes("side")) showChosen();
});

function choices() {
  for (const box of document.querySelectorAll("select[data-choice]"))
    box.addEventListener("change", () =>
      change({
        [box.dataset.choice]: box.dataset.choice === "part" ? Number(box.value) : box.value,
        threshold: null,
      }),
    );
  for (const node of document.querySelectorAll("[data-to-part]"))
    node.addEventListener("click", () => {
      const { toPart, toFork } = node.dataset;
      change({ part: Number(toPart) });
      if (toFork !== undefined) goTo("stream", { fork: Number(toFork) });
    });
  // Inside a notebook a fragment would lead to the notebook's own address.
  for (const link of document.querySelectorAll("a[href^='#']"))
    link.addEventListener("click", (event) => {
      if (location.protocol === "about:") event.preventDefault();
      const section = link.getAttribute("href").slice(1);
      if (!section.includes("=") && byId(section)) {
        event.preventDefault();
        goTo(section, {});
      }
    });
  byId("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    change({ theme: (state.theme || dark) === "dark" ? "light" : "dark" });
  });
}

function showTheme() {
  if (state.theme) document.documentElement.dataset.theme = state.theme;
}

// The section that is being read is part of the address, and its group is marked in the head.
function followReader() {
  const sections = [...document.querySelectorAll("main section")];
  let waiting = null;
  const follow = () => {
    const read = sections.findLast((one) => one.getBoundingClientRect().top < 140);
    if (!read || read.id === state.at) return;
    change({ at: read.id });
    for (const link of document.querySelectorAll("nav a"))
      link.toggleAttribute("aria-current", link.dataset.group === read.dataset.group);
  };
  const wait = () => {
    clearTimeout(waiting);
    waiting = setTimeout(follow, 250);
  };
  addEventListener("scroll", wait, { passive: true });
}

function downloads() {
  for (const { name, base64, bytes } of ledger.downloads) {
    const href = URL.createObjectURL(new Blob([bytesOf(base64)], { type: "application/octet-stream" }));
    const size = el("small", {}, ` ${Math.ceil(bytes / 1024)} KB`);
    byId("downloads").append(el("a", { class: "download", href, download: name }, `↓ ${name}`, size));
  }
}

// A live page asks its server, on this machine, whether more rows have arrived; the address keeps the reader's place.
function live() {
  if (ledger.version === null) return;
  byId("status").append(el("span", { class: "live" }, " ● live"));
  setInterval(async () => {
    try {
      const answer = await fetch("version", { cache: "no-store" });
      if (answer.ok && (await answer.text()) !== ledger.version) location.reload();
    } catch {
      byId("status").dataset.live = "stopped";
    }
  }, 3000);
}

readAddress();
showTheme();
choices();
explainTerms();
exportPrinted();
for (const box of document.querySelectorAll(".scroll")) hint.observe(box);
for (const id of Object.keys(SECTIONS)) drawSection(id);
showChosen();
downloads();
live();
if (state.at) byId(state.at)?.scrollIntoView({ behavior: "instant" });
followReader();
document.documentElement.dataset.ready = "true";
