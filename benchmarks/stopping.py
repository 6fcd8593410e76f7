"""Which rule may stop a study, and what it would have saved.

    python benchmarks/inference.py stopping    # error, power and stops of the candidates: results/simulations.md
    python benchmarks/stopping.py              # the rule replayed on published studies, in many orders

Every candidate looks at the means of checkpoints from the eighth on, after every further one up to the budget.
"""

import argparse
import math
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

from worldfork.analysis.score.intervals import half_width
from worldfork.stopping import (
    Plan,
    both_t,
    boundaries,
    critical_value,
    log_wealth,
    smaller_t,
)

FIRST_LOOK = 8
ERROR_RATE = 0.05
BUDGETS = (12, 20, 32)
SKEWNESSES = (0.0, -1.0, -2.0)
EFFECTS = (0.0, 0.5, 1.0, 1.5)
PATTERNS = 4_096  # of signs
BOUND = 6.0  # standard deviations: the range that bets on bounded means are told

Means = Float[np.ndarray, "studies checkpoints"]
Answered = Bool[np.ndarray, "studies"]
Rule = Callable[[Means, Plan], Answered]  # the means so far, at a look


def student(means: Means) -> Float[np.ndarray, "studies"]:
    """Return Student's two-sided p."""
    return 2 * special.stdtr(means.shape[1] - 1, -np.abs(both_t(means)[0]))


def every_look(means: Means, plan: Plan) -> Answered:
    """Student's t at its full level at every look."""
    return student(means) < plan.error_rate


def normal_theory(means: Means, plan: Plan) -> Answered:
    """The anytime-valid interval of normal means that `score` shows."""
    return np.abs(both_t(means)[0]) > half_width(means.shape[1], alpha=plan.error_rate)


def spent_student(means: Means, plan: Plan) -> Answered:
    """Student's t with the error rate spent over looks, none of it held back."""
    return student(means) < _spent(plan, means.shape[1])


def spent_flips(means: Means, plan: Plan) -> Answered:
    """Sign flips with the error rate spent over looks: exact to 12 checkpoints, drawn beyond."""
    count = means.shape[1]
    exact = 2 ** (count - 1) <= PATTERNS // 2
    if exact:
        signs = 1.0 - 2 * ((np.arange(2 ** (count - 1))[:, None] >> np.arange(count)) & 1)
    else:
        signs = np.random.default_rng(count).choice([-1.0, 1.0], (PATTERNS - 1, count))
    reached = np.abs(means.sum(axis=1)) - 1e-9
    extreme = sum((np.abs(part @ means.T) >= reached).sum(axis=0) for part in np.array_split(signs, 16))
    p = extreme / len(signs) if exact else (1 + extreme) / PATTERNS
    return p <= _spent(plan, count)


def bounded_bets(means: Means, plan: Plan) -> Answered:
    """Predictable bets on means that are known to lie within six standard deviations of 0 (hedged)."""
    shares = np.clip((means + BOUND) / (2 * BOUND), 0.0, 1.0)
    counts = np.arange(1, means.shape[1] + 1)
    centre = (0.5 + np.cumsum(shares, axis=1)) / (counts + 1)
    spread = (0.25 + np.cumsum((shares - centre) ** 2, axis=1)) / (counts + 1)
    before = np.concatenate([np.full((len(means), 1), 0.25), spread[:, :-1]], axis=1)
    bets = np.minimum(np.sqrt(2 * math.log(2 / plan.error_rate) / (before * counts * np.log1p(counts))), 1.0)
    up, down = (np.log1p(side * bets * (shares - 0.5)).sum(axis=1) for side in (1, -1))
    return np.logaddexp(up, down) - math.log(2) > math.log(1 / plan.error_rate)


def sign_bets(means: Means, plan: Plan) -> Answered:
    """Bets on signs, `null = "symmetry"`."""
    return np.asarray(log_wealth(means)) >= math.log(1 / plan.error_rate)


def both_spent(means: Means, plan: Plan) -> Answered:
    """Student's t and Hall's with the error rate spent over looks, `null = "mean"`."""
    return np.abs(np.asarray(smaller_t(means))) >= critical_value(plan, means.shape[1])


def _spent(plan: Plan, count: int) -> float:
    """Return the two-sided p that the look at so many checkpoints has to reach."""
    return float(2 * special.ndtr(-boundaries(plan.looks, plan.error_rate)[plan.looks.index(count)]))


RULES: dict[str, Rule] = {
    "Student t at every look": every_look,
    "normal theory, at any time": normal_theory,
    "bounded means, bets": bounded_bets,
    "sign flips, error spent": spent_flips,
    "Student t, error spent": spent_student,
    '**Student t and Hall, error spent** (`"mean"`)': both_spent,
    '**bets on signs** (`"symmetry"`)': sign_bets,
}


def stops(means: Means, plan: Plan, rule: Rule) -> tuple[Answered, Float[np.ndarray, "studies"]]:
    """Return which studies are answered within the budget, and how many checkpoints each computes."""
    answered, taken = np.zeros(len(means), bool), np.full(len(means), float(plan.budget))
    for count in plan.looks:
        passed = ~answered & rule(means[:, :count], plan)
        taken[passed] = count
        answered |= passed
    return answered, taken


def method_table(studies: int) -> Iterator[str]:
    """Yield error over all looks, power and median stop of every rule, and the error of several questions."""
    from inference import skewed

    yield "| budget | rule | error, skew 0 | -1 | -2 | 0.5 sd | 1 sd | 1.5 sd | 0.5 sd, skew -2 | 1 sd | 1.5 sd |"
    yield "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for budget in BUDGETS:
        plan = Plan(tuple(range(FIRST_LOOK, budget + 1)), ERROR_RATE, "mean")
        drawn = {
            skewness: skewed(np.random.default_rng([budget, round(-skewness), 3]), skewness, (studies, budget))
            for skewness in SKEWNESSES
        }
        for name, rule in RULES.items():
            cells = [f"{stops(drawn[skewness], plan, rule)[0].mean():.1%}" for skewness in SKEWNESSES]
            for skewness in (0.0, -2.0):
                for effect in EFFECTS[1:]:
                    answered, taken = stops(drawn[skewness] + effect, plan, rule)
                    cells.append(f"{answered.mean():.0%}, {np.median(taken):.0f}")
            yield f"| {budget} | {name} | " + " | ".join(cells) + " |"
    yield ""
    yield "| budget | rule | questions | error of any, skew 0 | -1 | -2 |"
    yield "|---:|---|---:|---:|---:|---:|"
    for budget in BUDGETS:
        for name, rule in list(RULES.items())[-2:]:
            for questions in (1, 2, 4):
                plan = Plan(tuple(range(FIRST_LOOK, budget + 1)), ERROR_RATE / questions, "mean")
                cells = []
                for skewness in SKEWNESSES:
                    draws = np.random.default_rng([budget, round(-skewness), questions, 4])
                    means = skewed(draws, skewness, (questions, studies, budget))
                    wrong = np.any([stops(question, plan, rule)[0] for question in means], axis=0)
                    cells.append(f"{wrong.mean():.1%}")
                yield f"| {budget} | {name} | {questions} | " + " | ".join(cells) + " |"


# Published means to replay: study, arm, task, and an arm to compare with.
MEANS = (
    ("power-cartpole", "corrected", "cartpole-swingup", None),
    ("power-cartpole", "gentle", "cartpole-swingup", None),
    ("judge-cartpole", "gentle", "cartpole-swingup", None),
    ("judge-cartpole", "gentle-rehearsal", "cartpole-swingup", None),
    ("judge-cartpole", "gentle-rehearsal", "cartpole-swingup", "gentle"),
    ("power-locomotion", "corrected", "walker-walk", None),
    ("power-locomotion", "gentle", "walker-walk", None),
    ("power-locomotion", "corrected", "cheetah-run", None),
    ("power-locomotion", "gentle", "cheetah-run", None),
)
QUESTIONS = 2  # that share the error rate, as two arms of a task would


def replay_table(orders: int) -> Iterator[str]:
    """Yield after how many checkpoints each rule would have stopped, over random orders of published checkpoints.

    The answer of the whole study is the side of 0 on which Student's t has its interval. An order *differs* where
    the rule answers the other side, or answers where the whole study has no answer. It is *open* where the rule
    spends its budget and the whole study has an answer.
    """
    from worldfork.analysis.score import score_ledger
    from worldfork.analysis.score.intervals import student_t

    yield "| study | mean | checkpoints | whole study | null | stops, median | 90% | open | differs |"
    yield "|---|---|---:|---:|---|---:|---:|---:|---:|"
    scores = {}
    for study, arm, task, against in MEANS:
        if study not in scores:
            scores[study] = score_ledger(f"results/{study}", permutations=1)
        score = scores[study]
        of = (
            score[arm, task].effect.all_attempted.by_checkpoint
            if against is None
            else {
                name: value - score[against, task].effect.all_attempted.by_checkpoint[name]
                for name, value in score[arm, task].effect.all_attempted.by_checkpoint.items()
            }
        )
        means = np.array(list(of.values()))
        low, high = student_t(means)
        side = 1 if low > 0 else -1 if high < 0 else 0
        draws = np.random.default_rng(0)
        ordered = np.array([draws.permutation(means) for _ in range(orders)])
        for null in ("mean", "symmetry"):
            plan = Plan(tuple(range(FIRST_LOOK, len(means) + 1)), ERROR_RATE / QUESTIONS, null)
            answered, taken = stops(ordered, plan, both_spent if null == "mean" else sign_bets)
            sides = np.array([np.sign(row[: int(count)].mean()) for row, count in zip(ordered, taken, strict=True)])
            differs = answered & (sides != side)
            name = f"{task}, {arm}" + (f" less {against}" if against else "")
            yield (
                f"| {study} | {name} | {len(means)} | {means.mean():+.1f} [{low:+.1f}, {high:+.1f}] | {null} | "
                f"{np.median(taken):.0f} | {np.quantile(taken, 0.9):.0f} | "
                f"{(~answered).mean() if side else 0:.0%} | {differs.mean():.1%} |"
            )


def main() -> None:
    """Print the replay of published studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=2_000)
    for line in replay_table(parser.parse_args().orders):
        print(line, flush=True)


if __name__ == "__main__":
    main()
