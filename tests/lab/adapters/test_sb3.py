"""Models of Stable-Baselines3: all state is kept, training is SB3's own, and no archive runs code."""

import base64
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is no dependency of worldfork's")
sb3 = pytest.importorskip("stable_baselines3", reason="SB3 comes with the extra `sb3`")
gymnasium = pytest.importorskip("gymnasium", reason="Gymnasium comes with the extra `gymnasium`")

import torch  # noqa: E402

from worldfork.errors import WorldforkError  # noqa: E402
from worldfork.lab.adapters.sb3 import SB3Plugin, pack  # noqa: E402
from worldfork.lab.agents.seeding import seeded  # noqa: E402
from worldfork.lab.agents.stateful import Transitions, transitions_of  # noqa: E402
from worldfork.lab.environments.restorable import RestorablePlugin  # noqa: E402
from worldfork.testing import check_agent, check_mechanism  # noqa: E402
from worldfork.testing.samples import random_window  # noqa: E402

KEY = np.array([3, 4], np.uint32)


def small() -> dict[str, Any]:
    """Return settings of small networks; SB3 writes into the ones that it is given."""
    return {"policy_kwargs": {"net_arch": [8]}}


class Pendulum(RestorablePlugin):
    simulator, parameter, can_end = "gymnasium", "gravity", False
    episode_steps: int = 20

    def make(self) -> Any:
        return gymnasium.make("Pendulum-v1").unwrapped

    def save(self, env: Any) -> Any:
        return env.state

    def restore(self, env: Any, saved: Any) -> None:
        env.state = saved

    def drift(self, env: Any, factor: float) -> None:
        env.g = 10.0 * factor

    def read(self, env: Any) -> dict[str, float]:
        return {"gravity": env.g}


WORLD = Pendulum().build(scale=0.5, threads=1)


def trained(algorithm: str, path: Path, *, normalised: bool = False, **settings: Any) -> Any:
    env: Any = gymnasium.make("Pendulum-v1")
    if normalised:
        env = sb3.common.vec_env.VecNormalize(sb3.common.vec_env.DummyVecEnv([lambda: env]))
    on_policy = {"n_steps": 32} if algorithm in ("PPO", "A2C") else {"learning_starts": 20, "buffer_size": 50}
    model = getattr(sb3, algorithm)("MlpPolicy", env, seed=1, **on_policy, **small(), **settings)
    model.learn(64)
    pack(model, path, replay=0 if algorithm in ("PPO", "A2C") else 40)
    return model


def plugin_of(algorithm: str, **hyperparameters: Any) -> SB3Plugin:
    return SB3Plugin(algorithm=algorithm, hyperparameters={**small(), **hyperparameters}, clean_episodes=1)  # type: ignore[arg-type]


def window(rows: int = 24) -> Transitions:
    return transitions_of(random_window(WORLD, rows=rows, sizes=(rows,)), 0)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("algorithm", ["SAC", "TD3", "DDPG", "PPO", "A2C"])
def test_every_algorithm_keeps_the_contract(algorithm: str, normalised: bool, tmp_path: Path) -> None:
    trained(algorithm, tmp_path / "model.zip", normalised=normalised)
    report = check_agent(plugin_of(algorithm), WORLD, checkpoints=[tmp_path / "model.zip"])
    assert "An agent that keeps its state inside gives all of it away" in report.kept


@pytest.mark.parametrize("algorithm", ["SAC", "TD3"])
def test_an_off_policy_update_is_sb3s_own(algorithm: str, tmp_path: Path) -> None:
    model, plugin, rows = trained(algorithm, tmp_path / "model.zip"), plugin_of(algorithm), window()
    agent = plugin.make(WORLD)
    agent.set_state(state_of(plugin, tmp_path / "model.zip"))
    buffer = sb3.common.buffers.ReplayBuffer(len(rows), model.observation_space, model.action_space, device="cpu")
    for t in range(len(rows)):
        scaled = model.policy.scale_action(rows.action[t])
        columns = rows.observation[t], rows.next_observation[t], scaled, rows.reward[t], rows.terminated[t]
        buffer.add(*(np.asarray(values)[None] for values in columns), [{}])
    model.replay_buffer = buffer
    with seeded(KEY):
        model.train(gradient_steps=5, batch_size=model.batch_size)
    with seeded(KEY):
        agent.learn(rows, steps=5, rate=1.0)
    equal(model, agent.model)


@pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
def test_an_on_policy_update_is_sb3s_own(algorithm: str, tmp_path: Path) -> None:
    model, plugin, rows = trained(algorithm, tmp_path / "model.zip"), plugin_of(algorithm), window()
    agent = plugin.make(WORLD)
    agent.set_state(state_of(plugin, tmp_path / "model.zip"))
    spaces = model.observation_space, model.action_space
    taught = {"gae_lambda": model.gae_lambda, "gamma": model.gamma, "device": "cpu"}
    buffer = sb3.common.buffers.RolloutBuffer(len(rows), *spaces, **taught)
    cut = np.append(rows.first[1:], False)
    model.policy.set_training_mode(False)
    with torch.no_grad():
        seen, after = (torch.as_tensor(x, dtype=torch.float32) for x in (rows.observation, rows.next_observation))
        values, probabilities, _ = model.policy.evaluate_actions(seen, torch.as_tensor(rows.action).float())
        later = model.policy.predict_values(after)[:, 0]
    for t in range(len(rows)):
        reward = rows.reward[t] + cut[t] * model.gamma * later[t].item()
        moments = (
            rows.observation[t],
            rows.action[t],
            np.array([reward]),
            rows.first[t],
            values[t],
            probabilities[t],
        )
        buffer.add(*moments)
    buffer.compute_returns_and_advantage(later[-1:], dones=np.array([False]))
    model.rollout_buffer, model.n_epochs, model.batch_size = buffer, 1, len(rows)
    with seeded(KEY):
        model.train()
    agent.model.batch_size = len(rows)
    with seeded(KEY):
        agent.learn(rows, steps=1, rate=1.0)
    equal(model, agent.model)


def test_a_replay_takes_its_share_of_each_minibatch(tmp_path: Path) -> None:
    model, plugin = trained("SAC", tmp_path / "model.zip"), plugin_of("SAC")
    agent = plugin.build(WORLD, precision="float32")
    checkpoint = plugin.load(agent, WORLD, tmp_path / "model.zip")
    assert checkpoint.replay is not None
    kept = transitions_of(checkpoint.replay, 0)
    assert agent.rehearses
    assert len(kept) == 40
    newest = (model.replay_buffer.pos - 1) % 50
    assert np.array_equal(kept.observation[-1], model.replay_buffer.observations[newest, 0])
    scaled = model.policy.scale_action(kept.action[-1].astype(np.float32))
    assert np.allclose(scaled, model.replay_buffer.actions[newest, 0])
    assert not plugin_of("PPO").build(WORLD, precision="float32").rehearses
    check_mechanism("rehearsal", agent=agent, environment=WORLD, checkpoint=checkpoint)


def test_the_return_in_the_clean_world_is_the_models_own(tmp_path: Path) -> None:
    model = trained("SAC", tmp_path / "model.zip", normalised=True)
    plugin = plugin_of("SAC")
    agent = plugin.make(WORLD)
    agent.set_state(state_of(plugin, tmp_path / "model.zip"))
    seen = np.array([[0.3, -0.9, 2.0]])
    expected, _ = model.predict(model.get_vec_normalize_env().normalize_obs(seen), deterministic=True)
    assert np.allclose(agent.act(seen), expected, atol=1e-6)


def test_other_settings_are_refused_with_the_line_to_register(tmp_path: Path) -> None:
    settings = {"policy_kwargs": {"net_arch": [8], "activation_fn": torch.nn.Tanh}, "gamma": 0.9}
    model = sb3.SAC("MlpPolicy", "Pendulum-v1", learning_rate=lambda remaining: 1e-3, **settings)
    model.save(tmp_path / "model.zip")
    with pytest.raises(WorldforkError, match=r'net_arch = \[8\], activation_fn = "Tanh".*gamma = 0\.9') as refusal:
        state_of(SB3Plugin(algorithm="SAC"), tmp_path / "model.zip")
    assert "learning_rate = \"<class 'function'>\"" in str(refusal.value), "a function is there as a pickle alone"
    assert "which is not unpickled" in str(refusal.value)
    named = {"policy_kwargs": {"net_arch": [8], "activation_fn": "Tanh"}, "gamma": 0.9, "learning_rate": 1e-3}
    state_of(SB3Plugin(algorithm="SAC", hyperparameters=named), tmp_path / "model.zip")
    with pytest.raises(WorldforkError, match="is not a TD3"):
        state_of(SB3Plugin(algorithm="TD3", hyperparameters=named), tmp_path / "model.zip")


def test_an_archive_for_other_actions_is_refused(tmp_path: Path) -> None:
    env = gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), -1.0, 1.0)
    sb3.SAC("MlpPolicy", env, **small()).save(tmp_path / "model.zip")
    with pytest.raises(WorldforkError, match=r'low = "\[-1\.\]", .*this world has .*low = "\[-2\.\]".*Rescale'):
        state_of(plugin_of("SAC"), tmp_path / "model.zip")


class Harmful:
    """What a stranger's pickle may do: here it writes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("member", ["data", "policy.pth"])
def test_nothing_in_an_archive_is_executed(member: str, tmp_path: Path) -> None:
    mark, path = tmp_path / "executed", tmp_path / "model.zip"
    trained("SAC", path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    harmful = pickle.dumps(Harmful(mark))
    if member == "data":
        saved = json.loads(members["data"])
        for value in saved.values():
            if isinstance(value, dict) and ":serialized:" in value:
                value[":serialized:"] = base64.b64encode(harmful).decode()
        members["data"] = json.dumps(saved).encode()
    else:
        members[member] = harmful
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    if member == "data":
        state_of(plugin_of("SAC"), path)  # what is pickled there is not needed
    else:
        with pytest.raises(WorldforkError, match=r"no archive that SB3's `model.save` wrote"):
            state_of(plugin_of("SAC"), path)
    assert not mark.exists()
    pickle.loads(harmful)
    assert mark.exists(), "the pickle would have done it"


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(WorldforkError, match=r"SAC does not take these `hyperparameters`: .*'gama'"):
        plugin_of("SAC", gama=0.9).make(WORLD)


@pytest.mark.parametrize(
    "wrong", [{"learning_rate": "x"}, {"policy_kwargs": {"activation_fn": "Tanhh"}}, {"policy_kwargs": 3}]
)
def test_a_value_that_sb3_does_not_take_is_refused_in_one_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(WorldforkError, match="SAC does not take these `hyperparameters`") as refusal:
        SB3Plugin(algorithm="SAC", hyperparameters=wrong).make(WORLD)
    assert "\n" not in str(refusal.value)


def test_an_archive_of_other_sizes_is_refused_in_one_sentence(tmp_path: Path) -> None:
    trained("SAC", tmp_path / "model.zip")
    other = SB3Plugin(algorithm="SAC", hyperparameters={"policy_kwargs": {"net_arch": [9]}})
    with pytest.raises(WorldforkError, match=r"trained with policy_kwargs = .*net_arch = \[8\]") as refusal:
        state_of(other, tmp_path / "model.zip")
    assert "registered is policy_kwargs = { net_arch = [9] }" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_archive_of_another_algorithm_is_called_that(tmp_path: Path) -> None:
    trained("SAC", tmp_path / "model.zip")
    with pytest.raises(WorldforkError, match=r"another algorithm, whose policy is from stable_baselines3\.sac"):
        state_of(plugin_of("PPO"), tmp_path / "model.zip")


def test_an_archive_of_another_world_is_refused(tmp_path: Path) -> None:
    sb3.SAC("MlpPolicy", "MountainCarContinuous-v0", **small()).save(tmp_path / "model.zip")
    with pytest.raises(WorldforkError, match=r"{ shape = \[2\] }, and this world has { shape = \[3\] }"):
        state_of(plugin_of("SAC"), tmp_path / "model.zip")


@pytest.mark.parametrize("algorithm", ["SAC", "PPO"])
def test_a_model_that_holds_no_replay_is_not_packed_with_one(algorithm: str, tmp_path: Path) -> None:
    trained(algorithm, tmp_path / "model.zip")
    loaded = getattr(sb3, algorithm).load(tmp_path / "model.zip")  # which leaves the replay buffer empty
    with pytest.raises(WorldforkError, match=f"This {algorithm} holds no transitions to keep"):
        pack(loaded, tmp_path / "packed", replay=20)
    assert not (tmp_path / "packed.zip").exists()


def test_archives_whose_names_have_dots_are_apart(tmp_path: Path) -> None:
    model = trained("PPO", tmp_path / "model.zip")
    assert [pack(model, tmp_path / name).name for name in ("v1.2", "v1.3.zip")] == ["v1.2.zip", "v1.3.zip"]
    assert {path.name for path in tmp_path.iterdir()} == {"model.zip", "v1.2.zip", "v1.3.zip"}


def test_an_archive_without_a_replay_is_answered_with_what_keeps_one() -> None:
    assert "pack(model, path, replay=200)" in SB3Plugin.replay_advice


@pytest.mark.parametrize("settings", [{"use_sde": True}, {"n_steps": 3}])
def test_what_can_not_be_forked_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(WorldforkError, match="use_sde"):
        plugin_of("SAC", **settings).make(WORLD)


def state_of(plugin: SB3Plugin, path: Path) -> dict[str, np.ndarray]:
    agent = plugin.build(WORLD, precision="float32")
    checkpoint = plugin.load(agent, WORLD, path)
    return {name: array[0] for name, array in {**checkpoint.parameters, **checkpoint.optimiser}.items()}


def equal(model: Any, other: Any) -> None:
    expected, came = model.get_parameters(), other.get_parameters()
    for name in expected["policy"]:
        assert torch.equal(expected["policy"][name], came["policy"][name]), name
    if "log_ent_coef" in vars(model) and model.log_ent_coef is not None:
        assert torch.equal(model.log_ent_coef, other.log_ent_coef)
