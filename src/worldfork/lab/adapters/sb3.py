"""Agents of Stable-Baselines3: `agent = "sb3"` and `checkpoints = "models/sac-{checkpoint}.zip"`.

The model is made from registered settings and filled from the archive that `model.save` wrote. The deployment's
window takes the place of the replay buffer or of the rollout; the training itself is SB3's own `train`.
"""

import hashlib
from pathlib import Path
from typing import Any, Literal

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.adapters.sb3_archive import pack as pack
from worldfork.lab.adapters.sb3_archive import read_archive
from worldfork.lab.agents.base import Checkpoint
from worldfork.lab.agents.stateful import StatefulPlugin, seeded
from worldfork.lab.agents.stateful_checkpoints import parted, replay_window
from worldfork.lab.environments.base import AfterEnd, Environment
from worldfork.lab.episodes import fixed_level_returns
from worldfork.ledger.arrays import content_digest


class SB3Plugin(StatefulPlugin):
    """Settings of an agent of Stable-Baselines3.

    Args:
        algorithm: the class of SB3 that trained it.
        hyperparameters: arguments of that class as they were in training, but for the policy, the environment and
            what only the collection of data needs; an activation function by its name in `torch.nn`. What is left
            out is SB3's default, and `worldfork check` says what an archive would have otherwise.
        deterministic: act by the mean of the policy; by default off-policy algorithms do, and on-policy ones, which
            learn from their own exploration, do not.
        clean_episodes: episodes in which a checkpoint's return in the clean world is measured when it is loaded.
        after_end: how these episodes go on once they have ended early; left out, as the task's do.

    Example:
        >>> SB3Plugin(algorithm="SAC", hyperparameters={"policy_kwargs": {"net_arch": [64, 64]}}).clean_episodes
        10
    """

    packages = ("stable-baselines3", "torch")
    object_per_set = True
    suffixes = (".zip",)
    optional_suffixes = ()
    replay_advice = (
        "Write its archive with pack(model, path, replay=200) of worldfork.lab.adapters.sb3, which keeps the "
        "newest transitions of its replay buffer: `model.save` leaves them out."
    )

    algorithm: Literal["SAC", "TD3", "DDPG", "PPO", "A2C"]
    hyperparameters: dict[str, Any] = {}
    deterministic: bool | None = None
    clean_episodes: int = 10
    after_end: AfterEnd | None = None

    def make(self, environment: Environment) -> Any:
        try:
            import gymnasium
            import stable_baselines3
            import torch

            from worldfork.lab.adapters.sb3_agents import OffPolicy, OnPolicy
        except ModuleNotFoundError as error:
            raise WorldforkError(
                f"This agent needs `{error.name}`: pip install '.[lab,gymnasium,sb3]' in a clone of worldfork."
            ) from error
        torch.set_num_threads(1)  # sums must not depend on how many processors there are
        on_policy = self.algorithm in ("PPO", "A2C")
        given = {**self.hyperparameters, "device": "cpu"} | ({} if on_policy else {"buffer_size": 1})
        returns_of_n_steps = not on_policy and given.get("n_steps", 1) > 1
        if given.get("use_sde") or returns_of_n_steps or not np.isfinite(environment.action_bound):
            raise WorldforkError(
                "An agent of SB3 needs a bounded action, and can have neither `use_sde`, whose noise outlives a "
                "step, nor, off-policy, `n_steps` above 1."
            )
        box, bound, shell = gymnasium.spaces.Box, environment.action_bound, gymnasium.Env()
        shell.observation_space = box(-np.inf, np.inf, (environment.observation_size,), np.float32)
        shell.action_space = box(-bound, bound, (environment.action_size,), np.float32)
        kind: Any = getattr(stable_baselines3, self.algorithm)
        try:
            networks = dict(given.pop("policy_kwargs", None) or {})
            if isinstance(networks.get("activation_fn"), str):
                networks["activation_fn"] = getattr(torch.nn, networks["activation_fn"])
            model = kind("MlpPolicy", shell, policy_kwargs=networks, **given)
        except Exception as error:  # whatever SB3 and PyTorch raise over a value
            words = " ".join(f"{type(error).__name__}: {error}".split())
            raise WorldforkError(f"{self.algorithm} does not take these `hyperparameters`: {words}") from error
        chosen = not on_policy if self.deterministic is None else self.deterministic
        return (OnPolicy if on_policy else OffPolicy)(model, deterministic=chosen)

    def load(self, agent: Any, environment: Any, path: Path) -> Checkpoint:
        file = path.with_suffix(".zip")
        with seeded(np.zeros(2, np.uint32)):  # networks begin at random
            inner = self.make(environment)
        extra, inner.model._n_updates = read_archive(file, inner.model, registered=self.hyperparameters)
        for name in inner.scales:
            inner.scales[name] = extra.get(f"normalisation.{name}", inner.scales[name])
        parameters, optimiser = parted(inner.get_state())
        returns = fixed_level_returns(
            agent,
            environment,
            parameters,
            checkpoints=["sb3"],
            episodes=self.clean_episodes,
            occasion="report",
            after_end=self.after_end or "reset",
        )
        columns = {name.partition(".")[2]: rows for name, rows in extra.items() if name.startswith("replay.")}
        return Checkpoint(
            parameters,
            optimiser,
            float(returns.mean()),
            hashlib.sha256(file.read_bytes()).hexdigest(),
            replay=replay_window(columns) if columns else None,
            replay_digest=content_digest(columns) if columns else None,
            after_end=self.after_end,
        )
