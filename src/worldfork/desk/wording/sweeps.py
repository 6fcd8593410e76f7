"""What becomes of mean dR as one number of an arm grows: a dose, a window, a noise. Described, not tested."""

import itertools
from collections.abc import Mapping, Sequence

from worldfork.desk.scoring.doses import DoseSweep
from worldfork.desk.scoring.noises import Noise, NoiseSweep
from worldfork.desk.scoring.undefined import Figure, Undefined
from worldfork.desk.wording.numbers import digits_for, known, listed, number, with_span

__all__ = ["dose_means", "noise_words", "signal_digits", "sweep_name", "sweep_words"]

FEWEST = 3  # two values of a number are a pair, not a sweep
SIGNALS = ("residual", "kl")  # those that noise is asked about


def sweep_words(number_of: str, sweeps: Mapping[str, Sequence[tuple[str, Figure]]]) -> str:
    """Whether mean dR rises or falls all along each sweep (the amounts and their means, by the sweep's name).

    >>> sweep_words("dose", {"a": [("25", 3.0), ("50", 1.0), ("100", -2.0)]})
    'Mean dR falls from every dose to the next on a (+3.00 with 25, -2.00 with 100): described, not tested.'
    >>> sweep_words("window", {"a": [("25", 3.0), ("50", 4.0), ("100", -2.0)]}).partition(" (")[2]
    'highest +4.00 with 50, lowest -2.00 with 100): described, not tested.'
    """
    places: dict[str, list[str]] = {}
    for name, means in sweeps.items():
        values = [(amount, mean) for amount, mean in means if not isinstance(mean, Undefined)]
        if len(values) == len(means) >= FEWEST:
            course, ends = _course(values)
            places.setdefault(course, []).append(f"{name} ({ends})")
    clauses = [f"{course.format(number_of)} on {listed(named)}" for course, named in places.items()]
    return f"Mean dR {'; it '.join(clauses)}: described, not tested." if clauses else ""


def noise_words(sweeps: Mapping[str, Mapping[str, NoiseSweep]]) -> str:
    """What the most noise does to surprise and to the value of updating, beside the least; empty without noises."""
    sentences = []
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            if sweep.baseline in sweep.noises and len(sweep.noises) > 1:
                least, most = sweep.noises[sweep.baseline], list(sweep.noises.values())[-1]
                changes = [words for words in (*(_rise(most, name) for name in SIGNALS), _worth(most)) if words]
                noise = f"sigma_a {most.action_noise:g} instead of {least.action_noise:g}"
                sentences.append(
                    f"On {sweep_name(task, label, groups)}, with {noise}, these change: {listed(changes)}."
                )
    return " ".join([*sentences, "Intervals are Student-t 95% over checkpoints."]) if sentences else ""


def dose_means(sweeps: Mapping[str, Mapping[str, DoseSweep]]) -> dict[str, list[tuple[str, Figure]]]:
    """The mean dR of every dose, by the sweep's name, where doses have an order."""
    return {
        sweep_name(task, label, groups): [(dose.amount, dose.mean) for dose in sweep.doses.values()]
        for task, groups in sweeps.items()
        for label, sweep in groups.items()
        if not isinstance(sweep.order, Undefined)
    }


def sweep_name(task: str, label: str, groups: Mapping[str, object]) -> str:
    """The task, and what sets these arms apart from others that sweep the same number."""
    return task if len(groups) == 1 else f"{task}, {label}"


def signal_digits(value: float) -> int:
    """Decimals that show three digits of a signal: signals have scales of their own."""
    size, digits = abs(value), 2
    while 0 < size < 1 and digits < 9:
        size, digits = 10 * size, digits + 1
    return digits


def _course(values: Sequence[tuple[str, float]]) -> tuple[str, str]:
    means = [mean for _, mean in values]
    steps = list(itertools.pairwise(means))
    largest = max(abs(mean) for mean in means)
    digits = 1 if largest >= 10 or largest == 0 else 2 if largest >= 1 else 3
    if all(before < after for before, after in steps) or all(before > after for before, after in steps):
        ends = [f"{number(mean, digits)} with {amount}" for amount, mean in (values[0], values[-1])]
        return f"{'rises' if means[0] < means[-1] else 'falls'} from every {{}} to the next", ", ".join(ends)
    highest, lowest = (choose(values, key=lambda pair: pair[1]) for choose in (max, min))
    ends = [
        f"{end} {number(mean, digits)} with {at}" for end, (at, mean) in (("highest", highest), ("lowest", lowest))
    ]
    return "does not only rise or only fall from one {} to the next", ", ".join(ends)


def _rise(noise: Noise, name: str) -> str:
    recorded = noise.signals.get(name)
    if recorded is None or isinstance(recorded.rise, Undefined) or isinstance(recorded.rise.mean, Undefined):
        return ""
    digits = signal_digits(recorded.rise.mean)
    return f"{name} by {with_span(recorded.rise.mean, recorded.rise.student_t, digits)}"


def _worth(noise: Noise) -> str:
    if isinstance(noise.rise, Undefined) or known(noise.rise.mean) is None:
        return ""
    return f"mean dR by {with_span(noise.rise.mean, noise.rise.student_t, digits_for(noise.rise))}"
