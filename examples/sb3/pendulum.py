import gymnasium

from worldfork.lab.environments.restorable import RestorablePlugin


class Pendulum(RestorablePlugin):
    simulator = f"gymnasium {gymnasium.__version__}"  # part of a ledger's identity
    parameter = "gravity"
    episode_steps: int = 200
    can_end = False

    def make(self):
        return gymnasium.make("Pendulum-v1").unwrapped

    def save(self, env):
        return env.state

    def restore(self, env, saved):
        env.state = saved

    def drift(self, env, factor):
        env.g = 10.0 * factor

    def read(self, env):
        return {"gravity": env.g}
