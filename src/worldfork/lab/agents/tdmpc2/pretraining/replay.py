"""Minibatches from what was collected, each sequence within one episode.

The arrays are those of `worldfork.lab.agents.rssm_cem.pretraining.replay`, with axes M members, E environments and
T control steps; episodes have one length, so that where they begin needs no search.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from worldfork.lab.agents.rssm_cem.model.losses import Sequences

__all__ = ["sample"]


def sample(
    replay: Sequences,
    filled: int | Int[Array, ""],
    key: Key[Array, ""],
    *,
    sequences: int,
    length: int,
    episode: int,
) -> Sequences:
    """A minibatch of one member's replay [E, T, ...], of which `filled` steps are there: the whole episodes, and
    what there is of the present one."""
    who_key, when_key = jax.random.split(key)
    who = jax.random.randint(who_key, (sequences,), 0, replay.reward.shape[0])[:, None]
    each = episode - length + 1  # places in a whole episode where a sequence can begin
    possible = filled // episode * each + jnp.maximum(0, filled % episode - length + 1)
    place = jax.random.randint(when_key, (sequences,), 0, possible)
    when = (place // each * episode + place % each)[:, None] + jnp.arange(length)
    drawn: Sequences = jax.tree.map(lambda buffer: buffer[who, when], replay)
    return drawn
