"""PETS in PyTorch: an ensemble of probabilistic dynamics networks, and planning by the cross-entropy method.

After Chua et al., "Deep reinforcement learning in a handful of trials using probabilistic dynamics models" (2018):
every candidate plan is imagined by every member of the ensemble, and each member keeps to itself (TS-infinity). The
reward is learned as well. Nothing here knows worldfork but the last two classes.
"""

from itertools import pairwise

import numpy as np
import torch

from worldfork.lab.adapters.torch_state import load_torch_state, torch_state
from worldfork.lab.agents.stateful import StatefulPlugin
from worldfork.lab.signals import Signal

LIMITS = (-8.0, 1.0)  # of a predicted log variance


class Ensemble(torch.nn.Module):
    """M networks side by side: (observation, action) -> mean and log variance of (change, reward), normalised."""

    def __init__(self, members, observations, actions, hidden):
        super().__init__()
        sizes = [observations + actions, hidden, hidden, 2 * (observations + 1)]
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(members, a, b) / a**0.5) for a, b in pairwise(sizes)
        )
        self.biases = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(members, 1, b)) for b in sizes[1:])
        for name, size in (("in", sizes[0]), ("out", observations + 1)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))

    def normalise(self, inputs, targets):
        """Fix the scales, once, from pretraining data: an update moves weights and nothing else."""
        for name, values in (("in", inputs), ("out", targets)):
            getattr(self, f"{name}_mean").copy_(values.mean(0))
            getattr(self, f"{name}_std").copy_(values.std(0).clamp_min(1e-3))

    def forward(self, inputs):
        """[M, N, O + A] -> mean and log variance, [M, N, O + 1] each."""
        layer = (inputs - self.in_mean) / self.in_std
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            layer = torch.nn.functional.silu(torch.baddbmm(bias, layer, weight))
        mean, spread = torch.baddbmm(self.biases[-1], layer, self.weights[-1]).chunk(2, dim=-1)
        return mean, LIMITS[0] + (LIMITS[1] - LIMITS[0]) * torch.sigmoid(spread)


class Pets:
    """The agent, as anybody would write it: networks, an optimiser and the last plan are kept inside."""

    together = True  # observations are [E, O]: all episodes of a parameter set at once
    device = "cpu"

    def __init__(self, observations, actions, *, bound, members, hidden, candidates, horizon, iterations):
        self.model = Ensemble(members, observations, actions, hidden)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.parts = {"model": self.model, "optimiser": self.optimiser}
        self.bound, self.actions, self.members = bound, actions, members
        self.candidates, self.horizon, self.iterations = candidates, horizon, iterations
        self.plan = torch.zeros(1, horizon, actions)

    def reset(self, observation):
        self.plan = torch.zeros(len(observation), self.horizon, self.actions)

    def get_belief(self):
        return self.plan

    def set_belief(self, belief):
        self.plan = belief

    @torch.no_grad()
    def act(self, observation):
        """Sample plans, imagine them, keep the elites, refit; execute the first action of the mean."""
        start = torch.as_tensor(observation, dtype=torch.float32)
        mean, std = self.plan, torch.full_like(self.plan, 0.5 * self.bound)
        for _ in range(self.iterations):
            noise = torch.randn(len(start), self.candidates, self.horizon, self.actions)
            plans = (mean[:, None] + std[:, None] * noise).clamp(-self.bound, self.bound)
            best = self.value(start, plans).topk(self.candidates // 8, dim=1).indices
            elites = torch.take_along_dim(plans, best[..., None, None], dim=1)
            mean, std = elites.mean(1), elites.std(1) + 0.02 * self.bound
        self.plan = torch.cat([mean[:, 1:], torch.zeros_like(mean[:, :1])], dim=1)
        return mean[:, 0].numpy()

    def value(self, start, plans):
        """The imagined return of plans [E, C, H, A], a mean over the ensemble: [E, C]."""
        episodes, candidates = plans.shape[:2]
        state = start[None, :, None].expand(self.members, -1, candidates, -1).flatten(1, 2)
        total = torch.zeros(state.shape[:2])
        for step in range(self.horizon):
            action = plans[:, :, step].reshape(1, -1, self.actions).expand(self.members, -1, -1)
            mean, spread = self.model(torch.cat([state, action], dim=-1))
            drawn = mean + (0.5 * spread).exp() * torch.randn_like(mean)
            change = drawn * self.model.out_std + self.model.out_mean
            state, total = state + change[..., :-1], total + change[..., -1]
        return total.mean(0).reshape(episodes, candidates)

    def learn(self, window, *, steps, rate):
        """Gradient steps on minibatches; every member draws its own."""
        inputs, targets = self.data(window)
        self.optimiser.param_groups[0]["lr"] = 1e-3 * rate
        losses, norm = [], torch.tensor(0.0)
        for _ in range(steps):
            rows = torch.randint(len(inputs), (self.members, 64))
            loss = self.negative_log_likelihood(inputs[rows], targets[rows])
            self.optimiser.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
            self.optimiser.step()
            losses.append(loss.item())
        if not losses:
            return {}
        return {"loss_before": losses[0], "loss_after": losses[-1], "grad_norm": norm.item()}

    def data(self, window):
        """A window as inputs and targets, not normalised."""
        inputs = np.concatenate([window.observation, window.action], axis=1)
        changes = np.concatenate([window.next_observation - window.observation, window.reward[:, None]], axis=1)
        return torch.as_tensor(inputs, dtype=torch.float32), torch.as_tensor(changes, dtype=torch.float32)

    def negative_log_likelihood(self, inputs, targets):
        mean, spread = self.model(inputs)
        missed = (targets - self.model.out_mean) / self.model.out_std - mean
        return (missed.square() * (-spread).exp() + spread).mean()

    @torch.no_grad()
    def loss(self, window):
        inputs, targets = self.data(window)
        wide = inputs.expand(self.members, -1, -1), targets.expand(self.members, -1, -1)
        return self.negative_log_likelihood(*wide).item()

    @torch.no_grad()
    def surprise(self, observation, action, next_observation):
        """How wrong the ensemble was, and how far its members are apart, [E] each."""
        given = torch.as_tensor(np.concatenate([observation, action], axis=1), dtype=torch.float32)
        mean, _ = self.model(given.expand(self.members, -1, -1))
        change = torch.as_tensor(next_observation - observation, dtype=torch.float32)
        missed = (change - self.model.out_mean[:-1]) / self.model.out_std[:-1] - mean[..., :-1].mean(0)
        return {"error": missed.square().mean(-1).numpy(), "disagreement": mean.var(0).mean(-1).numpy()}

    def get_state(self):
        return torch_state(self.parts)

    def set_state(self, state):
        load_torch_state(self.parts, state)


class PetsPlugin(StatefulPlugin):
    """What a registration names as `pets:PetsPlugin`."""

    packages = ("torch",)  # its version becomes part of the ledger

    members: int = 3
    hidden: int = 64
    candidates: int = 64
    horizon: int = 12
    iterations: int = 3

    def make(self, environment):
        torch.set_num_threads(1)  # sums must not depend on how many processors there are
        sizes = environment.observation_size, environment.action_size
        return Pets(*sizes, bound=environment.action_bound, **self.model_dump())


class Disagreement(Signal):
    """How far the members of the ensemble are apart, on average over the episode before a fork."""

    def read(self, episode):
        if "disagreement" not in episode.steps:
            return float("nan")
        return float(np.mean(episode.steps["disagreement"]))
