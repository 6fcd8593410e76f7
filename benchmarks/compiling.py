"""Do a pretraining's programs compile side by side? When each was compiled, and by which thread.

    python benchmarks/compiling.py registrations/pretrain-cartpole.toml             # as pretraining does
    python benchmarks/compiling.py registrations/pretrain-cartpole.toml --in-turn   # one after the other

Members act and learn for twenty control steps, so that every program of the training is called. The cache of
compiled programs is left alone, neither read nor written.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

os.environ["WORLDFORK_COMPILED"] = "off"
os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)

import jax.monitoring

from worldfork.lab.agents.rssm_cem.pretraining import loop
from worldfork.lab.agents.rssm_cem.pretraining.recipe import read_recipe
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds
from worldfork.lab.ahead import Ahead

SHORTEST = 0.5  # seconds: what takes less is not listed


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("recipe", type=Path)
    options.add_argument("--in-turn", action="store_true", help="Compile where and when a program is first called.")
    given = options.parse_args()
    began = time.perf_counter()

    def listen(event: str, seconds: float, **details: str) -> None:
        if event.endswith("backend_compile_duration") and seconds > SHORTEST:
            now, thread = time.perf_counter() - began, threading.current_thread().name
            print(
                f"{details.get('fun_name', '?'):28} {thread:12} from {now - seconds:6.1f} to {now:6.1f} s",
                flush=True,
            )

    jax.monitoring.register_event_duration_secs_listener(listen)
    recipe = read_recipe(given.recipe)
    # One episode that is random and one step that learns: every program of the training is called.
    recipe = recipe.model_copy(update={"episodes": recipe.random_episodes + 1})
    worlds = Worlds(recipe)
    worlds.episode_steps = 20
    ahead = None if given.in_turn else Ahead()
    with tempfile.TemporaryDirectory() as folder:
        loop.train(recipe, worlds, folder=Path(folder), ahead=ahead)
    print(f"all of it: {time.perf_counter() - began:.1f} s on {jax.devices()[0].device_kind}")


if __name__ == "__main__":
    main()
