"""Arms along a number that varies, in sentences: the dose of an update, the noise of a stream."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from worldfork.analysis.present.text.formatting import decimals, defined, estimate, listed, number, signal_digits
from worldfork.analysis.score.sweeps import DoseSweep, Noise, NoiseSweep
from worldfork.analysis.score.undefined import Figure, Undefined

FEWEST: Final = 3  # two values of a number are a pair, not a sweep
SIGNALS: Final = ("residual", "kl")  # those that noise is asked about


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
            shape, ends = _shape(values)
            places.setdefault(shape, []).append(f"{name} ({ends})")
    clauses = [f"{shape.format(number_of)} on {listed(names)}" for shape, names in places.items()]
    return f"Mean dR {'; it '.join(clauses)}: described, not tested." if clauses else ""


def _shape(values: Sequence[tuple[str, float]]) -> tuple[str, str]:
    """Return how a sweep goes, and the values at its ends or its highest and lowest."""
    means = [mean for _, mean in values]
    digits = decimals(max(abs(mean) for mean in means))
    steps = list(itertools.pairwise(means))
    if all(before < after for before, after in steps) or all(before > after for before, after in steps):
        ends = [f"{number(mean, digits)} with {amount}" for amount, mean in (values[0], values[-1])]
        return f"{'rises' if means[0] < means[-1] else 'falls'} from every {{}} to the next", ", ".join(ends)
    extremes = {"highest": max(values, key=_mean), "lowest": min(values, key=_mean)}
    ends = [f"{name} {number(mean, digits)} with {amount}" for name, (amount, mean) in extremes.items()]
    return "does not only rise or only fall from one {} to the next", ", ".join(ends)


def _mean(value: tuple[str, float]) -> float:
    return value[1]


def noise_words(sweeps: Mapping[str, Mapping[str, NoiseSweep]]) -> str:
    """Return what the most noise does to surprise and to the value of updating, beside the least."""
    sentences = []
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            if sweep.baseline in sweep.noises and len(sweep.noises) > 1:
                least, most = sweep.noises[sweep.baseline], list(sweep.noises.values())[-1]
                noise = f"sigma_a {most.action_noise:g} instead of {least.action_noise:g}"
                where = sweep_name(task, label, groups)
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


def dose_means(sweeps: Mapping[str, Mapping[str, DoseSweep]]) -> dict[str, list[tuple[str, Figure]]]:
    """Return the mean dR of every dose, by the sweep's name, where doses have an order."""
    return {
        sweep_name(task, label, groups): [(dose.amount, dose.mean) for dose in sweep.doses.values()]
        for task, groups in sweeps.items()
        for label, sweep in groups.items()
        if not isinstance(sweep.order, Undefined)
    }


def sweep_name(task: str, label: str, groups: Mapping[str, object]) -> str:
    """Return the task, and what sets these arms apart from others that sweep the same number."""
    return task if len(groups) == 1 else f"{task}, {label}"
