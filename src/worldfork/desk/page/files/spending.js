// Where the uncertainty comes from, and what more episodes would buy, by what they are spent on.

function spending() {
  const known = ledger.parts.filter((one) => !one.figures.design.why);
  if (!known.length) return null;
  const spread = (variance) => (isNumber(variance) && variance < 0 ? "none" : plain(Math.sqrt(variance), 1));
  return tabled(
    "Where the uncertainty lies, all attempted forks: standard deviation of dR between checkpoints, between decision points (which the design fixes), between forks otherwise, and between paired episodes; standard error of the mean dR now, with four times the paired episodes spent on one of the three, and with no limit to it; factor in episodes that common random numbers are worth",
    [
      ...["", "sd checkpoints", "points", "forks", "episodes", "error now", "4 × checkpoints", "4 × forks"],
      ...["4 × episodes", "∞ forks", "∞ episodes", "common numbers"],
    ],
    known.map((one) => {
      const { design, crn } = one.figures;
      const { components: parts, standard_error_at: at } = design;
      const error = (value) => el("td", {}, plain(value, one.digits + 1));
      return el(
        "tr",
        {},
        el("th", {}, partName(one)),
        ["checkpoint", "decision_point", "fork", "episode"].map((name) =>
          el("td", {}, shown(parts[name], spread(parts[name]))),
        ),
        error(design.standard_error),
        ["checkpoints", "forks", "episodes"].map((axis) => error(at["4"][axis])),
        error(at.unlimited.forks),
        error(at.unlimited.episodes),
        el("td", {}, shown(crn.gain, `× ${plain(crn.gain, 2)}`)),
      );
    }),
  );
}
