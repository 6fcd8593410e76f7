"""Where the one-step ledger and a deployment part: compounding, forgetting and contamination, each by itself.

    python benchmarks/parting.py                                       # the table of docs/deployment.md
    python benchmarks/parting.py --figure docs/media/parting.png       # and its figure

The ledger prices every update alone: from the checkpoint, on what the frozen model saw, at its own decision point.
A deployment differs in three ways, and in the linear-quadratic world each can be had without the others:

  outlasting     an update stays after the decision point that it was priced at, whatever the world does then; where
                 the world goes back to what the checkpoint knew, that is forgetting
  compounding    an update begins where the last one ended
  contamination  the window holds what the updated model did, not what the frozen one did

So four deployments run on common random numbers, and fire at the same decision points: `never`; `carried`, whose
updates all begin at the checkpoint (the mechanism `reset`) and see the frozen model's window: where it fires, it is
the ledger's UPDATE; `compounded`, whose updates begin where the last one ended; and `followed`, the deployment
itself. All are evaluated at every decision point, and the expected return of an evaluation is known in closed form.
Then ledger + outlasting + compounding + contamination = followed, without a remainder.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float64
from policy_values import expected_returns_of

from worldfork.lab.closed_loop.batches import deployment_batches, extended
from worldfork.lab.closed_loop.segment import evaluate, roll_episode
from worldfork.lab.closed_loop.state import Shape, State, begin, shape_of, update
from worldfork.lab.forks.context import Context
from worldfork.lab.stream import Stream, cut
from worldfork.ledger.closed_loop import Thresholds
from worldfork.registration import Registration, parse

POINTS: Final = 8
EPISODE: Final = 50  # control steps
TERMS: Final = ("ledger", "outlasting", "compounding", "contamination", "followed")


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A world, and what of a deployment is switched on in it."""

    stream: str  # [stream] of its registration
    fires: tuple[int, ...]  # decision points
    direction: str = "away"
    compounding: bool = True
    own_window: bool = True


CONSTANT: Final = 'schedule = "constant"'
EVERY: Final = tuple(range(1, POINTS + 1))
SCENARIOS: Final = {
    # One update, evaluated where it was made: the ledger's own question.
    "nothing": Scenario(CONSTANT, (POINTS,)),
    # One update in the drifted world, which goes back to what the checkpoint knew right afterwards.
    "forgetting": Scenario(
        f'schedule = "step"\nschedule_settings = {{ at = {4 + 1 / EPISODE} }}', (4,), direction="toward"
    ),
    # A world that is another one from the beginning; windows are those of the frozen model.
    "compounding": Scenario(CONSTANT, EVERY, own_window=False),
    # Every update begins at the checkpoint, and sees what its predecessors did.
    "contamination": Scenario(CONSTANT, EVERY, compounding=False),
    # Out and back, updating at every second decision point.
    "all of them": Scenario('schedule = "saw_wave"', EVERY[::2]),
}


@dataclasses.dataclass(frozen=True)
class Advantages:
    """Over never, of each deployment. Axes: decision points, checkpoints."""

    carried: Float64[np.ndarray, "points checkpoints"]
    compounded: Float64[np.ndarray, "points checkpoints"]
    followed: Float64[np.ndarray, "points checkpoints"]

    def terms(self, fires: tuple[int, ...]) -> dict[str, Float64[np.ndarray, " checkpoints"]]:
        """Mean over decision points: what the ledger says, what is added to it, and what was realised."""
        fired = np.isin(np.arange(1, len(self.carried) + 1), fires)[:, None]
        columns = (
            np.where(fired, self.carried, 0.0),
            np.where(fired, 0.0, self.carried),
            self.compounded - self.carried,
            self.followed - self.compounded,
            self.followed,
        )
        return {name: column.mean(axis=0) for name, column in zip(TERMS, columns, strict=True)}


def part(scenario: Scenario, *, checkpoints: int = 40, seed: int = 1) -> tuple[Advantages, Advantages]:
    """Both in closed form and as measured on six episodes of every evaluation."""
    context = Context(registration(scenario, checkpoints, seed=seed), {})
    (batch,) = deployment_batches(context.registration)
    shape = shape_of(context, batch, Thresholds())
    known, measured = [], []
    state = begin(shape)
    for k in range(1, POINTS + 1):
        state = _after_episode(context, shape, state)
        if k in scenario.fires:
            state = _updated(shape, state, own_window=scenario.own_window)
        known.append(expected_returns_of(context, shape, state, evaluation=True))
        measured.append(evaluate(shape, state).returns.mean(axis=1))

    def over_never(values: list[np.ndarray]) -> Advantages:
        by_policy = np.stack(values).reshape(POINTS, len(batch.policies), checkpoints)
        never = by_policy[:, batch.policies.index("never")]
        names = [field.name for field in dataclasses.fields(Advantages)]
        return Advantages(*(by_policy[:, batch.policies.index(name)] - never for name in names))

    return over_never(known), over_never(measured)


def registration(scenario: Scenario, checkpoints: int, *, seed: int) -> Registration:
    """The world of a scenario. The scenario says who fires where; the triggers that are named are not asked."""
    restarted, built_on = "restarted", "restarted" if not scenario.compounding else "built-on"
    arms = {"carried": restarted, "compounded": built_on, "followed": built_on}
    policies = "\n".join(
        f'[deployment.policies.{name}]\ntrigger = "periodic"\narm = "{arm}"' for name, arm in arms.items()
    )
    return parse(
        f"""
schema = "worldfork.registration/1"
name = "parting"
seed = {seed}
[grid]
tasks = ["linear_quadratic"]
checkpoints = {list(range(checkpoints))}
directions = ["{scenario.direction}"]
[stream]
decision_points = {POINTS}
drift_period = {EPISODE if "step" in scenario.stream else EPISODE * POINTS // 2}
{scenario.stream}
[evaluation]
episodes = 6
[mechanism]
steps = 15
window = 200
[[arms]]
name = "built-on"
[[arms]]
name = "restarted"
mechanism = {{ name = "reset" }}
[execution]
forks_per_block = {checkpoints}
streams_per_batch = {checkpoints}
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 3.0
precision = "float64"
[deployment]
arm = "built-on"
evaluate_at = {list(EVERY)}
episodes = 6
{policies}
"""
    )


def _after_episode(context: Context, shape: Shape, state: State) -> State:
    """Every deployment one episode further, as each model then is."""
    rolled = roll_episode(shape, state)
    assert rolled.trace is not None
    schedules = [context.schedule(cell) for _, cell in shape.batch.sets]
    episodes = cut(rolled.trace, schedules, repeat=1, action_noise=0.0, before=state.k)
    streams = map(extended, state.streams, episodes) if state.streams else episodes
    return dataclasses.replace(state, k=state.k + 1, streams=tuple(streams))


def _updated(shape: Shape, state: State, *, own_window: bool) -> State:
    """The update of a decision point; who is to see the frozen model's window is shown never's stream."""
    frozen: dict[object, Stream] = {}
    shown, firing = [], []
    for index, ((policy, cell), stream) in enumerate(zip(shape.batch.sets, state.streams, strict=True)):
        frozen.setdefault(cell.checkpoint, stream)  # never is the first policy
        shown.append(stream if policy == "followed" and own_window else frozen[cell.checkpoint])
        if policy in ("carried", "compounded", "followed"):
            firing.append(index)
    assert shape.batch.policies[0] == "never"
    changed, _ = update(shape, dataclasses.replace(state, streams=tuple(shown)), firing)
    return dataclasses.replace(changed, streams=state.streams)


# What is read out of it


def report(parted: dict[str, tuple[Advantages, Advantages]]) -> None:
    """The known terms, and how far the ledger and the deployment parted as measured, with analysis's interval."""
    from worldfork.analysis.score.intervals import student_t

    print(f"| switched on | {' | '.join(TERMS)} | parted by, known | as measured |")
    print("|---|" + "---:|" * (len(TERMS) + 2))
    for name, (known, measured) in parted.items():
        fires = SCENARIOS[name].fires
        terms = known.terms(fires)
        gap, seen = (each["followed"] - each["ledger"] for each in (terms, measured.terms(fires)))
        low, high = student_t(seen)
        cells = [f"{terms[term].mean():+.3f}" if terms[term].any() else "0" for term in TERMS]
        parted_by = f"{seen.mean():+.3f} [{low:+.3f}, {high:+.3f}]" if seen.any() else "0"
        print(f"| {name} | {' | '.join(cells)} | {f'{gap.mean():+.3f}' if gap.any() else '0'} | {parted_by} |")


def draw(parted: dict[str, tuple[Advantages, Advantages]], path: Path) -> None:
    """One panel per scenario: from what the ledger says, step by step, to what following came to."""
    from worldfork.analysis.present.figures.drawing import INK, Drawing, tidy

    figure = Drawing(figsize=(11, 3.1), layout="constrained")
    panels = figure.subplots(1, len(parted), sharey=True)
    for axes, (name, (known, _)) in zip(panels, parted.items(), strict=True):
        terms = known.terms(SCENARIOS[name].fires)
        _waterfall(axes, {term: float(values.mean()) for term, values in terms.items()})
        axes.axhline(0, color=INK, lw=0.8)
        axes.set_xticks(range(len(TERMS)), TERMS, rotation=40, ha="right")
        axes.set_title(f"switched on: {name}", fontsize=9)
    panels[0].use_sticky_edges = False  # bars would end at the frame, and their numbers beyond it
    panels[0].margins(y=0.12)
    panels[0].set_ylabel("expected return above never")
    tidy(*panels)
    figure.savefig(path, dpi=110)


def _waterfall(axes: Any, terms: dict[str, float]) -> None:
    """Both ends as bars from zero, and what lies between them as steps from one to the other."""
    from worldfork.analysis.present.figures.drawing import BAND, HELP, HURT, SOFT

    reached = 0.0
    for place, (term, value) in enumerate(terms.items()):
        is_end = term in ("ledger", "followed")
        start = 0.0 if is_end else reached
        reached = start + value
        colour = BAND if is_end else HELP if value > 0 else HURT
        axes.bar(place, value, bottom=start, width=0.62, color=colour)
        if place + 1 < len(terms):
            axes.plot([place + 0.31, place + 0.69], [reached, reached], color=SOFT, lw=0.8)
        if value:
            above = value > 0
            where = (place, max(start, reached) if above else min(start, reached))
            offset, side = ((0, 3), "bottom") if above else ((0, -3), "top")
            axes.annotate(
                f"{value:+.2f}", where, xytext=offset, textcoords="offset points", ha="center", va=side, fontsize=7
            )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--checkpoints", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--figure", type=Path, help="where to draw it")
    given = options.parse_args()
    parted = {
        name: part(scenario, checkpoints=given.checkpoints, seed=given.seed) for name, scenario in SCENARIOS.items()
    }
    report(parted)
    if given.figure:
        draw(parted, given.figure)


if __name__ == "__main__":
    main()
