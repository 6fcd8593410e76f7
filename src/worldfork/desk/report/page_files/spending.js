// Where the uncertainty comes from, and what more episodes would buy, by what they are spent on.

function spending() {
  const known = ledger.parts.filter((one) => !one.figures.design.why);
  if (!known.length) return null;
  const spread = (variance) => (isNumber(variance) && variance < 0 ? "none" : plain(Math.sqrt(variance), 1));
  return tabled(
    "Where the uncertainty lies, all attempted forks: standard deviation of dR between checkpoints, forks and paired episodes; standard error of the mean dR now, with four times the paired episodes spent on one of the three, and with no limit to it; factor in episodes that common random numbers are worth",
    [
      ...["", "sd checkpoints", "sd forks", "sd episodes", "error now", "4 × checkpoints", "4 × forks", "4 × episodes"],
      ...["∞ forks", "∞ episodes", "common numbers"],
    ],
    known.map((one) => {
      const { variance_components: parts, design, crn } = one.figures;
      const at = design.standard_error_at;
      const error = (value) => el("td", {}, plain(value, one.digits + 1));
      return el(
        "tr",
        {},
        el("th", {}, partName(one)),
        ["checkpoint", "fork", "episode"].map((name) => el("td", {}, spread(parts[name]))),
        error(design.standard_error),
        ["checkpoints", "forks", "episodes"].map((axis) => error(at["4"][axis])),
        error(at.unlimited.forks),
        error(at.unlimited.episodes),
        el("td", {}, shown(crn.gain, `× ${plain(crn.gain, 2)}`)),
      );
    }),
  );
}
