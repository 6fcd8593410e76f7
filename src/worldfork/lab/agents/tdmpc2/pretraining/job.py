"""Pretraining of one group of seeds, on whichever machine this is.

    prove that physics is clean -> train all members in one program -> gate, evaluate, write what passes

An interrupted group is carried on by the same call where its training state was saved.
"""

import os
import tempfile
import time
from pathlib import Path

from worldfork.lab.agents.rssm_cem.pretraining.job import GroupTrained
from worldfork.lab.agents.rssm_cem.pretraining.outcomes import Curve
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds
from worldfork.lab.agents.tdmpc2.pretraining.harvest import harvest
from worldfork.lab.agents.tdmpc2.pretraining.loop import train
from worldfork.lab.agents.tdmpc2.pretraining.recipe import Recipe
from worldfork.lab.determinism import flags, processor
from worldfork.ledger.provenance import source_digest, sources, versions
from worldfork.progress import Notify, Progress, ignore, silent

__all__ = ["train_group", "trainer"]


def train_group(
    recipe: Recipe,
    number: int,
    *,
    state: Path | None = None,
    save_every: int = 10,
    stop_after: float | None = None,
    threads: int | None = None,
    progress: Progress = silent,
    notify: Notify = ignore,
) -> GroupTrained | None:
    """Train group `number` of the recipe. The training state is saved in the folder `state` every `save_every`
    episodes; after `stop_after` seconds it is saved there and None is returned: the same call goes on."""
    group = recipe.groups()[number]
    worlds = Worlds(group, threads=threads or int(os.environ.get("WORLDFORK_THREADS", 0)) or None)
    worlds.proofs()  # refuses here, before an hour is spent, if any physics is not clean

    def watch(episode: int, curves: list[Curve]) -> None:
        returns = " ".join(f"{row['planned_return']:.0f}" for row in curves)
        loss = "".join(f", loss {row['model_loss']:.3f}" for row in curves[:1] if "model_loss" in row)
        notify(f"episode {episode + 1} of {group.episodes}: {curves[0]['task']} returns {returns}{loss}")
        progress("episodes", episode + 1, group.episodes)

    progress("episodes", 0, group.episodes)
    with tempfile.TemporaryDirectory(prefix="worldfork-") as scratch:
        trained = train(
            group,
            worlds,
            folder=state or Path(scratch, "state"),
            watch=watch,
            save_every=save_every if state else group.episodes,
            stop_after=stop_after,
        )
        if trained is None:
            return None
        began = time.monotonic()
        written = Path(scratch, "checkpoints")
        written.mkdir()
        seeds = harvest(recipe, worlds, trained, written, group=group, progress=progress)
        files = {path.name: path.read_bytes() for path in sorted(written.iterdir())}
    return GroupTrained(seeds, trained.curves, files, trained.seconds, time.monotonic() - began)


def trainer(recipe: Recipe) -> dict[str, object]:
    """What this machine would train the recipe with: all that decides digits and is not in the recipe."""
    simulators: dict[str, object] = {}
    device = ""
    for group in {tuple(group.tasks): group for group in recipe.groups()}.values():
        worlds = Worlds(group, threads=1)
        worlds.proofs()
        simulators |= {task: environment.simulator for task, environment in worlds.environments.items()}
        plugin = recipe.plugin(recipe.collection)
        device = plugin.build(next(iter(worlds.environments.values())), precision=recipe.precision).device
    return {
        "device": device,
        "processor": processor()[0] if device == "cpu" else None,
        "compiler_flags": flags(),
        "simulator": simulators,
        "packages": versions(("numpy", *plugin.packages)),
        "source": source_digest(sources((__name__,))),
    }
