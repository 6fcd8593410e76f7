"""Sentences on one number that varies over arms: gradient steps, windows and noise."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from worldfork.analysis.present.text.formatting import decimals, defined, estimate, listed, number, signal_digits
from worldfork.analysis.score.arms import alike_but_for
from worldfork.analysis.score.effects import Effect
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.sweeps import DoseSweep, Noise, NoiseSweep
from worldfork.analysis.score.undefined import Figure, Undefined

FEWEST: Final = 3  # two values of a number are a pair, not a sweep
SIGNALS: Final = ("residual", "kl")  # those that noise is asked about


def dose_words(sweeps: Mapping[str, Mapping[str, DoseSweep]]) -> str:
    """Return along which sweeps of doses mean dR rises or falls, where doses have an order."""
    means: dict[str, Sequence[tuple[str, Figure]]] = {}
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            if not isinstance(sweep.order, Undefined):
                means[_name(task, label, groups)] = [(dose.amount, dose.mean) for dose in sweep.doses.values()]
    return sweep_words("number of gradient steps", means)


def windows(score: Score) -> dict[str, dict[str, list[tuple[str, Effect]]]]:
    """Return the effects of arms that differ in the window of their update alone, ascending, by task and what else
    sets them apart; only those of three windows or more."""
    arms = score.registration.arms if score.registration else ()
    found: dict[str, dict[str, list[tuple[str, Effect]]]] = {}
    for group in alike_but_for(("mechanism.window",), arms, value=lambda arm: arm.mechanism.window):
        for task in dict.fromkeys(task for arm in group.arms for task in arm.tasks):
            scored = [arm for arm in group.arms if arm.name in score.arms and task in score.arms[arm.name].tasks]
            swept = [
                (f"{arm.mechanism.window:,}", score.arms[arm.name].tasks[task].effect.all_attempted)
                for arm in sorted(scored, key=lambda arm: arm.mechanism.window)
            ]
            if len({window for window, _ in swept}) >= FEWEST:
                found.setdefault(task, {})[group.label] = swept
    return found


def window_words(score: Score) -> str:
    """Return along which sweeps of windows mean dR rises or falls."""
    means: dict[str, Sequence[tuple[str, Figure]]] = {}
    for task, groups in windows(score).items():
        for label, swept in groups.items():
            means[_name(task, label, groups)] = [(window, effect.mean) for window, effect in swept]
    return sweep_words("window", means)


def sweep_words(number_of: str, sweeps: Mapping[str, Sequence[tuple[str, Figure]]]) -> str:
    """Return in which sweeps mean dR rises or falls all along (the amounts and their means, by the sweep's name).

    >>> sweep_words("dose", {"a": [("25", 3.0), ("50", 1.0), ("100", -2.0)]})
    'Mean dR falls from every dose to the next on a (+3.00 with 25, -2.00 with 100): described, not tested.'
    >>> sweep_words("window", {"a": [("25", 3.0), ("50", 4.0), ("100", -2.0)]}).partition(" (")[2]
    'highest +4.00 with 50, lowest -2.00 with 100): described, not tested.'
    """
    places: dict[str, list[str]] = {}
    for name, means in sweeps.items():
        values = [(amount, mean) for amount, mean in means if not isinstance(mean, Undefined)]
        if len(values) == len(means) >= FEWEST:
            shape, ends = _shape(number_of, values)
            places.setdefault(shape, []).append(f"{name} ({ends})")
    clauses = [f"{shape} on {listed(names)}" for shape, names in places.items()]
    return f"Mean dR {'; it '.join(clauses)}: described, not tested." if clauses else ""


def _shape(number_of: str, values: Sequence[tuple[str, float]]) -> tuple[str, str]:
    """Return how a sweep goes, and the values at its ends or its highest and lowest."""
    means = [mean for _, mean in values]
    rising, digits = sorted(set(means)), decimals(max(map(abs, means)))
    words = [f"{number(mean, digits)} with {amount}" for amount, mean in values]
    for verb, order in (("rises", rising), ("falls", rising[::-1])):
        if means == order:
            return f"{verb} from every {number_of} to the next", f"{words[0]}, {words[-1]}"
    highest, lowest = words[means.index(rising[-1])], words[means.index(rising[0])]
    return (
        f"does not only rise or only fall from one {number_of} to the next",
        f"highest {highest}, lowest {lowest}",
    )


def noise_words(sweeps: Mapping[str, Mapping[str, NoiseSweep]]) -> str:
    """Return what the most noise does to surprise and to the value of updating, beside the least."""
    sentences = []
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            if sweep.baseline in sweep.noises and len(sweep.noises) > 1:
                least, most = sweep.noises[sweep.baseline], list(sweep.noises.values())[-1]
                noise = f"sigma_a {most.action_noise:g} instead of {least.action_noise:g}"
                where = _name(task, label, groups)
                sentences.append(f"On {where}, with {noise}, these change: {listed(list(_rises(most)))}.")
    return " ".join([*sentences, "Intervals are Student-t 95% over checkpoints."]) if sentences else ""


def _rises(noise: Noise) -> Iterable[str]:
    """Yield how far each signal, and mean dR, lies above those of the least noise."""
    for name in SIGNALS:
        recorded = noise.signals.get(name)
        rise = None if recorded is None else defined(recorded.rise)
        if rise is not None and not isinstance(rise.mean, Undefined):
            yield f"{name} by {estimate(rise, signal_digits(rise.mean))}"
    if (worth := defined(noise.rise)) is not None and not isinstance(worth.mean, Undefined):
        yield f"mean dR by {estimate(worth)}"


def _name(task: str, label: str, groups: Mapping[str, object]) -> str:
    """Return the task, and what sets these arms apart from others that sweep the same number."""
    return task if len(groups) == 1 else f"{task}, {label}"
