// Puts the sections on the page, draws anew what a choice concerns, and keeps a live page up to date.

const SECTIONS = {
  "evidence-body": { draw: () => el("div", {}, evidence(), quartiles()), of: ["part", "fork"] },
  "stream-body": { draw: streamSection, of: ["part", "fork"] },
  "threshold-body": { draw: thresholdSection, of: ["part", "trigger", "side"] },
  "policies-body": { draw: policiesSection, of: ["part", "side"] },
  "contraction-body": { draw: contractionSection, of: ["part"] },
  "compare-body": { draw: compareSection, of: ["side"] },
};

// A section that is drawn anew gives the focus back to the control that had it.
function drawSection(id) {
  const place = byId(id);
  const reachable = () => [...place.querySelectorAll("button, select, input, summary, [tabindex]")];
  const focused = reachable().indexOf(document.activeElement);
  place.replaceChildren(SECTIONS[id].draw());
  if (focused >= 0 && reachable()[focused]) reachable()[focused].focus({ preventScroll: true });
}

function drawChooser() {
  const options = ledger.parts.map((one, index) => [index, partName(one)]);
  byId("chooser").replaceChildren(
    ...(ledger.parts.length > 1
      ? [
          select("Everything down to “Side by side” is about", options, state.part, (index) =>
            change({ part: Number(index) }),
          ),
        ]
      : []),
  );
}

onChange((before) => {
  const changed = Object.keys(state).filter((key) => state[key] !== before[key]);
  for (const [id, { of }] of Object.entries(SECTIONS)) if (of.some((key) => changed.includes(key))) drawSection(id);
  const body = byId("threshold-body").firstChild;
  if (changed.includes("threshold") && body && body.refresh) body.refresh();
  if (changed.includes("part")) drawChooser();
});

function downloads() {
  byId("downloads").replaceChildren(
    ...JSON.parse(byId("tables").textContent).map((table) => {
      const bytes = Uint8Array.from(atob(table.base64), (character) => character.charCodeAt(0));
      const link = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
      return el(
        "a",
        { class: "download", href: link, download: table.name },
        `↓ ${table.name}`,
        el("small", {}, ` ${Math.ceil(Number(table.bytes) / 1024)} KB`),
      );
    }),
  );
}

function theme() {
  const root = document.documentElement;
  const dark = () =>
    (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
  });
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
for (const article of document.querySelectorAll("[data-forest]"))
  article.append(forest(Number(article.dataset.forest)));
drawChooser();
for (const id of Object.keys(SECTIONS)) drawSection(id);
downloads();
theme();
live();
document.documentElement.dataset.ready = "true";
