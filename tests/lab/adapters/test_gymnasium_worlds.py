"""Worlds of Gymnasium are Gymnasium's to the last bit, and restorable: nominal, drifted, in any order and batch."""

from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.adapters.gymnasium_worlds import GymnasiumPlugin
from worldfork.lab.environments import EnvironmentPlugin, State, concatenate, load
from worldfork.testing import check_environment

SCALE = 0.4
FRICTION, MASS, GRAVITY, GAIN = "geom_friction[:, 0]", "body_mass[1:]", "opt.gravity[2]", "actuator_gainprm[..., 0]"
MUJOCO_IDS = [
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
]


def stepped_and_restored(world: Any, state: State, action: np.ndarray, level: np.ndarray) -> Any:
    """Step a state twice: what the first time left in the simulators does not matter."""
    first, _, earned = world.step(state, action, level)
    again, _, earned_again = world.step(state, action, level)
    assert np.array_equal(first.physics, again.physics)
    assert np.array_equal(first.observation, again.observation)
    assert np.array_equal(earned, earned_again)
    return first, earned


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings into a file in the current folder."""
    monkeypatch.chdir(tmp_path)


class Reference:
    """An environment of Gymnasium, used as its users use it; drift is written into its model by hand."""

    def __init__(self, name: str, drift: str, seed: int, level: float) -> None:
        self.env = gymnasium.make(name, disable_env_checker=True)
        self.model, self.drift = self.env.unwrapped.model, drift
        self.nominal = {field: np.copy(getattr(self.model, field)) for field in ("geom_friction", "body_mass")}
        self.nominal |= {"gravity": self.model.opt.gravity.copy(), "gain": self.model.actuator_gainprm.copy()}
        self.level = 0.0
        self.set(level)
        self.observation, _ = self.env.reset(seed=seed)

    def set(self, level: float) -> None:
        factor = 1.0 + level * (SCALE - 1.0)
        if self.drift == FRICTION:
            self.model.geom_friction[:, 0] = self.nominal["geom_friction"][:, 0] * factor
        elif self.drift == GRAVITY:
            self.model.opt.gravity[2] = self.nominal["gravity"][2] * factor
        elif self.drift == GAIN:
            self.model.actuator_gainprm[..., 0] = self.nominal["gain"][..., 0] * factor
        elif level != self.level:  # constants that MuJoCo derives from masses follow them
            self.model.body_mass[1:] = self.nominal["body_mass"][1:] * factor
            mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
        self.level = level

    def step(self, action: np.ndarray, level: float) -> tuple[np.ndarray, float, bool]:
        self.set(level)
        observation, reward, terminated, truncated, _ = self.env.step(action)
        return observation, float(reward), terminated or truncated


def same_as_gymnasium(name: str, drift: str, *, steps: int, levels: np.ndarray, threads: int = 2) -> int:
    """Step the worlds of `levels` [T, B] in shuffled batches beside Gymnasium; returns how many were compared."""
    world = load(f"gymnasium:{name}", scale=SCALE, threads=threads, settings={"drift": drift})
    batch = levels.shape[1]
    seeds = np.arange(batch) + 5
    references = [Reference(name, drift, int(seed), levels[0, row]) for row, seed in enumerate(seeds)]
    random = np.random.default_rng(1)
    state = world.reset(seeds, levels[0])
    assert np.array_equal(state.observation, [reference.observation for reference in references])
    compared, over = 0, np.zeros(batch, bool)
    for step in range(steps):
        reach = world.action_bound * random.uniform(0.2, 1.0)
        action = random.uniform(-reach, reach, (batch, world.action_size))
        order = random.permutation(batch)
        cut = int(random.integers(1, batch)) if batch > 1 else 1
        parts = [part for part in (order[:cut], order[cut:]) if len(part)]
        stepped = [stepped_and_restored(world, state[part], action[part], levels[step, part]) for part in parts]
        back = np.argsort(order)
        state = concatenate([after for after, _ in stepped])[back]
        reward = np.concatenate([earned for _, earned in stepped])[back]
        for row, reference in enumerate(references):
            if over[row]:
                assert reward[row] == 0.0
                continue
            observation, earned, over[row] = reference.step(action[row], float(levels[step, row]))
            assert np.array_equal(state.observation[row], observation), (name, step, row)
            assert reward[row] == earned, (name, step, row, reward[row] - earned)
            compared += 1
    assert not state.unstable.any()
    return compared


@pytest.mark.parametrize(("name", "drift"), [("Ant-v5", FRICTION), ("HalfCheetah-v5", MASS)])
def test_steps_are_gymnasiums_own(name: str, drift: str) -> None:
    moving = np.linspace(0.0, 1.0, 30)  # drifts at every step
    levels = np.column_stack([np.zeros(30), np.ones(30), moving])
    assert same_as_gymnasium(name, drift, steps=30, levels=levels) == 90


@pytest.mark.nightly
@pytest.mark.parametrize("drift", [FRICTION, MASS, GRAVITY, GAIN])
@pytest.mark.parametrize("name", ["Ant-v5", "HalfCheetah-v5"])
def test_whole_episodes_are_gymnasiums_own(name: str, drift: str) -> None:
    levels = np.column_stack([np.zeros(1000), np.ones(1000), np.linspace(1.0, 0.0, 1000), np.full(1000, 0.3)])
    compared = same_as_gymnasium(name, drift, steps=1000, levels=levels)
    assert compared == 4000 if name == "HalfCheetah-v5" else compared > 100


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUJOCO_IDS)
def test_every_mujoco_world_of_gymnasium(name: str) -> None:
    levels = np.column_stack([np.zeros(300), np.linspace(0.0, 1.0, 300)])
    assert same_as_gymnasium(name, MASS, steps=300, levels=levels) > 10


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUJOCO_IDS)
def test_the_contract_of_every_world(name: str) -> None:
    check_environment(f"gymnasium:{name}", settings={"drift": MASS})


def test_an_episode_that_ends_early_stays_where_it_ended() -> None:
    world = load("gymnasium:Hopper-v5", settings={"drift": GRAVITY}, threads=1)
    state, earned = world.reset(np.arange(2)), []
    for _ in range(150):
        state, observation, reward = world.step(state, np.ones((2, world.action_size)))
        earned.append(reward)
    after, again, reward = world.step(state, -np.ones((2, world.action_size)), 1.0)
    assert (state.physics[:, 0] == 1.0).all(), "pushed all the time, a hopper falls"
    assert not reward.any()
    assert np.array_equal(after.physics, state.physics)
    assert np.array_equal(again, observation)
    assert not after.unstable.any()


def test_the_time_limit_is_part_of_the_state() -> None:
    settings = {"drift": GRAVITY, "arguments": {"max_episode_steps": 4}, "action_repeat": 2}
    world = load("gymnasium:HalfCheetah-v5", settings=settings, threads=1)
    assert world.episode_steps == 2
    action = np.ones((1, world.action_size))
    begun = world.reset(np.arange(1))
    halfway = world.step(begun, action)[0]
    for state, ended in ((begun, 0.0), (halfway, 2.0), (begun, 0.0)):
        assert world.step(state, action)[0].physics[0, 0] == ended


def test_a_step_that_breaks_the_simulator_is_marked() -> None:
    world = load("gymnasium:InvertedPendulum-v5", settings={"drift": GRAVITY}, threads=1)
    state = world.reset(np.arange(2))
    broken = state.physics.copy()
    broken[0, -20:] = 1e12
    after, observation, reward = world.step(State(broken, state.observation, state.unstable), np.zeros((2, 1)))
    assert after.unstable.tolist() == [True, False]
    assert np.isfinite(observation).all()
    assert reward[0] == 0.0


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"drift": "opt.gravity[3]"}, r"`gravity` has the shape \(3,\), so index 3 is out of bounds"),
    ({"drift": "body_masses"}, r"no physical field `body_masses`.*Near it: .*body_mass"),
    ({"drift": "__class__"}, r"not the name of a model field"),
    ({"drift": "body_mass[__import__('os')]"}, r"is not an index"),
    ({"drift": 'body_mass["tors"]'}, r"nothing that `body_mass` belongs to has that name.*'ffoot'.*'torso'"),
    ({"drift": 'opt.gravity["z"]'}, r"entries of `gravity` have no names: write a number or a slice"),
    ({"drift": "geom_type"}, r"no physical field `geom_type`"),
    ({"drift": "opt.wind"}, r"only zeros, which no factor changes"),
    ({"drift": "body_mass[50:]"}, r"selects no entries"),
    ({"drift": GRAVITY, "episode_steps": 2000}, r"ends after 1000 steps; 2000 control steps of 1 are more"),
    ({"drift": {GRAVITY: 3.0}}, r"field at -0\.8 times its nominal value"),
    ({"drift": GRAVITY, "arguments": {"no_such": 1}}, r"Gymnasium can not make `HalfCheetah-v5`"),
]


@pytest.mark.parametrize(("settings", "words"), WRONG)
def test_settings_that_can_not_be_are_refused_when_the_world_is_built(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(WorldforkError, match=words):
        load("gymnasium:HalfCheetah-v5", scale=SCALE, settings=settings)


def test_names_in_a_field() -> None:
    world = load("gymnasium:HalfCheetah-v5", scale=2.0, settings={"drift": 'body_mass["torso"]'})
    assert world.parameter == 'body_mass["torso"]'
    assert world.read_back() == world.nominal()
    assert set(world.nominal()) == {'body_mass["torso"]', "timestep"}


def test_several_fields_take_their_shares() -> None:
    plugin = GymnasiumPlugin(id="HalfCheetah-v5", drift={GRAVITY: 1.0, "dof_damping[3:]": -0.5})
    simulation = plugin.build(scale=1.5, threads=1)._simulations[0]
    nominal = simulation.parameters()
    simulation.set_factor(1.5)
    drifted = simulation.parameters()
    assert drifted[GRAVITY] == nominal[GRAVITY] * 1.5
    assert drifted["dof_damping[3:].0"] == nominal["dof_damping[3:].0"] * 0.75
    simulation.set_factor(1.0)
    assert simulation.parameters() == nominal


def test_masses_take_the_constants_that_are_derived_from_them_along() -> None:
    plugin = GymnasiumPlugin(id="HalfCheetah-v5", drift=MASS)
    simulation = plugin.build(scale=2.0, threads=1)._simulations[0]
    model = simulation._model
    compiled = model.body_subtreemass.copy(), model.dof_invweight0.copy(), model.stat.meaninertia
    simulation.set_factor(2.0)
    assert model.body_subtreemass[1] == pytest.approx(2 * compiled[0][1])
    simulation.set_factor(1.0)
    assert np.array_equal(model.body_subtreemass, compiled[0])
    assert np.array_equal(model.dof_invweight0, compiled[1])
    assert model.stat.meaninertia == compiled[2]


class Averaged(GymnasiumPlugin):
    """Somebody's own wrapper, which keeps statistics."""

    def make(self) -> Any:
        return gymnasium.wrappers.NormalizeObservation(super().make())


class Rescaled(GymnasiumPlugin):
    def make(self) -> Any:
        return gymnasium.wrappers.RescaleAction(super().make(), -0.5, 0.5)


def test_wrappers_with_a_state_are_refused_by_name() -> None:
    with pytest.raises(
        WorldforkError, match=r"wrapper `NormalizeObservation` may keep a state.*`TimeLimit` is restored"
    ):
        Averaged(id="HalfCheetah-v5", drift=GRAVITY).build(scale=1.0, threads=1)
    assert Rescaled(id="HalfCheetah-v5", drift=GRAVITY).build(scale=1.0, threads=1).action_bound == 0.5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CartPole-v1", "`CartPoleEnv` is not stepped by .*MujocoEnv.*`RestorablePlugin`"),
        ("NoSuch-v5", "Gymnasium can not make `NoSuch-v5`"),
    ],
)
def test_what_is_no_mujoco_world_is_refused(name: str, words: str) -> None:
    with pytest.raises(WorldforkError, match=words):
        load(f"gymnasium:{name}", settings={"drift": GRAVITY})


def test_another_simulator_is_named_before_the_drift_is_missed() -> None:
    with pytest.raises(WorldforkError, match="`PendulumEnv` is not stepped by"):
        load("gymnasium:Pendulum-v1")
    with pytest.raises(WorldforkError, match="drift: it is missing"):
        load("gymnasium:HalfCheetah-v5")


class Scored(HalfCheetahEnv):
    """Keeps a number between steps, and perhaps something that is none."""

    def __init__(self, history: bool) -> None:
        self.total, self.history = 0.0, [] if history else None
        super().__init__()

    def reset_model(self) -> Any:
        self.total = 0.0
        return super().reset_model()

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        self.total += reward
        if self.history is not None:
            self.history.append(reward)
        return observation, self.total, *rest


class ScoredPlugin(GymnasiumPlugin):
    id: str = "Scored"
    drift: str = GRAVITY
    history: bool = False
    episode_steps: int | None = 20

    def make(self) -> Any:
        return Scored(self.history)


def test_numbers_that_an_environment_keeps_are_part_of_its_rows() -> None:
    check_environment(ScoredPlugin)
    with pytest.raises(WorldforkError, match=r"`Scored` keeps `history` between steps.*a pair of functions"):
        ScoredPlugin(history=True).build(scale=1.0, threads=1)


class Noisy(HalfCheetahEnv):
    """Draws at every third step or so."""

    def step(self, action: Any) -> Any:
        if self.data.qpos[2] > 0.01:
            action = action + 0.1 * self.np_random.normal(size=6)
        return super().step(action)


class NoisyPlugin(GymnasiumPlugin):
    id: str = "Noisy"
    drift: str = GRAVITY
    episode_steps: int | None = 20

    def make(self) -> Any:
        return Noisy()


def test_a_generator_that_is_drawn_from_now_and_then_is_part_of_a_row() -> None:
    world, plain = (plugin.build(scale=1.0, threads=1) for plugin in (NoisyPlugin(), ScoredPlugin()))
    state, random = world.reset(np.arange(3)), np.random.default_rng(0)
    drawn = set()
    for _ in range(20):
        before = state.physics[:, 3:13]
        state, _ = stepped_and_restored(world, state, random.uniform(-1, 1, (3, 6)), np.zeros(3))
        drawn |= {bool(changed) for changed in (state.physics[:, 3:13] != before).any(axis=1)}
    assert drawn == {True, False}
    assert plain.reset(np.arange(1)).physics.shape[1] == state.physics.shape[1] + 1


def test_a_family_of_names() -> None:
    located = registry.locate("environments", "gymnasium:Ant-v5")
    assert located.ours
    assert located.label == "Ant-v5"
    plugin = registry.build("environments", "gymnasium:Ant-v5", EnvironmentPlugin, settings={"drift": GRAVITY})
    assert isinstance(plugin, GymnasiumPlugin)
    assert plugin.id == "Ant-v5"
    with pytest.raises(WorldforkError, match=r"no environment called 'gymnasia'.*gymnasium:ID"):
        registry.locate("environments", "gymnasia")
    with pytest.raises(WorldforkError, match=r"drift: it is missing"):
        load("gymnasium:Ant-v5")
