"""Event-keyed randomness: a draw is a function of the event it belongs to, never of what was drawn before.

An event says what is being drawn for, and where: purpose, task, checkpoint, direction, stream seed, fork,
episode, step, iteration. Mechanism, dose, window, evaluation, noise scale, schedule and branch have no place in
it, so UPDATE and HOLD, and every arm of a study, receive the same draws (paper, "Paired labels").

The discrete part of an event is hashed into two 32-bit words; the counters (fork, episode, step, iteration) are
folded in by threefry, exactly as `jax.random.fold_in` does, so the same key can be derived here for a whole batch
with NumPy or on an accelerator with JAX. Three ways to draw:

- `words(event)`      two words: a key for `jax.random.wrap_key_data`, for `normals`, or for any other agent
- `generator(event)`  a NumPy generator on Philox, for whole arrays on the host
- `seed(event)`       an integer below 2**32, for what takes a seed, such as a simulator's initial state
"""

import contextlib
import dataclasses
import enum
import hashlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from jaxtyping import Float64, Integer, UInt32
from numpy.typing import NDArray

from worldfork.errors import WorldforkError

Words = UInt32[np.ndarray, "*batch 2"]


class Purpose(enum.Enum):
    """Purpose of a draw. UPDATE and HOLD share the first three; UPDATE's minibatches have their own."""

    INITIAL_STATE = "initial-state"
    ACTION_NOISE = "action-noise"
    PLANNING = "planning"
    UPDATE_BATCH = "update-batch"
    PROCESS_NOISE = "process-noise"
    PRETRAINING = "pretraining"
    RESAMPLING = "resampling"
    DRIFT = "drift"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """The address of a draw. `fork` is 0 on the stream itself, k at decision point k; episodes count from 0."""

    purpose: Purpose
    seed: int = 0
    task: str = ""
    checkpoint: str = ""
    direction: str = ""
    stream_seed: int = 0
    fork: int = 0
    episode: int = 0
    step: int = 0
    iteration: int = 0

    def at(self, **where: int) -> "Event":
        """Return this event at another fork, episode, step or iteration."""
        return dataclasses.replace(self, **where)  # type: ignore[arg-type]


COUNTERS: Final = ("fork", "episode", "step", "iteration")


class KeyReuseError(WorldforkError):
    """Raised where a key is used for two purposes: draws would be equal that must be independent."""


def words(event: Event) -> UInt32[np.ndarray, "2"]:
    """Return the event's key as two 32-bit words."""
    return fold_in(root(event), *(getattr(event, name) for name in COUNTERS))


def root(event: Event) -> UInt32[np.ndarray, "2"]:
    """Return the key of the event without its counters (fork, episode, step, iteration)."""
    fields = {name: value for name, value in dataclasses.asdict(event).items() if name not in COUNTERS}
    fields["purpose"] = event.purpose.value
    # Length-prefixed, so that no two events spell the same bytes.
    fields_as_text = "".join(f"{len(text := f'{name}={value}')}:{text};" for name, value in sorted(fields.items()))
    return np.frombuffer(hashlib.sha256(fields_as_text.encode()).digest()[:8], dtype="<u4").astype(np.uint32)


def generator(event: Event) -> np.random.Generator:
    """Return a NumPy generator on Philox, keyed by the event alone."""
    key = words(event)
    consume(key, event.purpose)
    return np.random.Generator(np.random.Philox(key=int(key[0]) << 32 | int(key[1])))


def seed(event: Event) -> int:
    """Return an integer in [0, 2**32) that is a function of the event alone."""
    key = words(event)
    consume(key, event.purpose)
    return int(key[0])


def fold_in(key: Words, *counters: int | np.integer | Integer[np.ndarray, "..."]) -> UInt32[np.ndarray, "*out 2"]:
    """Return keys for each value of each counter in turn; equal to `jax.random.fold_in` bit for bit.

    >>> fold_in(words(Event(purpose=Purpose.PLANNING)), np.arange(3), 7).shape
    (3, 2)
    """
    for counter in counters:
        count = np.asarray(counter)
        if count.size and (count.min() < 0 or count.max() > 0xFFFFFFFF):
            raise WorldforkError(f"A key's counters are integers in [0, 2**32); got {counter!r}.")
        if key.ndim == 1 and count.ndim == 0:
            key = np.array(_threefry_of_one(int(key[0]), int(key[1]), 0, int(count)), dtype=np.uint32)
            continue
        low = np.atleast_1d(count.astype(np.uint32))
        first, second = _threefry(key[..., 0], key[..., 1], np.zeros_like(low), low)
        key = np.stack([first, second], axis=-1).reshape((*np.broadcast_shapes(key.shape[:-1], count.shape), 2))
    return key


def normals(key: Words, count: int, purpose: Purpose) -> Float64[np.ndarray, "*batch {count}"]:
    """Return `count` standard normals for each key; a key's draws do not depend on its place in the batch."""
    from scipy.special import ndtri  # type: ignore[import-untyped,unused-ignore]  # slow to import

    consume(key, purpose)
    counter = np.arange(count, dtype=np.uint32)
    high, low = _threefry(key[..., 0, None], key[..., 1, None], np.full_like(counter, 1), counter)
    # 53 bits, centred in their interval: never 0 or 1, so the normal is always finite.
    bits = (high.astype(np.uint64) << np.uint64(21)) | (low.astype(np.uint64) >> np.uint64(11))
    return ndtri((bits.astype(np.float64) + 0.5) * 2.0**-53)


def consume(key: Words, purpose: Purpose) -> None:
    """Declare what `key` is drawn from for. Free of cost, except inside `audit`, where reuse is an error."""
    if _audited is None:
        return
    for row in np.ascontiguousarray(key).reshape(-1, 2):
        first = _audited.setdefault(row.tobytes(), purpose)
        if first is not purpose:
            raise KeyReuseError(
                f"The key {row.tolist()} was drawn from for {first.value} and again for {purpose.value}. "
                "Derive one key per purpose: words(Event(purpose=...))."
            )


@contextlib.contextmanager
def audit() -> Iterator[None]:
    """Within this context a key used for two purposes raises `KeyReuseError`; the tests run inside it."""
    global _audited
    before, _audited = _audited, {}
    try:
        yield
    finally:
        _audited = before


_audited: dict[bytes, Purpose] | None = None

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


def _threefry(
    key0: NDArray[np.uint32], key1: NDArray[np.uint32], x0: NDArray[np.uint32], x1: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011)."""
    schedule = (key0, key1, key0 ^ key1 ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):  # arithmetic modulo 2**32 is the point
        x0, x1 = x0 + schedule[0], x1 + schedule[1]
        for group in range(5):
            for rotation in _ROTATIONS[group % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
                x1 = x1 ^ x0
            x0 = x0 + schedule[(group + 1) % 3]
            x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def _threefry_of_one(key0: int, key1: int, x0: int, x1: int) -> tuple[int, int]:
    """Return Threefry of one key and one counter in Python's integers, which is faster than NumPy for so few."""
    schedule = (key0, key1, key0 ^ key1 ^ 0x1BD11BDA)
    x0, x1 = (x0 + key0) & 0xFFFFFFFF, (x1 + key1) & 0xFFFFFFFF
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = (x0 + x1) & 0xFFFFFFFF
            x1 = ((x1 << rotation | x1 >> (32 - rotation)) & 0xFFFFFFFF) ^ x0
        x0 = (x0 + schedule[(group + 1) % 3]) & 0xFFFFFFFF
        x1 = (x1 + schedule[(group + 2) % 3] + group + 1) & 0xFFFFFFFF
    return x0, x1
