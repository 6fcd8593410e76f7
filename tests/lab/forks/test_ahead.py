"""Programs that are compiled while streams run are the ones that blocks call, and only those of worldfork's own."""

import collections
import threading
from pathlib import Path

import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from waiting import until

from worldfork.lab.ahead import Ahead, only_compiling
from worldfork.lab.forks import ahead, label
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.models import checkpoint_files, named_checkpoints
from worldfork.lab.programs import program
from worldfork.registration import cells, parse

SMALL = """
schema = "worldfork.registration/1"
name = "small"
[grid]
tasks = ["cartpole-swingup"]
checkpoints = [0, 1]
directions = ["away"]
[stream]
decision_points = 2
[evaluation]
episodes = 3
[mechanism]
steps = 2
window = 300
[[arms]]
name = "first"
[[arms]]
name = "gentle"
mechanism = {steps = 3, settings = {rate = 0.1}}
[execution]
forks_per_block = 2
streams_per_batch = 2
halves = 2
[tasks.cartpole-swingup]
agent = "rssm_cem"
checkpoints = "bundled"
drift_scale = 1.5
[tasks.cartpole-swingup.settings]
size = "tiny"
candidates = 8
horizon = 2
iterations = 1
elites = 2
sequences = 2
length = 6
"""
COMPILED: collections.Counter[str] = collections.Counter()


def count(event: str, seconds: float, **details: str) -> None:
    if event.endswith("backend_compile_duration"):
        COMPILED[details.get("fun_name", "")] += 1


@pytest.fixture(scope="module", autouse=True)
def _listening() -> None:
    jax.monitoring.register_event_duration_secs_listener(count)


def test_a_rehearsed_call_has_the_right_shapes_and_is_not_run() -> None:
    ran = []

    @program(static_argnames="times")
    def doubled(x: jnp.ndarray, *, times: int) -> tuple[jnp.ndarray, jnp.ndarray]:
        jax.debug.callback(lambda: ran.append(1))
        return x * times, jnp.sum(x)

    with only_compiling():
        product, total = doubled(np.ones((2, 3), np.float32), times=2)
    assert (product.shape, product.dtype, total.shape) == ((2, 3), np.float32, ())
    assert not product.any()
    assert not ran
    product, _ = doubled(np.ones((2, 3), np.float32), times=2)
    jax.effects_barrier()
    assert float(product[0, 0]) == 2.0
    assert ran == [1]


def test_whoever_needs_a_program_waits_for_its_thread_and_does_what_was_not_begun() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        go_on.wait()
        done.append("first")
        raise ValueError("nobody is told: the call in earnest meets it again")

    work = Ahead(threads=1)
    work.add("this", first)
    begun.wait()
    work.add("this", lambda: done.append("not begun"))
    work.add("that", lambda: done.append("other"))

    def let_go() -> None:
        try:  # until `ready` has taken off what was not begun
            until(lambda: all(entry[0] != "this" for entry in list(work._waiting)), lambda: "still waiting")
        finally:
            go_on.set()

    threading.Thread(target=let_go).start()
    work.ready("this")
    assert done[0] == "first"
    work.ready("that")
    assert "not begun" not in done


def test_all_that_was_added_is_waited_for() -> None:
    done: list[int] = []
    work = Ahead(threads=2)
    for number in range(20):
        work.add("this", lambda number=number: done.append(number))  # type: ignore[misc]
    work.finish()
    assert sorted(done) == list(range(20))
    work.finish()  # and nothing is waited for twice


@pytest.mark.nightly
@pytest.mark.parametrize("trained", [True, False])
def test_a_block_finds_what_was_rehearsed(trained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another number of candidates: programs that the other case has compiled are not these.
    registration = parse(SMALL if trained else SMALL.replace("candidates = 8", "candidates = 9"))
    files = checkpoint_files(registration, root=Path(), copies=Path())
    context = Context(registration, named_checkpoints(files), threads=1)
    cell = cells(registration)[0]
    build = Context._environment
    environment = build(context, cell.task)
    environment.episode_steps = 8
    monkeypatch.setattr(Context, "_environment", lambda context, task: environment)
    context = Context(registration, named_checkpoints(files), threads=1)
    jax.clear_caches()
    before = COMPILED.copy()
    if trained:
        ahead.compile_ahead(context, cell)
        ahead._aheads[context].finish()  # all of it, so that nothing is left to the block
    else:
        ahead.compile_without_checkpoints(registration, cell.task)
    rehearsed = COMPILED - before
    programs = ("_train", "_loss", "_begin", "_act", "_observe")
    assert all(rehearsed[f"jit({name})"] for name in programs), rehearsed
    stream = ahead._blank_stream(context.environment(cell.task), 2)
    for other in cells(registration):
        ahead.wait_until_compiled(context, other)
        forks = [label.Fork(other, k, stream) for k in (1, 2)]
        label.evaluate_block(context, forks, size=2, episodes=np.arange(3))
        label.validation_losses(context, forks)
    counted = COMPILED - before
    again = {name: counted[f"jit({name})"] - rehearsed[f"jit({name})"] for name in programs}
    assert again == dict.fromkeys(programs, 0)
