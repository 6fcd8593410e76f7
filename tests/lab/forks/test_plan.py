"""Which streams and forks are computed together, written out; and what a registration's names are built into."""

from pathlib import Path

import numpy as np
import pytest
from kill_and_resume import REGISTRATION

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import AgentPlugin
from worldfork.lab.forks.checkpoints import checkpoint_files, checkpoint_source
from worldfork.lab.forks.context import Context, outside_code
from worldfork.lab.forks.plan import fork_blocks, stream_batches
from worldfork.registration import Cell, Registration, cells, parse

TASK = "linear_quadratic"


def registered(*changes: tuple[str, str]) -> Registration:
    """Two arms on two cells, four decision points each: `many` shares streams and HOLD with `few`."""
    text = REGISTRATION
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def places(blocks: list[tuple[tuple[Cell, int], ...]]) -> list[list[str]]:
    return [[f"{cell.arm} {cell.direction} {k}" for cell, k in block] for block in blocks]


def test_forks_fill_blocks_in_order_and_twice_as_many_where_hold_is_shared() -> None:
    registration = registered()  # three forks per block
    assert places(fork_blocks(registration, shared=False)) == [
        ["few toward 1", "few toward 2", "few toward 3"],
        ["few toward 4", "few away 1", "few away 2"],
        ["few away 3", "few away 4"],
    ]
    assert places(fork_blocks(registration, shared=True)) == [
        [f"many toward {k}" for k in (1, 2, 3, 4)] + ["many away 1", "many away 2"],
        ["many away 3", "many away 4"],
    ]


def test_a_block_is_of_one_arm_and_one_task() -> None:
    registration = registered(
        ("forks_per_block = 3", "forks_per_block = 100"),
        ("mechanism = {steps = 10}", "evaluation = {episodes = 2}"),
        (f'tasks = ["{TASK}"]', f'tasks = ["{TASK}", "second"]'),
        (
            "[execution]",
            f'[tasks.second]\nenvironment = "{TASK}"\nagent = "{TASK}"\ndrift_scale = 3.0\n[execution]',
        ),
    )
    blocks = fork_blocks(registration, shared=False)
    kinds = [{(cell.arm, cell.task) for cell, _ in block} for block in blocks]
    assert kinds == [{("few", TASK)}, {("few", "second")}, {("many", TASK)}, {("many", "second")}]
    assert [len(block) for block in blocks] == [8] * 4
    assert fork_blocks(registration, shared=True) == []


def test_an_arm_in_blocks_of_another_shape_evaluates_a_hold_of_its_own() -> None:
    """On an accelerator the shape of a batch moves the last bits of HOLD too: it is part of what is compared."""
    plain, shaped = registered(), registered(("mechanism = {steps = 10}", "forks_per_block = 2"))
    assert fork_blocks(shaped, shared=True) == []
    assert [len(block) for block in fork_blocks(shaped, shared=False)] == [3, 3, 2, 2, 2, 2, 2]
    assert shaped.arm("many").decisive()["forks_per_block"] == 2
    # Who has the study's blocks is registered as before arms could have others: under the same digest.
    assert "forks_per_block" not in plain.arm("many").decisive()
    assert "forks_per_block" not in str(plain.model_dump(mode="json")["arms"])


@pytest.mark.parametrize(("size", "batches"), [(1, [1, 1]), (2, [2]), (3, [2])])
def test_streams_are_run_once_by_their_owners(size: int, batches: list[int]) -> None:
    registration = registered(("forks_per_block = 3", f"forks_per_block = 3\nstreams_per_batch = {size}"))
    found = stream_batches(registration)
    assert [len(batch) for batch in found] == batches
    assert [(cell.arm, cell.direction) for batch in found for cell in batch] == [("few", "toward"), ("few", "away")]


def test_an_arms_settings_and_precision_are_its_own_and_the_streams_are_the_tasks() -> None:
    registration = registered(
        ("mechanism = {steps = 10}", "settings = {batch = 3}"),
        ('precision = "float64"', 'precision = "float64"\nsettings = {batch = 8, momentum = 0.5}'),
    )
    context = Context(registration, {})
    few, many = registration.arm("few"), registration.arm("many")
    assert [context.agent(TASK, arm).batch for arm in (None, few, many)] == [8, 8, 3]  # type: ignore[attr-defined]
    assert context.agent(TASK, many).momentum == 0.5  # type: ignore[attr-defined]
    assert context.agent(TASK) is context.agent(TASK, few)  # equal ones are built once
    assert context.agent(TASK) is not context.agent(TASK, many)
    assert context.precision(TASK, many.model_copy(update={"precision": "bf16"})) == "bf16"
    assert context.precision(TASK, many) == context.precision(TASK) == "float64"


def test_checkpoints_below_the_floor_are_refused_and_those_at_it_are_not() -> None:
    worth = Context(registered(), {}).checkpoint(TASK, 0).clean_return

    def floored(floor: float) -> float:
        context = Context(registered(("drift_scale = 2.0", f"drift_scale = 2.0\ncompetence_floor = {floor!r}")), {})
        return float(context.checkpoint(TASK, 0).clean_return)

    assert floored(worth) == worth
    with pytest.raises(WorldforkError, match="below the registered floor"):
        floored(float(np.nextafter(worth, 0.0)))


def test_a_checkpoint_is_a_matter_of_seed_task_and_index() -> None:
    base = Context(registered(), {})
    digests = {
        base.checkpoint(TASK, 0).digest,
        base.checkpoint(TASK, 1).digest,
        Context(registered(('name = "killed"', 'name = "killed"\nseed = 1')), {}).checkpoint(TASK, 0).digest,
    }
    assert len(digests) == 3
    assert Context(registered(), {}).checkpoint(TASK, 0).digest in digests


def test_the_common_settings_of_a_mechanism_are_not_its_own() -> None:
    registration = registered(("mechanism = {steps = 10}", "mechanism = {settings = {steps = 10}}"))
    with pytest.raises(WorldforkError, match=r"`steps` belongs in \[mechanism\]"):
        Context(registration, {}).mechanism(registration.arm("many"))
    found = Context(registration, {}).mechanism(registration.arm("few"))
    assert (found.steps, found.window, found.scope) == (5, 100, "model")


@pytest.mark.parametrize(("drift", "scale"), [("linear", None), ("log", 2.0)])
def test_drift_is_by_the_logarithm_where_that_is_registered(drift: str, scale: float | None) -> None:
    context = Context(registered(("drift_scale = 2.0", f'drift_scale = 2.0\ndrift = "{drift}"')), {})
    schedule = context.schedule(Cell("few", TASK, 0, "toward", 0))
    assert (schedule.direction, schedule.period, schedule.log_scale) == ("toward", 100, scale)


def test_an_agent_that_can_not_be_built_is_told_by_its_task() -> None:
    context = Context(registered(('precision = "float64"', 'precision = "float8"')), {})
    with pytest.raises(WorldforkError, match=r"\[tasks\.linear_quadratic\], agent `linear_quadratic`: .*float8"):
        context.agent(TASK)


def test_two_signals_of_one_name_are_refused() -> None:
    registration = registered(('name = "killed"', 'name = "killed"\nsignals = ["residual", "residual"]'))
    with pytest.raises(WorldforkError, match="Two of the registered signals are called `residual`"):
        _ = Context(registration, {}).signals
    assert list(Context(registered(), {}).signals)[:2] == ["residual", "kl"]


def test_code_from_outside_is_named_once() -> None:
    assert outside_code(registered()) == []
    here = f"{__name__}:TASK"
    named = registered(
        ('agent = "linear_quadratic"', f'agent = "{here}"\nenvironment = "{here}"'),
        ("steps = 5", f'steps = 5\nname = "{here}"'),
        ('name = "killed"', f'name = "killed"\nsignals = ["clock", "{here}"]'),
    )
    groups = [located.group for located in outside_code(named)]
    assert sorted(groups) == ["agents", "environments", "mechanisms", "signals"]


def test_a_checkpoints_files_are_the_copies_if_all_are_there(tmp_path: Path) -> None:
    registration = registered(
        ('agent = "linear_quadratic"', 'agent = "rssm_cem"\ncheckpoints = "models/{task}/{checkpoint}.safetensors"')
    )
    root, copies = tmp_path / "root", tmp_path / "copies"
    first = checkpoint_source(registration, TASK, 0, root=root)
    assert first == root / "models" / TASK / "0.safetensors"
    first.parent.mkdir(parents=True)
    copies.mkdir()
    suffixes = registry.load("agents", "rssm_cem", AgentPlugin).suffixes
    assert suffixes == (".safetensors", ".json")
    originals = tuple(first.with_suffix(suffix) for suffix in suffixes)
    kept = tuple(copies / f"{TASK}-0{suffix}" for suffix in suffixes)

    def paths() -> dict[tuple[str, int], tuple[Path, ...]]:
        files = checkpoint_files(registration, root=root, copies=copies)
        return {place: tuple(blob.path for blob in blobs) for place, blobs in files.items()}

    originals[0].touch()
    with pytest.raises(WorldforkError, match=r"no checkpoint file `.*0\.json`"):
        checkpoint_files(registration, root=root, copies=copies)
    originals[1].touch()
    assert paths() == {(TASK, 0): originals}
    kept[0].touch()  # a copy of one file alone is no copy
    assert paths() == {(TASK, 0): originals}
    kept[1].touch()
    assert paths() == {(TASK, 0): kept}
    assert checkpoint_files(registered(), root=root, copies=copies) == {}
    kept[0].with_suffix(".npz").touch()  # the replay, where there is one
    assert paths() == {(TASK, 0): (*kept, copies / f"{TASK}-0.npz")}


def test_checkpoints_beyond_a_look_need_no_files(tmp_path: Path) -> None:
    """A study that stops takes up a few checkpoints at a time: the others may never be trained."""
    registration = registered(
        ("checkpoints = [0]", "checkpoints = [0, 1]"),
        ('agent = "linear_quadratic"', 'agent = "rssm_cem"\ncheckpoints = "{task}-{checkpoint}.safetensors"'),
    )
    for suffix in (".safetensors", ".json"):
        (tmp_path / f"{TASK}-0{suffix}").touch()
    first = [cell for cell in cells(registration) if cell.checkpoint == 0]
    assert set(checkpoint_files(registration, root=tmp_path, copies=tmp_path / "copies", of=first)) == {(TASK, 0)}
    with pytest.raises(WorldforkError, match=rf"no checkpoint file `.*{TASK}-1\.safetensors`"):
        checkpoint_files(registration, root=tmp_path, copies=tmp_path / "copies")
