"""Arms of a study beside one another: differences of their means, and sweeps of one setting, each on one axis."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.view import Axis, Part, Strip, axis, effect_strip
from worldfork.analysis.present.text.arms import ContrastAnswer, contrast_headlines, summarise_pairs
from worldfork.analysis.present.text.formatting import digits_for, listed
from worldfork.analysis.present.text.sweeps import dose_means, noise_words, sweep_name, sweep_words
from worldfork.analysis.score.arms import ArmPair, alike_but_for, compared_pairs
from worldfork.analysis.score.contrasts import Contrast
from worldfork.analysis.score.undefined import Estimands, Figure, Interval, Undefined
from worldfork.registration import Arm

FEWEST: Final = 3  # values that are worth a chart; noises always have one


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two arms on one task: the later less the first."""

    task: str
    later: Part
    first: Part
    contrast: Estimands[Contrast | Undefined]
    answer: ContrastAnswer
    whole: float | None  # the frozen return, where differences are drawn in per cent of it

    @property
    def arms(self) -> str:
        """Both arms, as what is drawn."""
        return f"{self.later.label} less {self.first.label}"

    @property
    def digits(self) -> int:
        """Decimals of the difference."""
        contrast = self.contrast.all_attempted
        return self.later.digits if isinstance(contrast, Undefined) else digits_for(contrast)

    @property
    def strip(self) -> Strip:
        """The difference as it is drawn."""
        contrast = self.contrast.all_attempted
        if isinstance(contrast, Undefined):
            return Strip(mean=contrast)
        interval = contrast.student_t
        if not isinstance(interval, Undefined):
            interval = Interval(*(self._drawn(end) for end in interval))
        dots = [
            value if isinstance(value, Undefined) else self._drawn(value)
            for value in contrast.by_checkpoint.values()
        ]
        mean: Figure = contrast.mean
        if not isinstance(mean, Undefined):
            mean = self._drawn(mean)
        return Strip(mean=mean, student_t=interval, checkpoints=dots)

    def _drawn(self, value: float) -> float:
        return value if self.whole is None else 100 * value / self.whole


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """Every arm against the one that it is compared with, on one axis."""

    comparisons: Sequence[Comparison]
    headlines: Sequence[str]  # a sentence for each pair that differs, and one for all others together
    why_these: str  # why these arms are compared; empty where each is, with the first
    in_per_cent: bool

    @property
    def axis(self) -> Axis:
        """A line for all differences."""
        return axis(comparison.strip for comparison in self.comparisons)

    @property
    def one_task(self) -> bool:
        """True where naming the task would say the same on every line."""
        return len({comparison.task for comparison in self.comparisons}) == 1


def question(material: Material, shown: Sequence[Part]) -> Question | None:
    """Return what the arms come to; None where there is nothing to compare."""
    by_name = {(part.arm, part.task): part for part in shown}
    in_per_cent = all(part.answer.scale.frozen > 0 for part in shown)
    pairs = summarise_pairs(material.score)
    comparisons = []
    for pair in pairs:
        tasks = material.score.contrasts[f"{pair.later} - {pair.earlier}"]
        for task, answer in pair.answers.items():
            later, first = by_name[pair.later, task], by_name[pair.earlier, task]
            whole = first.answer.scale.frozen if in_per_cent else None
            comparisons.append(Comparison(task, later, first, tasks[task], answer, whole))
    if not comparisons:
        return None
    registration = material.study.registration if material.study else None
    asked_for = compared_pairs(registration, material.score.arms) if registration else []
    return Question(
        comparisons=comparisons,
        headlines=contrast_headlines(pairs),
        why_these=_why_these(asked_for),
        in_per_cent=in_per_cent,
    )


def _why_these(pairs: Sequence[ArmPair]) -> str:
    """Return by which rule these arms are compared (docs/report.md), where it is not simply each with the first."""
    named: dict[str, list[str]] = {}
    for pair in pairs:
        named.setdefault(pair.reason, []).append(f"{pair.later} with {pair.earlier}")
    if "predicted" in named:
        words = ["the arms that registered predictions compare"]
        if "as predicted" in named:
            alike = listed(named["as predicted"])
            words.append(f"without a prediction, since they differ in the same way, {alike}")
        if others := [*named.get("sweep", ()), *named.get("first", ())]:
            words.append(f"without a prediction, {listed(others)}")
        return f"Compared: {'; '.join(words)}."
    if len({pair.earlier for pair in pairs}) > 1:
        return "Compared: each arm with the first of its sweep, from which it differs in one setting."
    return ""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A task at several values of a number, ascending, all else the same."""

    name: str  # the task, and what sets these arms apart from others that sweep the same number
    number: str  # what is swept, as the head of its column
    rows: Sequence[tuple[str, Part]]

    @property
    def parts(self) -> list[Part]:
        """Its arms on this task."""
        return [part for _, part in self.rows]

    def axis(self, side: str) -> Axis:
        """Return a line for all of them."""
        return axis(effect_strip(getattr(part.score.effect, side)) for part in self.parts)


Parts = Mapping[tuple[str, str], Part]


def sweeps(material: Material, shown: Sequence[Part]) -> list[Sweep]:
    """Return every sweep of the study: those over doses, then windows, then noises."""
    parts = {(part.arm, part.task): part for part in shown}
    return [*_doses(material, parts), *_windows(material, parts), *_noises(material, parts)]


def sweep_answers(material: Material, shown: Sequence[Part]) -> list[tuple[str, str]]:
    """Return what the sweeps say, each number in a sentence below its question."""
    parts = {(part.arm, part.task): part for part in shown}
    windows = {
        sweep.name: [(amount, part.score.effect.all_attempted.mean) for amount, part in sweep.rows]
        for sweep in _windows(material, parts)
    }
    answers = [
        ("Does the dose matter?", sweep_words("number of gradient steps", dose_means(material.score.doses))),
        ("Does the window matter?", sweep_words("window", windows)),
        ("What does noise do?", noise_words(material.score.noises)),
    ]
    return [(asked, words) for asked, words in answers if words]


def _doses(material: Material, parts: Parts) -> Iterator[Sweep]:
    for task, groups in material.score.doses.items():
        for label, sweep in groups.items():
            if len({dose.amount for dose in sweep.doses.values()}) >= FEWEST:
                rows = [(dose.amount, parts[arm, task]) for arm, dose in sweep.doses.items()]
                yield Sweep(sweep_name(task, label, groups), "gradient steps", rows)


def _windows(material: Material, parts: Parts) -> Iterator[Sweep]:
    arms = material.study.registration.arms if material.study else ()
    groups = alike_but_for(("mechanism.window",), arms, value=_window)
    for task in dict.fromkeys(task for arm in arms for task in arm.tasks):
        scored = {
            group.label: sorted((arm for arm in group.arms if (arm.name, task) in parts), key=_window)
            for group in groups
        }
        charted = {label: found for label, found in scored.items() if len(set(map(_window, found))) >= FEWEST}
        for label, found in charted.items():
            rows = [(f"{_window(arm):,}", parts[arm.name, task]) for arm in found]
            yield Sweep(sweep_name(task, label, charted), "window", rows)


def _window(arm: Arm) -> int:
    return arm.mechanism.window


def _noises(material: Material, parts: Parts) -> Iterator[Sweep]:
    for task, groups in material.score.noises.items():
        for label, sweep in groups.items():
            rows = [(f"{noise.action_noise:g}", parts[arm, task]) for arm, noise in sweep.noises.items()]
            yield Sweep(sweep_name(task, label, groups), "sigma_a", rows)
