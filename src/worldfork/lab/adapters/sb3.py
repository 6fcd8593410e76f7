"""Agents of Stable-Baselines3: `agent = "sb3"` and `checkpoints = "models/sac-{checkpoint}.zip"`.

The model is made from registered settings and filled from the archive that `model.save` wrote. The deployment's
window takes the place of the replay buffer or of the rollout; the training itself is SB3's own `train`.
"""

import hashlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.adapters.sb3_archive import NORMALISATION, read_archive
from worldfork.lab.adapters.sb3_archive import pack as pack
from worldfork.lab.adapters.torch_state import load_torch_state, torch_state
from worldfork.lab.agents.base import Checkpoint
from worldfork.lab.agents.stateful import StatefulPlugin, Transitions, seeded
from worldfork.lab.agents.stateful_checkpoints import parted, replay_window
from worldfork.lab.environments.base import AfterEnd, Environment
from worldfork.lab.episodes import fixed_level_returns
from worldfork.ledger.arrays import content_digest


class _Agent:
    """A model of SB3 that keeps its state inside; its subclasses know how each kind of algorithm is trained."""

    together = True
    train: Any  # (window, steps), and off-policy (replay, share)
    value: Any  # (observation [T, O], action [T, A] or None) -> [T]

    def __init__(self, model: Any, *, deterministic: bool) -> None:
        from stable_baselines3.common.logger import Logger
        from stable_baselines3.common.save_util import recursive_getattr

        self.model, self.deterministic = model, deterministic
        model.set_logger(Logger(folder=None, output_formats=[]))
        names = [name for group in model._get_torch_save_params() for name in group]
        self.parts = {name: recursive_getattr(model, name) for name in names}
        sizes = dict.fromkeys(("mean", "std"), model.observation_space.shape)
        self.scales = {name: np.full(sizes.get(name, 1), value) for name, value in NORMALISATION.items()}

    def reset(self, observation: np.ndarray) -> None:
        """Do nothing: a model remembers nothing from step to step."""

    def act(self, observation: np.ndarray) -> np.ndarray:
        action, _ = self.model.predict(self.observed(observation).numpy(), deterministic=self.deterministic)
        return np.asarray(action, np.float64)

    def trained(self, window: Transitions, *, steps: int, rate: float, **rehearsal: Any) -> dict[str, float]:
        """Train, and return what `learn` says of it."""
        before, usual = self.loss(window), float(self.model.learning_rate)
        self.model.lr_schedule = lambda remaining: usual * rate
        if steps > 0:
            self.train(window, steps=steps, **rehearsal)
        return {"loss_before": before, "loss_after": self.loss(window)}

    def surprise(
        self, observation: np.ndarray, action: np.ndarray, after: np.ndarray, *, reward: Any, terminated: Any
    ) -> np.ndarray:
        first = np.zeros(len(reward), np.bool_)
        return np.abs(self.td_error(Transitions(observation, action, reward, after, first, terminated)))

    def loss(self, window: Transitions) -> float:
        return float(np.mean(self.td_error(window) ** 2))

    def td_error(self, rows: Transitions) -> np.ndarray:
        """Return the value function's error at each transition [T]; SAC's bonus for entropy is left out."""
        later = np.where(rows.terminated, 0.0, self.value(rows.next_observation))
        return self.earned(rows) + self.model.gamma * later - self.value(rows.observation, rows.action)

    def observed(self, observation: np.ndarray) -> Any:
        """Return observations as the networks take them, normalised as in training."""
        import torch

        scaled = (observation - self.scales["mean"]) / self.scales["std"]
        clip = self.scales["clip"]
        return torch.as_tensor(np.clip(scaled, -clip, clip), dtype=torch.float32)

    def earned(self, rows: Transitions) -> np.ndarray:
        """Return rewards [T], normalised as in training."""
        clip = self.scales["reward_clip"]
        return np.asarray(np.clip(rows.reward / self.scales["reward_std"], -clip, clip))

    def get_state(self) -> dict[str, np.ndarray]:
        scales = {f"normalisation.{name}": array.copy() for name, array in self.scales.items()}
        # TD3 trains its actor at every second update: their count is state, but no parameter.
        return {**torch_state(self.parts), **scales, "optimiser.updates": np.array(self.model._n_updates)}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        load_torch_state(self.parts, state)
        self.scales = {name: np.array(state[f"normalisation.{name}"]) for name in NORMALISATION}
        self.model._n_updates = int(state["optimiser.updates"])


class _OffPolicy(_Agent):
    """SAC, TD3 or DDPG, trained on minibatches of the window, and of a replay if the mechanism hands one over."""

    def learn(
        self,
        window: Transitions,
        *,
        steps: int,
        rate: float,
        replay: Transitions | None = None,
        share: float = 0.0,
    ) -> dict[str, float]:
        return self.trained(window, steps=steps, rate=rate, replay=replay, share=share)

    def train(self, window: Transitions, *, steps: int, replay: Transitions | None, share: float) -> None:
        self.model.replay_buffer = _Minibatches(self, [window] if replay is None else [window, replay], share)
        self.model.train(gradient_steps=steps, batch_size=self.model.batch_size)

    def value(self, observation: np.ndarray, action: np.ndarray | None = None) -> np.ndarray:
        """Return the smallest of the critics' values; without an action, the targets' for the policy's action."""
        import torch

        model, seen = self.model, self.observed(observation)
        model.policy.set_training_mode(False)
        with torch.no_grad():
            if action is None:
                values = model.critic_target(seen, model.policy._predict(seen, deterministic=True))
            else:
                values = model.critic(seen, torch.as_tensor(model.policy.scale_action(action), dtype=torch.float32))
        return torch.cat(values, dim=1).amin(dim=1).double().numpy()


class _Minibatches:
    """Minibatches of a window and a replay, as SB3's `train` asks a replay buffer for them."""

    def __init__(self, agent: _Agent, sources: list[Transitions], share: float) -> None:
        import torch

        def column(source: Transitions) -> tuple[Any, ...]:
            action = agent.model.policy.scale_action(source.action)
            flat = (source.terminated[:, None], agent.earned(source)[:, None])
            return agent.observed(source.observation), action, agent.observed(source.next_observation), *flat

        columns = zip(*map(column, sources), strict=True)
        self.columns = [
            torch.cat([torch.as_tensor(part, dtype=torch.float32) for part in parts]) for parts in columns
        ]
        self.sizes, self.share = [len(source) for source in sources], share

    def sample(self, batch_size: int, env: None = None) -> Any:
        """Draw a minibatch with replacement."""
        from stable_baselines3.common.type_aliases import ReplayBufferSamples

        replayed = round(self.share * batch_size) if len(self.sizes) > 1 else 0
        rows = np.random.randint(self.sizes[0], size=batch_size - replayed)  # noqa: NPY002 - seeded by the shim
        if replayed:
            rows = np.append(rows, self.sizes[0] + np.random.randint(self.sizes[1], size=replayed))  # noqa: NPY002
        return ReplayBufferSamples(*(column[rows] for column in self.columns))


class _OnPolicy(_Agent):
    """PPO or A2C: the window counts as a rollout of the policy as it is when the update begins."""

    def learn(self, window: Transitions, *, steps: int, rate: float) -> dict[str, float]:
        return self.trained(window, steps=steps, rate=rate)

    def train(self, window: Transitions, *, steps: int) -> None:
        import torch
        from stable_baselines3.common.buffers import RolloutBuffer

        model = self.model
        spaces = model.observation_space, model.action_space
        rollout: Any = RolloutBuffer(
            len(window), *spaces, device="cpu", gae_lambda=model.gae_lambda, gamma=model.gamma
        )
        seen = self.observed(window.observation)
        with torch.no_grad():
            action = torch.as_tensor(window.action, dtype=torch.float32)
            _, log_probability, _ = model.policy.evaluate_actions(seen, action)
        later = self.value(window.next_observation)
        # Where an attempt was cut off, and did not end, what would have followed counts as earned.
        cut = np.append(window.first[1:], False) & ~window.terminated
        rollout.observations[:, 0], rollout.actions[:, 0] = seen, window.action
        rollout.rewards[:, 0] = self.earned(window) + np.where(cut, model.gamma * later, 0.0)
        rollout.values[:, 0], rollout.log_probs[:, 0] = self.value(window.observation), log_probability
        rollout.episode_starts[:, 0] = window.first
        last = torch.as_tensor(later[-1:], dtype=torch.float32)
        rollout.compute_returns_and_advantage(last, dones=window.terminated[-1:])
        rollout.full, model.rollout_buffer, model.n_epochs = True, rollout, 1
        # A call of `train` goes through all minibatches: it is given the first of them, and called for each step.
        rollout.get = lambda batch_size=None: itertools.islice(RolloutBuffer.get(rollout, batch_size), 1)
        for _ in range(steps):
            model.train()

    def value(self, observation: np.ndarray, action: np.ndarray | None = None) -> np.ndarray:
        """Return the values of states; the action does not matter."""
        import torch

        self.model.policy.set_training_mode(False)
        with torch.no_grad():
            return np.asarray(self.model.policy.predict_values(self.observed(observation)).double()[:, 0])


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
        after_end: the task's `after_end`, in a world whose episodes end early.

    Example:
        >>> SB3Plugin(algorithm="SAC", hyperparameters={"policy_kwargs": {"net_arch": [64, 64]}}).clean_episodes
        10
    """

    packages = ("stable-baselines3", "torch")
    suffixes = (".zip",)
    optional_suffixes = ()

    algorithm: Literal["SAC", "TD3", "DDPG", "PPO", "A2C"]
    hyperparameters: dict[str, Any] = {}
    deterministic: bool | None = None
    clean_episodes: int = 10
    after_end: AfterEnd = "reset"

    def make(self, environment: Environment) -> _Agent:
        try:
            import gymnasium
            import stable_baselines3
            import torch
        except ModuleNotFoundError as error:
            raise WorldforkError(f"This agent needs `{error.name}`: pip install '.[lab,sb3]'.") from error
        torch.set_num_threads(1)  # sums must not depend on how many processors there are
        on_policy = self.algorithm in ("PPO", "A2C")
        given = {**self.hyperparameters, "device": "cpu"} | ({} if on_policy else {"buffer_size": 1})
        returns_of_n_steps = not on_policy and given.get("n_steps", 1) > 1
        if given.get("use_sde") or returns_of_n_steps or not np.isfinite(environment.action_bound):
            raise WorldforkError(
                "An agent of SB3 needs a bounded action, and can have neither `use_sde`, whose noise outlives a "
                "step, nor, off-policy, `n_steps` above 1."
            )
        networks = dict(given.pop("policy_kwargs", None) or {})
        if isinstance(networks.get("activation_fn"), str):
            networks["activation_fn"] = getattr(torch.nn, networks["activation_fn"])
        box, bound, shell = gymnasium.spaces.Box, environment.action_bound, gymnasium.Env()
        shell.observation_space = box(-np.inf, np.inf, (environment.observation_size,), np.float32)
        shell.action_space = box(-bound, bound, (environment.action_size,), np.float32)
        kind: Any = getattr(stable_baselines3, self.algorithm)
        try:
            model = kind("MlpPolicy", shell, policy_kwargs=networks, **given)
        except TypeError as error:
            raise WorldforkError(f"{self.algorithm} does not take these `hyperparameters`: {error}") from error
        chosen = not on_policy if self.deterministic is None else self.deterministic
        return (_OnPolicy if on_policy else _OffPolicy)(model, deterministic=chosen)

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
            after_end=self.after_end,
        )
        columns = {name.partition(".")[2]: rows for name, rows in extra.items() if name.startswith("replay.")}
        return Checkpoint(
            parameters,
            optimiser,
            float(returns.mean()),
            hashlib.sha256(file.read_bytes()).hexdigest(),
            replay=replay_window(columns) if columns else None,
            replay_digest=content_digest(columns) if columns else None,
        )
