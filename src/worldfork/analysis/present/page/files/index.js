// The index: studies that fit what a reader looks for, in the order that was asked for.

const studies = [...document.querySelectorAll(".study")];
const control = (name) => document.getElementById(name);
const controls = ["find", "task", "verdict", "sort"].map(control);

const ORDERS = {
  given: () => 0,
  name: (one, other) => one.dataset.name.localeCompare(other.dataset.name),
  forks: (one, other) => other.dataset.forks - one.dataset.forks,
  gain: (one, other) => other.dataset.largest - one.dataset.largest,
};

function show() {
  const [find, task, verdict, sort] = controls.map(({ value }) => value);
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ dataset, textContent }) =>
    words.every((word) => textContent.toLowerCase().includes(word)) &&
    (!task || dataset.tasks.split(" ").includes(task)) &&
    (!verdict || dataset.kinds.split(" ").includes(verdict));
  for (const study of studies) study.hidden = !fits(study);
  for (const study of [...studies].sort(ORDERS[sort])) study.parentElement.append(study);
  for (const one of document.querySelectorAll("[data-task]")) one.hidden = Boolean(task) && one.dataset.task !== task;
  const count = studies.filter(({ hidden }) => !hidden).length;
  control("count").textContent = `${count} of ${studies.length} studies`;
}

for (const one of controls) one.addEventListener("input", show);
show();
document.documentElement.dataset.ready = "true";
