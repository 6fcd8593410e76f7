"""What helps a search over six actions: regret of the first action where the best plan is known.

    python benchmarks/search.py

Random bowls over `horizon` x 6 actions, their axes weighted log-normally and less for later steps; `smooth` bowls
have their bottom at one constant action. 512 candidates, 6 iterations, mean of 48 bowls.
"""

import argparse

import jax
import jax.numpy as jnp
from jaxtyping import Array

from worldfork.lab.planner.cem import CEM, plan

ACTIONS = 6
VARIANTS = {
    "kept elites, sharp weights": {"elites": 64, "keep": 0.25, "temperature": 0.5},
    "none kept (the default)": {"elites": 64, "keep": 0.0, "temperature": 1.0},
    "few elites": {"elites": 16, "keep": 0.0, "temperature": 2.0},
    "equal weights, kept, coloured": {"elites": 64, "keep": 0.5, "temperature": 0.0, "colour": 0.6},
    "coloured": {"elites": 32, "keep": 0.0, "temperature": 2.0, "colour": 0.6},
}


def regret(settings: CEM, key: Array, *, smooth: bool) -> Array:
    """How far the first action is from the best one, in value."""
    target_key, weight_key, plan_key = jax.random.split(key, 3)
    shape = (settings.horizon, ACTIONS)
    target = jax.random.uniform(target_key, shape, minval=-1.0, maxval=1.0)
    if smooth:
        target = jnp.broadcast_to(0.8 * target[:1], shape)
    weight = jnp.exp(jax.random.normal(weight_key, shape)) * 0.7 ** jnp.arange(settings.horizon)[:, None]
    found = plan(
        lambda actions: -jnp.sum(weight * (actions - target) ** 2, (1, 2)),
        jnp.zeros(shape),
        plan_key,
        settings=settings,
    )
    return jnp.sum(weight[0] * (found.action - target[0]) ** 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bowls", type=int, default=48)
    bowls = parser.parse_args().bowls
    keys = jax.random.split(jax.random.key(1), bowls)
    columns = [(horizon, smooth) for smooth in (False, True) for horizon in (3, 5)]
    print(f"{'':32}" + "".join(f"{f'horizon {h}' + (', smooth' if s else ''):>20}" for h, s in columns))
    for name, variant in VARIANTS.items():
        line = f"{name:32}"
        for horizon, smooth in columns:
            settings = CEM(horizon=horizon, **variant)
            each = jax.jit(jax.vmap(lambda key, s=settings, flat=smooth: regret(s, key, smooth=flat)))(keys)
            line += f"{float(each.mean()):20.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
