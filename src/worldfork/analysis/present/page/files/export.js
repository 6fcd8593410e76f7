// Every chart and table as a file of comma-separated values, made in the page when it is asked for.

function csv(rows) {
  const spelled = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return rows.map((row) => row.map(spelled).join(",")).join("\n") + "\n";
}

function download(name, rows) {
  const file = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  const href = URL.createObjectURL(new Blob([csv(rows)], { type: "text/csv" }));
  el("a", { href, download: `${file || "data"}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}

const csvButton = (name, rows) =>
  button("CSV", () => download(name, rows()), { class: "csv", "aria-label": `${name}: data as CSV` });

// What a printed table holds: every digit where a number has more than it shows, and no column that only draws.
function tableRows(table) {
  const value = (cell) => {
    const text = cell.textContent.trim().replace(/\s+/g, " ");
    const data = [...cell.querySelectorAll("data")];
    const shown = data.map((one) => one.textContent.trim()).join(" ");
    return data.length && shown === text ? data.map((one) => one.value).join(" ") : text;
  };
  return [...table.rows]
    .filter((row) => !row.classList.contains("group"))
    .map((row) => [...row.cells].filter((cell) => !cell.classList.contains("wide")).map(value));
}

function exportPrinted() {
  for (const node of document.querySelectorAll(".scroll[data-export]")) {
    const rows = () => tableRows(node.querySelector("table"));
    node.previousElementSibling.append(csvButton(node.dataset.export, rows));
  }
  for (const node of document.querySelectorAll(".picture[data-rows]")) {
    const rows = () => [JSON.parse(node.dataset.heads), ...JSON.parse(node.dataset.rows)];
    node.nextElementSibling.append(" ", csvButton(node.dataset.export, rows));
  }
}
