"""Models of Stable-Baselines3 as agents that keep their state inside: how they act, measure and train."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.save_util import recursive_getattr
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from worldfork.lab.adapters.sb3_archive import NORMALISATION
from worldfork.lab.adapters.torch_state import load_torch_state, torch_state
from worldfork.lab.agents.base import Transitions


class Agent:
    """A model of SB3 that keeps its state inside; its subclasses know how each kind of algorithm is trained."""

    together = True
    train: Any  # (window, steps), and off-policy (replay, share)
    value: Any  # (observation [T, O], action [T, A] or None) -> [T]

    def __init__(self, model: Any, *, deterministic: bool) -> None:
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


class OffPolicy(Agent):
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
        self.model.replay_buffer = Minibatches(self, [window] if replay is None else [window, replay], share)
        self.model.train(gradient_steps=steps, batch_size=self.model.batch_size)

    def value(self, observation: np.ndarray, action: np.ndarray | None = None) -> np.ndarray:
        """Return the smallest of the critics' values; without an action, the targets' for the policy's action."""
        model, seen = self.model, self.observed(observation)
        model.policy.set_training_mode(False)
        with torch.no_grad():
            if action is None:
                values = model.critic_target(seen, model.policy._predict(seen, deterministic=True))
            else:
                values = model.critic(seen, torch.as_tensor(model.policy.scale_action(action), dtype=torch.float32))
        return torch.cat(values, dim=1).amin(dim=1).double().numpy()


class Minibatches:
    """Minibatches of a window and a replay, as SB3's `train` asks a replay buffer for them."""

    def __init__(self, agent: Agent, sources: list[Transitions], share: float) -> None:
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
        replayed = round(self.share * batch_size) if len(self.sizes) > 1 else 0
        rows = np.random.randint(self.sizes[0], size=batch_size - replayed)  # noqa: NPY002 - seeded by the shim
        if replayed:
            rows = np.append(rows, self.sizes[0] + np.random.randint(self.sizes[1], size=replayed))  # noqa: NPY002
        return ReplayBufferSamples(*(column[rows] for column in self.columns))


class OnPolicy(Agent):
    """PPO or A2C: the window counts as a rollout of the policy as it is when the update begins."""

    def learn(self, window: Transitions, *, steps: int, rate: float) -> dict[str, float]:
        return self.trained(window, steps=steps, rate=rate)

    def train(self, window: Transitions, *, steps: int) -> None:
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
        self.model.policy.set_training_mode(False)
        with torch.no_grad():
            return np.asarray(self.model.policy.predict_values(self.observed(observation)).double()[:, 0])
