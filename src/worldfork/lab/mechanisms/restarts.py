"""Training that begins elsewhere than where the last one ended: from the checkpoint, from nothing, or part of the
way back.

Sources: shrink and perturb (Ash and Adams, "On warm-starting neural network training", 2020, arXiv:1910.08475);
resets of an agent's networks (Nikishin et al., "The primacy bias in deep reinforcement learning", 2022,
arXiv:2205.07802); interpolation with a fresh network (D'Oro et al., "Sample-efficient reinforcement learning by
breaking the replay ratio barrier", 2023; Schwarzer et al., 2023, arXiv:2305.19452).
"""

from typing import Annotated, Any, Final, Literal

import numpy as np
from jaxtyping import UInt32
from pydantic import Field, model_validator

from worldfork.lab.agents.base import Agent, Arrays
from worldfork.lab.agents.training import Trainable, black_box, chosen_prefixes
from worldfork.lab.mechanisms.base import Origin
from worldfork.lab.mechanisms.finetune import Composed, InitialPoint
from worldfork.randomness import Purpose, consume, fold_in

# Gradient step n draws from fold_in(batch_key, n); these numbers are beyond the last step.
FRESH_KEY: Final = 0xFFFF_FFFC
NOISE_KEY: Final = 0xFFFF_FFFB


class Reset(Composed):
    """Begin anew from the checkpoint or, with `to = "fresh"`, from parameters before any training; then train.

    `groups` limits what is reset; all that the scope trains is trained afterwards. The optimiser begins where the
    parameters do. At a fork the current parameters are the checkpoint's, so that a reset to it is fine-tuning: it
    differs where updates persist. With no steps it is the reset alone.
    """

    to: Literal["checkpoint", "fresh"] = "checkpoint"
    groups: tuple[str, ...] = ()  # none: everything, or with `fresh` everything that the scope trains

    @property
    def rests_without_steps(self) -> bool:
        return False

    def needs(self) -> list[str]:
        return [*super().needs(), *(["fresh parameters"] if self.to == "fresh" else [])]

    def start(
        self, agent: Agent, current: InitialPoint, *, origin: Origin, batch_keys: UInt32[np.ndarray, "P 2"]
    ) -> InitialPoint:
        target, optimiser = origin.parameters, origin.optimiser
        if self.to == "fresh":
            assert isinstance(agent, Trainable)
            target, optimiser = agent.fresh(current.parameters, fold_in(batch_keys, FRESH_KEY))
        everything = not self.groups and self.to == "checkpoint"
        back = {
            name: target[name] if everything or _touched(agent, self.scope, self.groups, name) else array
            for name, array in current.parameters.items()
        }
        return InitialPoint(back, optimiser)


class ShrinkAndPerturb(Composed):
    """keep x current + (1 - keep) x target + noise x standard normal, then train.

    The target is zero as in the source, a fresh network, or the checkpoint. Only what the scope trains is touched
    where the agent says what that is, and everything of a black box. The optimiser of an agent that offers its
    training begins anew; a black box keeps its own. With no steps it is the shrinking alone.
    """

    keep: Annotated[float, Field(ge=0, le=1)] = 0.8
    noise: Annotated[float, Field(ge=0)] = 0.01  # standard deviation
    toward: Literal["zero", "fresh", "checkpoint"] = "zero"

    @model_validator(mode="after")
    def _something(self) -> "ShrinkAndPerturb":
        if self.keep == 1 and self.noise == 0:
            raise ValueError("`keep` = 1 and `noise` = 0 neither shrink nor perturb: that is `finetune`")
        return self

    @property
    def rests_without_steps(self) -> bool:
        return False

    def needs(self) -> list[str]:
        return [*super().needs(), *(["fresh parameters"] if self.toward == "fresh" else [])]

    def start(
        self, agent: Agent, current: InitialPoint, *, origin: Origin, batch_keys: UInt32[np.ndarray, "P 2"]
    ) -> InitialPoint:
        fresh, optimiser = None, current.optimiser
        if not black_box(agent):
            assert isinstance(agent, Trainable)
            fresh, optimiser = agent.fresh(current.parameters, fold_in(batch_keys, FRESH_KEY))
        target: Arrays | None = {"zero": None, "fresh": fresh, "checkpoint": origin.parameters}[self.toward]
        moved = {}
        noise_keys = fold_in(batch_keys, NOISE_KEY)
        for place, name in enumerate(sorted(current.parameters)):
            array = current.parameters[name]
            moved[name] = array
            if _touched(agent, self.scope, (), name):
                shrunk = self.keep * array + ((1.0 - self.keep) * target[name] if target is not None else 0.0)
                moved[name] = (shrunk + self.noise * _normals(array, fold_in(noise_keys, place))).astype(
                    array.dtype
                )
        return InitialPoint({name: moved[name] for name in current.parameters}, optimiser)


def _touched(agent: Agent, scope: str, groups: tuple[str, ...], name: str) -> bool:
    """Return True if a parameter is in the scope and in the groups, if any; of a black box all are."""
    if black_box(agent):
        return True
    assert isinstance(agent, Trainable)
    prefixes = chosen_prefixes(agent, groups or None)
    return agent.trained(scope, name) and (prefixes is None or name.startswith(prefixes))


def _normals(like: Any, keys: UInt32[np.ndarray, "P 2"]) -> np.ndarray:
    """Standard normals of that shape and type, each parameter set's from its own key."""
    consume(keys, Purpose.UPDATE_BATCH)
    dtype = np.float64 if np.asarray(like[:0]).dtype == np.float64 else np.float32
    generators = [np.random.Generator(np.random.Philox(key=int(a) << 32 | int(b))) for a, b in keys]
    return np.stack([generator.standard_normal(like.shape[1:], dtype) for generator in generators])
