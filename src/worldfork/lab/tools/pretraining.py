"""Pretraining: a recipe in, a folder of checkpoints with manifests out, group by group wherever an executor says.

    read the recipe -> what trains it -> every group that is missing -> choose, number and write the checkpoints

A recipe says which seeds are trained together in one program (`seeds_per_group`), since digits depend on their
number. Who trains a group does not change a byte of its checkpoints, so executors and numbers of workers may change
between two calls. Finished groups are kept in `groups/`; the calling process alone writes there, and needs neither
an accelerator nor the libraries for one. An interrupted pretraining is carried on by the same call.
"""

import dataclasses
import functools
import importlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from worldfork.blobs import shares_disk
from worldfork.errors import Failed, WorldforkError
from worldfork.executors.base import Answers, Executor, ExecutorPlugin, opened
from worldfork.lab.agents.pretraining.outcomes import (
    Curve,
    Pretraining,
    TrainedSeed,
    choose,
    draw_curves,
    read_finished,
    seed_stem,
    write_curves,
    write_finished,
)
from worldfork.lab.agents.pretraining.recipe import read_tables, restore
from worldfork.lab.agents.rssm_cem import recipe as rssm_cem
from worldfork.lab.agents.tdmpc2 import recipe as tdmpc2
from worldfork.lab.workers import attempted, worker_name
from worldfork.ledger import files
from worldfork.ledger.documents import read_json
from worldfork.progress import Notify, Progress, ignore, log, shows_progress, silent
from worldfork.registration import difference
from worldfork.registration.schema import canonical
from worldfork.registry import load

Recipe = rssm_cem.Recipe | tdmpc2.Recipe
PAPER: Final = "rssm_cem"  # the agent of a recipe that names none
RECIPES: Final[Mapping[str, type[Recipe]]] = {PAPER: rssm_cem.Recipe, "tdmpc2": tdmpc2.Recipe}
# The module whose `Trainee` an agent's recipe trains; it needs libraries that a driver may lack.
TRAINEES: Final = {agent: f"worldfork.lab.agents.{agent}.pretraining" for agent in RECIPES}

GROUPS: Final = "groups"  # the folder of those that are finished, while others are not
TRAINER: Final = "trainer.json"  # what the first of them was trained with
RECORD: Final = "group.json"  # of a finished group, written last
FAILURES: Final = "failures.log"
STATE: Final = "training.safetensors*"  # and what a kill left of one half written
SUFFIXES: Final = (".safetensors", ".json", ".npz")


@dataclasses.dataclass(frozen=True)
class DescribeTrainer:
    """Describe what this recipe would be trained with."""

    recipe: str  # in canonical JSON

    def __str__(self) -> str:
        return "what trains it"


@dataclasses.dataclass(frozen=True)
class TrainGroup:
    """Train one group of a recipe with nothing else than `trainer`; `state` is where the driver's disk has room for
    the training state, for workers that share it."""

    recipe: str
    number: int
    trainer: Mapping[str, Any]
    state: Path
    save_every: int
    threads: int | None = None

    def __str__(self) -> str:
        return f"group {self.number}"


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
    """A group's record and its files, as they lie on disk."""

    record: dict[str, Any]
    files: dict[str, bytes]
    worker: str

    def same_as(self, other: "Trained") -> bool:
        """Return True if another worker came to the same; that took another time."""
        texts = [json.dumps([result.record["seeds"], result.record["curves"]]) for result in (self, other)]
        return self.files == other.files and texts[0] == texts[1]


@shows_progress
def pretrain(
    recipe: Recipe | str | Path,
    folder: str | Path,
    *,
    executor: Executor | str = "local",
    workers: int | None = None,
    settings: Mapping[str, Any] | None = None,
    save_every: int = 10,
    threads: int | None = None,
    progress: Progress | None = None,
    notify: Notify = log,
) -> Pretraining:
    """Train checkpoints by a recipe, or carry on where an earlier call stopped.

    Args:
        recipe: a file, the name of a recipe that comes with worldfork, or a record.
        folder: where checkpoints, their manifests and the training state go.
        executor: where groups of seeds (`seeds_per_group` of the recipe) are trained; as in `run`.
        workers: processes that train a group each.
        settings: further settings of a named executor.
        save_every: episodes between saves of the training state, by workers that share this disk.
        threads: step the physics, by default as many as there are CPUs; no digit depends on it.
        progress: called with (what, done, total); by default bars in a terminal or notebook.
        notify: called with a sentence worth knowing; by default the log `worldfork`, at INFO.

    >>> import worldfork as wf
    >>> wf.pretrain("pretrain-demo", "runs/checkpoints")  # doctest: +SKIP
    """
    progress = progress or silent
    plan = read_recipe(recipe) if isinstance(recipe, str | Path) else recipe
    folder = Path(folder)
    if (finished := read_finished(folder)) is not None:
        if finished.recipe != plan.digest:
            raise WorldforkError(
                f"{folder} holds the checkpoints of another recipe ({finished.recipe[:12]}, not "
                f"{plan.digest[:12]}). Choose another output folder."
            )
        notify(f"{folder} already holds the checkpoints of this recipe ({finished.recipe[:12]}); nothing to do.")
        return finished
    work = _Work(plan, folder, save_every=save_every, threads=threads)
    chosen = _settings(executor, workers, settings or {}, groups=len(work.groups))
    files.make_folders(folder)
    with files.exclusive(folder / ".lock"), opened(executor, chosen) as where:
        here = getattr(where, "here", False)
        function = functools.partial(perform, progress=progress, notify=notify) if here else perform
        work.train(where, function, progress=progress, notify=notify)
        return work.finish()


def read_recipe(recipe: str | Path) -> Recipe:
    """Return the recipe in a TOML file, or the one of that name that comes with worldfork; or raise one error."""
    tables, path = read_tables(recipe)
    return restore_recipe(tables, name=str(path))


def restore_recipe(tables: dict[str, object], *, name: str) -> Recipe:
    """Return the recipe that tables describe: `agent` says whose, and the paper's without it."""
    agent = str(tables.get("agent", PAPER))
    if agent not in RECIPES:
        raise WorldforkError(
            f"{name} trains the agent {agent!r}, and recipes are for {', '.join(RECIPES)}: an agent of your own "
            "brings its checkpoints along."
        )
    return restore(RECIPES[agent], tables, name=name)


def perform(
    task: DescribeTrainer | TrainGroup, *, progress: Progress = silent, notify: Notify = ignore
) -> dict[str, Any] | Trained | Failed:
    """Do one task, on whichever machine this is."""
    return attempted(lambda: _perform(task, progress, notify))


def _perform(
    task: DescribeTrainer | TrainGroup, progress: Progress, notify: Notify
) -> dict[str, Any] | Trained | Failed:
    recipe = restore_recipe(json.loads(task.recipe), name="The recipe")
    module = TRAINEES[getattr(recipe, "agent", PAPER)]
    try:
        from worldfork.lab.agents.pretraining import group

        trainee = importlib.import_module(module).Trainee
    except ModuleNotFoundError as error:
        raise WorldforkError(
            f"{worker_name()} can not train, since the package `{error.name}` is not installed there: "
            "pip install '.[lab]' in a clone of worldfork."
        ) from error
    if isinstance(task, DescribeTrainer):
        return group.trainer(recipe, module=module)
    if changes := difference(dict(task.trainer), group.trainer(recipe, module=module)):
        listed = "\n  ".join(changes)
        reason = f"The worker {worker_name()} would train otherwise than the first group was trained:\n  {listed}"
        return Failed(reason, reason, unfit=True)
    record, written = group.train_group(
        recipe,
        task.number,
        trainee=trainee,
        state=task.state if shares_disk() else None,
        save_every=task.save_every,
        threads=task.threads,
        progress=progress,
        notify=notify,
    )
    return Trained(record, written, worker_name())


class _Work:
    """A call of `pretrain`: the groups of a recipe, and where they are kept."""

    def __init__(self, recipe: Recipe, folder: Path, *, save_every: int, threads: int | None) -> None:
        self.recipe, self.folder = recipe, folder
        self.save_every, self.threads = save_every, threads
        self.groups = recipe.groups()
        self.spelled = canonical(recipe.model_dump(mode="json", by_alias=True))

    def place(self, number: int) -> Path:
        """Return the folder in which a finished group is kept."""
        return self.folder / GROUPS / str(number)

    def train(
        self, executor: Executor, function: Callable[[Any], Any], *, progress: Progress, notify: Notify
    ) -> None:
        """Have every missing group trained."""
        trainer = self._trainer(executor, function)
        missing = [number for number in range(len(self.groups)) if not (self.place(number) / RECORD).exists()]
        several, done = len(self.groups) > 1, len(self.groups) - len(missing)
        if done:
            notify(f"{done} of {len(self.groups)} groups are trained already.")
            progress("groups", done, len(self.groups))
        tasks = [self._task(number, trainer) for number in missing]
        failures = []
        answers = Answers(executor)
        for index, result in answers.of(tasks, function=function):
            if isinstance(result, Failed):
                failures.append(f"{self._named(missing[index])}: {result.reason}")
                files.append(self.folder / FAILURES, f"{failures[-1]}\n{result.details}\n".encode())
            elif isinstance(result, Trained):
                self._keep(missing[index], result)
                done += 1
                if several:
                    notify(f"{self._named(missing[index])} is trained ({result.worker}).")
                    progress("groups", done, len(self.groups))
            else:
                raise answers.wrong(f"answered {tasks[index]} with a {type(result).__name__}")
        failures += [f"{self._named(missing[index])}: the executor lost it" for index in answers.missing()]
        if failures:
            raise WorldforkError(
                f"{len(failures)} of {len(self.groups)} groups could not be trained; what is finished is kept, and "
                f"the same command tries the rest again (tracebacks: {self.folder / FAILURES}):\n  "
                + "\n  ".join(failures)
            )

    def finish(self) -> Pretraining:
        """Number the checkpoints, leave curves and the record, and drop what is needed no longer."""
        paths = [self.place(number) / RECORD for number in range(len(self.groups))]
        records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        fates = choose(self.recipe, [TrainedSeed(**seed) for record in records for seed in record["seeds"]])
        held = {
            (seed["task"], seed["seed"]): self.place(number)
            for number, record in enumerate(records)
            for seed in record["seeds"]
        }
        for fate in fates:
            for suffix in SUFFIXES if fate.index is not None else ():
                source = held[fate.task, fate.seed] / (seed_stem(fate.task, fate.seed) + suffix)
                if source.exists():  # a recipe may keep no replay
                    files.replace(self.folder / f"{fate.task}-{fate.index}{suffix}", source.read_bytes())
        curves: list[Curve] = [row for record in records for row in record["curves"]]
        write_curves(curves, self.folder / "curves.jsonl")
        draw_curves(curves, self.folder / "curves.png")
        training = sum(record["training_seconds"] for record in records)
        evaluation = sum(record["evaluation_seconds"] for record in records)
        done = Pretraining(self.folder, self.recipe.digest, training, evaluation, fates)
        write_finished(done)
        for state in self.folder.glob(STATE):
            state.unlink()
        shutil.rmtree(self.folder / GROUPS)
        return done

    def _trainer(self, executor: Executor, function: Callable[[Any], Any]) -> dict[str, Any]:
        """Return what trains this recipe, as a worker describes it. What trained its finished groups must be the
        same."""
        answers = Answers(executor)
        results = dict(answers.of([DescribeTrainer(self.spelled)], function=function))
        match results.get(0):
            case Failed() as failed:
                raise WorldforkError(failed.reason)
            case dict() as trainer:
                pass
            case other:
                raise answers.wrong(f"answered with a {type(other).__name__} when asked what trains a recipe")
        path = self.folder / GROUPS / TRAINER
        entry = {"recipe": self.recipe.digest, "trainer": trainer}
        if self._begun() and path.exists() and (changes := difference(read_json(path), entry)):
            listed = "\n  ".join(changes)
            raise WorldforkError(
                f"{self.folder} holds groups that were trained otherwise:\n  {listed}\n"
                "Go on as it began, or choose another output folder."
            )
        files.make_folders(path.parent)
        files.replace(path, (canonical(entry) + "\n").encode())
        return trainer

    def _begun(self) -> bool:
        """Return True if anything is there that a training has come to."""
        kept = (self.folder.glob(STATE), *((self.folder / GROUPS).glob(f"*/{name}") for name in (RECORD, STATE)))
        return any(True for paths in kept for _ in paths)

    def _task(self, number: int, trainer: Mapping[str, Any]) -> TrainGroup:
        state = self.place(number) if len(self.groups) > 1 else self.folder
        return TrainGroup(self.spelled, number, trainer, state, self.save_every, self.threads)

    def _keep(self, number: int, trained: Trained) -> None:
        """The files first, then the record: with it the group is finished."""
        place = self.place(number)
        files.make_folders(place)
        for name, content in trained.files.items():
            files.replace(place / Path(name).name, content)
        files.replace(place / RECORD, (json.dumps(trained.record) + "\n").encode())
        for state in place.glob(STATE):
            state.unlink()

    def _named(self, number: int) -> str:
        seeds = {task: ", ".join(map(str, entry.seeds)) for task, entry in self.groups[number].tasks.items()}
        listed = "; ".join(f"{task} {numbers}" for task, numbers in seeds.items())
        return f"group {number} ({listed})"


def _settings(
    executor: Executor | str, workers: int | None, settings: Mapping[str, Any], *, groups: int
) -> dict[str, Any]:
    """Return the settings of a named executor, as they suit trainings: one may take hours, and a single group needs
    no process but this one."""
    suited: dict[str, Any] = {"workers": 1} if executor == "local" and groups == 1 else {}
    if isinstance(executor, str) and "deadline" in load("executors", executor, ExecutorPlugin).model_fields:
        suited["deadline"] = None
    return {**suited, **settings, **({} if workers is None else {"workers": workers})}
