// Puts the sections on the page, draws anew what a choice concerns, and keeps a live page up to date.

const SECTIONS = {
  "evidence-body": { draw: evidenceSection, of: ["part", "fork"] },
  "stream-body": { draw: streamSection, of: ["part", "fork"] },
  "threshold-body": { draw: thresholdSection, of: ["part", "trigger", "side"] },
  "contraction-body": { draw: contractionSection, of: ["part"] },
};

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
  for (const [id, { of }] of Object.entries(SECTIONS)) if (of.some((key) => changed.includes(key))) drawSection(id);
  if (changed.includes("threshold")) byId("threshold-body").firstChild?.refresh?.();
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
  for (const node of document.querySelectorAll("button[data-to-part]"))
    node.addEventListener("click", () => {
      change({ part: Number(node.dataset.toPart) });
      byId("evidence").scrollIntoView();
    });
  // Inside a notebook a fragment would lead to the notebook's own address.
  for (const link of document.querySelectorAll("a[href^='#']"))
    link.addEventListener("click", (event) => {
      if (location.protocol === "about:") event.preventDefault();
      byId(link.getAttribute("href").slice(1))?.scrollIntoView();
    });
  const root = document.documentElement;
  byId("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || dark) === "dark" ? "light" : "dark";
  });
}

function downloads() {
  for (const { name, base64, bytes } of JSON.parse(byId("tables").textContent)) {
    const data = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const href = URL.createObjectURL(new Blob([data], { type: "application/octet-stream" }));
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
choices();
for (const id of Object.keys(SECTIONS)) drawSection(id);
showChosen();
downloads();
live();
document.documentElement.dataset.ready = "true";
