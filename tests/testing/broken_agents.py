"""Agents that each break one promise of the contract, and the words that tell their author."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Arrays, Checkpoint, Decision, Fit, Surprise, Window
from worldfork.lab.agents.linear_quadratic import Belief, LinearQuadratic, LinearQuadraticPlugin
from worldfork.randomness import Event, Purpose


class GlobalDraws(LinearQuadratic):
    """The planner of users who forget `plan_keys`."""

    def act(self, parameters: Arrays, belief: Belief, plan_keys: np.ndarray) -> Decision:
        decision = super().act(parameters, belief, plan_keys)
        return dataclasses.replace(decision, action=decision.action + np.random.normal(size=decision.action.shape))  # noqa: NPY002


class OwnDraws(LinearQuadratic):
    random = np.random.default_rng()

    def act(self, parameters: Arrays, belief: Belief, plan_keys: np.ndarray) -> Decision:
        decision = super().act(parameters, belief, plan_keys)
        return dataclasses.replace(
            decision, action=decision.action + self.random.normal(size=decision.action.shape)
        )


class RestlessBelief(LinearQuadratic):
    """Changes the belief that it is given."""

    def act(self, parameters: Arrays, belief: Belief, plan_keys: np.ndarray) -> Decision:
        decision = super().act(parameters, belief, plan_keys)
        belief.observation[:] *= 2.0
        return decision


MEMORY: dict[str, Any] = {}


class BeliefInside(LinearQuadratic):
    """Acts on what it observed last, whoever's it was."""

    def begin(self, parameters: Arrays, observation: np.ndarray) -> Belief:
        MEMORY["seen"] = observation
        return super().begin(parameters, observation)

    def act(self, parameters: Arrays, belief: Belief, plan_keys: np.ndarray) -> Decision:
        return super().act(parameters, dataclasses.replace(belief, observation=MEMORY["seen"]), plan_keys)

    def observe(self, parameters: Arrays, belief: Belief, observation: np.ndarray) -> Surprise:
        MEMORY["seen"] = observation
        return super().observe(parameters, belief, observation)


class MeasuredInside(LinearQuadratic):
    """Says in `observe` what it computed in `act`, and keeps it on the object in between."""

    def act(self, parameters: Arrays, belief: Belief, plan_keys: np.ndarray) -> Decision:
        decision = super().act(parameters, belief, plan_keys)
        MEMORY["effort"] = np.abs(decision.action).sum(axis=-1)
        return decision

    def observe(self, parameters: Arrays, belief: Belief, observation: np.ndarray) -> Surprise:
        surprise = super().observe(parameters, belief, observation)
        return dataclasses.replace(surprise, signals={**surprise.signals, "effort": MEMORY["effort"]})


class FirstSetOnly(LinearQuadratic):
    """Plans for everybody with the first set's parameters."""

    def begin(self, parameters: Arrays, observation: np.ndarray) -> Belief:
        return super().begin(
            {name: np.repeat(a[:1], len(a), axis=0) for name, a in parameters.items()}, observation
        )


class ShapeFelt(LinearQuadratic):
    """The size of the batch shows in the digits, and it says that it does not."""

    def act(self, parameters: Arrays, belief: Belief, plan_keys: np.ndarray) -> Decision:
        decision = super().act(parameters, belief, plan_keys)
        return dataclasses.replace(decision, action=decision.action * (1 + 1e-12 * plan_keys.shape[1]))


class NotFinite(LinearQuadratic):
    def act(self, parameters: Arrays, belief: Belief, plan_keys: np.ndarray) -> Decision:
        force = -(belief.gain[:, None] * belief.observation).sum(axis=-1)
        action = force[..., None]
        return Decision(action, np.zeros(force.shape, bool), dataclasses.replace(belief, action=action))


class NotFlagged(LinearQuadratic):
    def act(self, parameters: Arrays, belief: Belief, plan_keys: np.ndarray) -> Decision:
        decision = super().act(parameters, belief, plan_keys)
        return dataclasses.replace(decision, replaced=np.zeros_like(decision.replaced))


class NoError(LinearQuadratic):
    def observe(self, parameters: Arrays, belief: Belief, observation: np.ndarray) -> Surprise:
        surprise = super().observe(parameters, belief, observation)
        return dataclasses.replace(surprise, signals={"surprise": surprise.signals["error"]})


class TakenName(LinearQuadratic):
    def observe(self, parameters: Arrays, belief: Belief, observation: np.ndarray) -> Surprise:
        surprise = super().observe(parameters, belief, observation)
        return dataclasses.replace(surprise, signals={**surprise.signals, "level": surprise.signals["error"]})


class FitInPlace(LinearQuadratic):
    def fit(self, parameters: Arrays, optimiser: Arrays, window: Window, **given: Any) -> Fit:
        fit = super().fit(parameters, optimiser, window, **given)
        parameters["A"][:] = fit.parameters["A"]
        return fit


class FitDraws(LinearQuadratic):
    """Shuffles its minibatches with a generator of its own."""

    random = random.Random(3)

    def fit(self, parameters: Arrays, optimiser: Arrays, window: Window, **given: Any) -> Fit:
        given["batch_keys"] = given["batch_keys"] ^ np.uint32(self.random.getrandbits(32))
        return super().fit(parameters, optimiser, window, **given)


class ReadsPadding(LinearQuadratic):
    def fit(self, parameters: Arrays, optimiser: Arrays, window: Window, **given: Any) -> Fit:
        whole = np.full_like(window.size, window.reward.shape[1])
        return super().fit(parameters, optimiser, dataclasses.replace(window, size=whole), **given)


class LossReadsPadding(LinearQuadratic):
    def loss(self, parameters: Arrays, window: Window) -> np.ndarray:
        whole = np.full_like(window.size, window.reward.shape[1])
        return super().loss(parameters, dataclasses.replace(window, size=whole))


class TrainsTogether(LinearQuadratic):
    """One gradient for all."""

    def fit(self, parameters: Arrays, optimiser: Arrays, window: Window, **given: Any) -> Fit:
        fit = super().fit(parameters, optimiser, window, **given)
        mean = fit.parameters["A"].mean(axis=0, keepdims=True)
        return dataclasses.replace(
            fit, parameters={**fit.parameters, "A": np.repeat(mean, len(window.size), axis=0)}
        )


class AnyScope(LinearQuadratic):
    def fit(self, parameters: Arrays, optimiser: Arrays, window: Window, **given: Any) -> Fit:
        return super().fit(parameters, optimiser, window, **{**given, "scope": "model"})


class OtherPlan(LinearQuadratic):
    def fit(self, parameters: Arrays, optimiser: Arrays, window: Window, **given: Any) -> Fit:
        return super().fit(parameters, optimiser, window, **{**given, "rate": 2 * given["rate"]})


class NobodysGroup(LinearQuadratic):
    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        return {**super().groups, "heads": ("C",)}


class TrainsTheRestToo(LinearQuadratic):
    def train(self, parameters: Arrays, optimiser: Arrays, window: Window, **given: Any) -> Fit:
        plan = dataclasses.replace(given["plan"], groups=None)
        return super().train(parameters, optimiser, window, **{**given, "plan": plan})


class NeverTheSameFresh(LinearQuadratic):
    random = random.Random(5)

    def fresh(self, parameters: Arrays, keys: np.ndarray) -> tuple[Arrays, Arrays]:
        return super().fresh(parameters, keys ^ np.uint32(self.random.getrandbits(32)))


class NoDevice(LinearQuadratic):
    device = ""


class OtherShapes(LinearQuadratic):
    def fit(self, parameters: Arrays, optimiser: Arrays, window: Window, **given: Any) -> Fit:
        fit = super().fit(parameters, optimiser, window, **given)
        return dataclasses.replace(fit, parameters={n: a.astype(np.float32) for n, a in fit.parameters.items()})


class AnyPrecision(LinearQuadratic):
    pass


class NeverTwice(LinearQuadratic):
    """Its checkpoints are never the same."""


class WideCheckpoint(LinearQuadratic):
    """Its checkpoints have no leading axis of one."""


class Unbuilt(LinearQuadratic):
    """Can not be built at all."""


def plugin_of(agent: type[LinearQuadratic]) -> LinearQuadraticPlugin:
    """The plug-in that builds such an agent."""
    count = iter(range(10**6))

    class Broken(LinearQuadraticPlugin):
        def build(self, environment: Any, *, precision: str) -> LinearQuadratic:
            if agent is Unbuilt:
                raise TypeError("two weights are missing")
            if agent is not AnyPrecision and precision != "float64":
                raise WorldforkError("float64")
            return agent(environment.matrices)

        def generate(self, built: Any, environment: Any, event: Event) -> Checkpoint:
            if agent is NeverTwice:
                event = event.at(iteration=next(count))
            checkpoint = super().generate(built, environment, event)
            if agent is WideCheckpoint:
                wide = {name: np.repeat(array, 2, axis=0) for name, array in checkpoint.parameters.items()}
                return dataclasses.replace(checkpoint, parameters=wide)
            return checkpoint

    return Broken()


class Filed(LinearQuadraticPlugin):
    """An agent whose checkpoints are files, and whose digest is not that of the first."""

    suffixes = (".txt", ".json")

    def load(self, agent: Any, environment: Any, path: Path) -> Checkpoint:
        return self.generate(agent, environment, Event(purpose=Purpose.PRETRAINING, checkpoint=path.read_text()))


class ReadsAcross(LinearQuadratic):
    """Takes the next row for what an action led to."""

    def loss(self, parameters: Arrays, window: Window) -> np.ndarray:
        before_the_last = np.arange(window.reward.shape[1]) < window.size[:, None] - 1
        led_to = np.roll(window.observation, -1, axis=1)
        led_to = np.where(before_the_last[..., None], led_to, window.next_observation)
        return super().loss(parameters, dataclasses.replace(window, next_observation=led_to))


class GoesOn(LinearQuadratic):
    """Acts in a new attempt on what it saw last in the one before."""

    def begin_again(self, parameters: Arrays, belief: Belief, observation: np.ndarray, where: Any) -> Belief:
        return belief


BROKEN: list[tuple[type[LinearQuadratic], str]] = [
    (ReadsAcross, r"from one attempt to the next: `loss` depends on the order.*from `next_observation`"),
    (GoesOn, r"an episode that begins anew acts otherwise than one that begins.*the belief that `begin` would"),
    (OtherPlan, r"a plan of nothing but steps trains otherwise than `fit`.*Let `fit` call `train`"),
    (NobodysGroup, r"no parameter begins with \('C',\), the group `heads`"),
    (TrainsTheRestToo, r"training the group `control` changed others"),
    (NeverTheSameFresh, r"the same keys gave other parameters"),
    (GlobalDraws, r"draws from NumPy's global generator.*`plan_keys` alone"),
    (OwnDraws, r"the same episodes with the same keys were played otherwise.*`plan_keys` alone"),
    (RestlessBelief, r"the same belief with the same keys gave another action.*leave the one that came as it is"),
    (BeliefInside, r"not kept inside: other episodes in between changed what it did"),
    (MeasuredInside, r"not kept inside: other episodes in between changed what it did.*effort"),
    (FirstSetOnly, r"acted otherwise at the places.*UPDATE and HOLD lie at different places"),
    (ShapeFelt, r"acts otherwise.*or say shape_sensitive = True"),
    (NotFinite, r"parameters of NaN gave an action that is not finite.*never an error"),
    (NotFlagged, r"gave a zero action without saying so in `replaced`"),
    (NoError, r"`observe` measured \['surprise'\].*unless the agent says `predicts = False`"),
    (TakenName, r"`level` is a column of the stream's log already"),
    (FitInPlace, r"`fit` writes into what it is given.*HOLD goes on with the same arrays"),
    (FitDraws, r"the same training with the same keys came out otherwise.*`batch_keys` alone"),
    (ReadsPadding, r"`fit` reads them.*Rows from `size` on are padding"),
    (LossReadsPadding, r"`loss` reads them"),
    (TrainsTogether, r"were trained otherwise than among others"),
    (AnyScope, r"scope='no such scope'.*name those that are known: model"),
    (NoDevice, r"`device` is ''.*part of a ledger's identity"),
    (OtherShapes, r"`fit` returned other parameters.*They are as they came"),
    (AnyPrecision, r"precision='no such precision'.*gave an agent"),
    (NeverTwice, r"the `parameters` are others the second time.*`generate` of the event"),
    (WideCheckpoint, r"leading axis of one"),
    (Unbuilt, r"it raised TypeError: two weights are missing\. It happened in .*build"),
]
