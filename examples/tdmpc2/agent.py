"""TD-MPC2 of stable-worldmodel 0.1.1, as it is: model, losses and planner are theirs, this file hands them over.

The model keeps its networks, its target networks and a running scale; the solver draws from a generator of its own
and prints how long it took; the loss draws from Python's generator and from PyTorch's. None of that is changed.
"""

import contextlib
import io
from types import SimpleNamespace

import gymnasium
import numpy as np
import torch
from stable_worldmodel.policy import PlanConfig
from stable_worldmodel.solver import MPPISolver
from stable_worldmodel.wm.tdmpc2 import TDMPC2, tdmpc2_forward

from worldfork.lab.adapters.torch_state import load_torch_state, torch_state
from worldfork.lab.agents.stateful import StatefulPlugin

RATE = 1e-3


class Config(dict):
    """Their configuration has attributes and `get`."""

    __getattr__ = dict.__getitem__


class Agent:
    """What worldfork asks of an agent that keeps its state inside."""

    together = True  # all episodes of a parameter set at once

    def __init__(self, observations, actions, *, bound, width, horizon, candidates, iterations):
        wm = Config(
            encoding={"state": width // 2},
            enc_dim=width,
            mlp_dim=width,
            simnorm_dim=8,
            num_q=3,
            num_bins=51,
            vmin=-10.0,
            vmax=10.0,
            tau=0.01,
            rho=0.5,
            horizon=horizon,
            discount=0.97,
            consistency_coef=20.0,
            reward_coef=0.1,
            value_coef=0.1,
        )
        self.cfg = Config(wm=wm, action_dim=actions, extra_dims={"state": observations}, num_pi_trajs=1)
        self.model, self.bound = TDMPC2(self.cfg), bound
        self.trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimiser = torch.optim.Adam(self.trained, lr=RATE)
        self.parts = {"model": self.model, "optimiser": self.optimiser}
        self.solver = MPPISolver(
            self.model,
            batch_size=64,
            num_samples=candidates,
            n_steps=iterations,
            topk=candidates // 4,
            var_scale=0.5,
        )
        space = gymnasium.spaces.Box(-1.0, 1.0, (1, actions))
        plan = PlanConfig(horizon=horizon, receding_horizon=1, action_block=1)
        self.solver.configure(action_space=space, n_envs=1, config=plan)
        self.plan = torch.zeros(1, 0, actions)

    def seed(self, number):
        self.solver.torch_gen.manual_seed(number % 2**63)

    def reset(self, observation):
        self.plan = torch.zeros(len(observation), 0, self.cfg.action_dim)

    def get_belief(self):
        return self.plan

    def set_belief(self, belief):
        self.plan = belief

    def act(self, observation):
        """Plan from what is left of the last plan; their actor fills in the rest."""
        self.model.eval()
        info = {"state": torch.as_tensor(observation, dtype=torch.float32)}
        with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
            actions = self.solver.solve(info, init_action=self.plan)["actions"].clone().clamp(-1.0, 1.0)
        self.plan = actions[:, 1:]
        return self.bound * actions[:, 0].numpy()

    def learn(self, window, *, steps, rate):
        """Gradient steps on their loss, on sequences that do not cross the end of an episode."""
        self.model.train()
        length = self.cfg.wm.horizon + 1
        rows = np.arange(len(window) - length + 1)[:, None] + np.arange(length)
        rows = torch.as_tensor(rows[~window.first[rows[:, 1:]].any(axis=1)])
        columns = {"state": window.observation, "action": window.action / self.bound, "reward": window.reward}
        data = {name: torch.as_tensor(values, dtype=torch.float32) for name, values in columns.items()}
        self.optimiser.param_groups[0]["lr"] = RATE * rate
        context = SimpleNamespace(model=self.model, log_dict=lambda *_, **__: None)
        losses, norm = [], torch.tensor(0.0)
        for _ in range(steps if len(rows) else 0):
            chosen = rows[torch.randint(len(rows), (64,))]
            batch = {name: values[chosen] for name, values in data.items()}
            loss = tdmpc2_forward(context, batch, "train", self.cfg)["loss"]
            self.optimiser.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.trained, 20.0)
            self.optimiser.step()
            losses.append(loss.item())
        if not losses:
            return {}
        return {"loss_before": losses[0], "loss_after": losses[-1], "grad_norm": norm.item()}

    @torch.no_grad()
    def surprise(self, observation, action, next_observation):
        """How far the latent state went from where it was expected, and how far the critics are apart: [E] each."""
        self.model.eval()
        tensors = [
            torch.as_tensor(values, dtype=torch.float32) for values in (observation, action, next_observation)
        ]
        before, after = (self.model.encode({"state": tensors[place]}) for place in (0, 2))
        joined = torch.cat([before, tensors[1] / self.bound], dim=-1)
        error = (self.model.dynamics(joined) - after).square().mean(-1)
        spread = torch.stack([critic(joined).softmax(-1) for critic in self.model.qs]).var(0).sum(-1)
        return {"error": error.numpy(), "critics": spread.numpy()}

    def get_state(self):
        return torch_state(self.parts)

    def set_state(self, state):
        load_torch_state(self.parts, state)


class TDMPC2Plugin(StatefulPlugin):
    """What a registration names as `agent:TDMPC2Plugin`."""

    packages = ("stable-worldmodel", "torch")

    width: int = 64
    horizon: int = 3
    candidates: int = 64
    iterations: int = 3

    def make(self, environment):
        torch.set_num_threads(1)
        sizes = environment.observation_size, environment.action_size
        return Agent(*sizes, bound=environment.action_bound, **self.model_dump())
