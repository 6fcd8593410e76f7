"""Acting for a batch that is too small to fill the device: its time goes into launching pieces of work, and every
piece between an observation and its action counts.

What depends on the parameters alone is prepared once a roll-out. Of the rest, one program lies between an
observation and its action: it corrects the belief and searches, with all iterations written out. Where the action
leads is computed by a second program, while the world is being stepped, and signals only if somebody reads them.
One array goes to the device at a control step, and the one that comes back is written where the host reads it. The
bits are those of the general way.

Axes: P parameter sets, E episodes, O observations, A actions, H horizon.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding
from jaxtyping import Array, Float, Float32, UInt32

from worldfork.lab.agents.base import Arrays, Decision
from worldfork.lab.agents.rssm_cem.model.layers import Params
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM, Latent
from worldfork.lab.agents.rssm_cem.planning import Prepared, imagination, prepare
from worldfork.lab.planner import cem
from worldfork.lab.planner.cem import CEM
from worldfork.lab.programs import Program, program

__all__ = ["Belief", "Frozen", "OnDemand", "Outcome", "Settings", "begin", "freeze", "respond"]

CORRECTING = ("model/encoder/", "model/posterior/")  # what corrects a belief by an observation
ADVANCING = ("model/input/", "model/gru/")  # what leads from there to the next one


class Belief(NamedTuple):
    """What carries over from one control step to the next."""

    latent: Latent
    action: Float[Array, "P E A"]
    warm: Float[Array, "P E H A"]


@dataclasses.dataclass(frozen=True, eq=False)
class Settings:
    """What programs are compiled for, compared by identity: `of` gives one object for equal settings."""

    model: RSSM
    imagined: RSSM  # the model as the planner runs it
    planner: CEM

    @staticmethod
    @functools.cache
    def of(model: RSSM, imagined: RSSM, planner: CEM) -> "Settings":
        """The same object for equal settings, and so the same programs."""
        return Settings(model, imagined, planner)


class Frozen(dict[str, Array]):
    """Parameters that stay as they are for a whole roll-out, on the device, and what each program reads of them."""

    settings: Settings
    device: jax.Device
    correcting: dict[str, Array]
    advancing: dict[str, Array]
    planning: dict[str, Array]  # prepared for the kernel, or as they are


class Foreseen(NamedTuple):
    """What carries over from a decision to the observation that it leads to."""

    latent: Latent  # that the action was planned from
    answer: Float32[Array, "P E A+1"]  # the action, and whether it was replaced
    deter: Float32[Array, "P E D"]  # where the action leads
    warm: Float32[Array, "P E H A"]

    def general(self) -> Belief:
        """The same as the general way carries it over."""
        return Belief(self.latent, self.answer[..., :-1], self.warm)


class Outcome(NamedTuple):
    """An observation that has not been taken in yet: that is left to the program that plans."""

    deter: Any  # [P, E, D]
    warm: Any  # [P, E, H, A]
    observation: Float[np.ndarray, "P E O"]


def freeze(parameters: Arrays, settings: Settings, *, kernel: bool) -> Frozen:
    """The parameters for a roll-out; `kernel` prepares them for the fused one."""
    frozen = Frozen(jax.device_put(dict(parameters)))
    frozen.settings = settings
    (frozen.device,) = next(iter(frozen.values())).devices()
    frozen.correcting = {name: x for name, x in frozen.items() if name.startswith(CORRECTING)}
    frozen.advancing = {name: x for name, x in frozen.items() if name.startswith(ADVANCING)}
    frozen.planning = _prepare(settings.imagined, dict(frozen)) if kernel else dict(frozen)
    return frozen


def begin(frozen: Frozen, observation: Float[np.ndarray, "P E O"]) -> Outcome:
    """An episode's first observation: before it there was no state, and no plan to start from."""
    batch, model = observation.shape[:2], frozen.settings.model
    deter = np.zeros((*batch, model.deter), np.float32)
    warm = np.zeros((*batch, frozen.settings.planner.horizon, model.action_size), np.float32)
    return Outcome(deter, warm, observation)


def respond(frozen: Frozen, outcome: Outcome, plan_keys: UInt32[np.ndarray, "P E 2"]) -> Decision:
    """Take the observation in, and plan."""
    given = _packed(outcome.observation, plan_keys)
    on_the_host, answer, stoch, warm = _planning_on(frozen.device)(
        frozen.settings, frozen.correcting, frozen.planning, outcome.deter, outcome.warm, given
    )
    latent = Latent(outcome.deter, stoch)
    belief = Foreseen(latent, answer, _advance(frozen.settings, frozen.advancing, latent, answer), warm)
    return Decision(_Columns(on_the_host, slice(0, -1), np.float32), _Columns(on_the_host, -1, np.bool_), belief)


class OnDemand(Mapping[str, Any]):
    """Signals that are computed when the first of them is read."""

    def __init__(self, compute: Callable[[], Mapping[str, Any]]) -> None:
        self._compute = compute

    @functools.cached_property
    def _signals(self) -> Mapping[str, Any]:
        return self._compute()

    def __getitem__(self, name: str) -> Any:
        return self._signals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signals)

    def __len__(self) -> int:
        return len(self._signals)


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Some columns of an array that may still be on its way: who reads them waits."""

    whole: Any
    columns: Any
    dtype: Any

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.whole)[..., self.columns].astype(dtype or self.dtype)


def _packed(
    observation: Float[np.ndarray, "P E O"], plan_keys: UInt32[np.ndarray, "P E 2"]
) -> UInt32[np.ndarray, "P E O+2"]:
    """One array for the device, which takes as long for two words as for twenty."""
    given = np.empty((*observation.shape[:2], observation.shape[2] + 2), np.uint32)
    given.view(np.float32)[..., :-2] = observation
    given[..., -2:] = plan_keys
    return given


@program(static_argnums=0)
def _prepare(model: RSSM, params: dict[str, Array]) -> Prepared:
    return jax.vmap(functools.partial(prepare, model))(params)


@functools.cache
def _planning_on(device: jax.Device) -> Program[tuple[Array, Array, Array, Array]]:
    """`_respond` for one device. An answer in the device's memory would have to be fetched once it is there."""
    host = SingleDeviceSharding(device, memory_kind="pinned_host")
    return Program(_respond, static_argnums=0, out_shardings=(host, None, None, None))


def _respond(
    settings: Settings,
    correcting: dict[str, Array],
    planning: dict[str, Array],
    deter: Array,
    warm: Array,
    given: Array,
) -> tuple[Array, Array, Array, Array]:
    """Correct the belief by the observation, and plan from it. The answer is there twice: for the host to read, and
    for the next program."""
    model = settings.model
    observation, words = jax.lax.bitcast_convert_type(given[..., :-2], jnp.float32), given[..., -2:]

    def correct(params: Params, deter: Array, observation: Array) -> Array:
        return model.mode(model.posterior(params, deter, model.encode(params, observation)))

    def search(params: Params, latent: Latent, warm: Array, words: Array) -> cem.Plan:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        prepared = dict(params) if "weights" in params else None
        imagine = imagination(settings.imagined, params, latent, prepared)
        # A CPU launches nothing, and rounds otherwise when iterations are written out.
        return cem.plan(imagine, warm, key, settings=settings.planner, unrolled=prepared is not None)

    stoch = jax.lax.optimization_barrier(  # type: ignore[no-untyped-call]
        jax.vmap(correct)(correcting, deter, observation)
    )
    each_episode = jax.vmap(search, in_axes=(None, 0, 0, 0))
    plans = jax.vmap(each_episode)(planning, Latent(deter, stoch), warm, words)
    answer = jnp.concatenate([plans.action, ~plans.finite[..., None]], -1)
    return answer, answer, stoch, jax.vmap(jax.vmap(cem.shift))(plans.mean)


@program(static_argnums=0)
def _advance(settings: Settings, params: dict[str, Array], latent: Latent, answer: Array) -> Array:
    """The deterministic state that the action leads to."""
    return jax.vmap(settings.model.advance)(params, latent, answer[..., :-1])
