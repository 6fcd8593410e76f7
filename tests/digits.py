"""Digests of what a small model imagines and learns, under the flags of the lab: they belong to a version of jax.

PYTHONPATH=src python tests/digits.py    # as tests/golden/digits.json keeps them
"""

import hashlib
import json
import platform
from pathlib import Path

import worldfork.lab  # noqa: F401  (pins the compiler before jax starts)

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np

from worldfork.lab.agents.rssm_cem.agent import imagination
from worldfork.lab.agents.rssm_cem.losses import model_loss
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.agents.sequences import Sequences

MODEL = RSSM(5, 2, deter=64, groups=8, classes=8, hidden=64)


def computed() -> dict[str, np.ndarray]:
    """A decision's imagination, and the loss and the gradient of a minibatch, from numbers that are numpy's."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(random.normal(size=shape), jnp.float32)

    shapes = jax.eval_shape(MODEL.initialise, jax.random.key(0))
    params = {name: 0.2 * normal(*shape.shape) for name, shape in sorted(shapes.items())}
    latent = Latent(jnp.tanh(normal(MODEL.deter)), jnp.tile(jnp.eye(MODEL.classes)[0], MODEL.groups))
    actions, first = jnp.tanh(normal(64, 3, 2)), jnp.asarray(np.arange(8) == 5)
    batch = Sequences(normal(4, 8, 5), normal(4, 8, 2), normal(4, 8) ** 2, normal(4, 8, 5), jnp.tile(first, (4, 1)))
    values = jax.jit(lambda params, latent, actions: imagination(MODEL, params, latent)(actions))
    learn = jax.jit(jax.value_and_grad(lambda params: model_loss(MODEL, params, batch, None)[0]))
    loss, gradients = learn(params)
    world = [np.asarray(x).ravel() for name, x in sorted(gradients.items()) if name.startswith("model/")]
    return {
        "imagined": np.asarray(values(params, latent, actions)),
        "loss": np.asarray(loss)[None],
        "gradient": np.concatenate(world),
    }


def processor() -> str:
    """The first processor as the system describes it: compilers choose instructions by more than its name."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = f"{platform.machine()} {platform.processor()}"
    told = ("vendor_id", "cpu family", "model", "cache size", "flags", "CPU", platform.machine())
    lines = [line for line in text.split("\n\n")[0].splitlines() if line.startswith(told)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


if __name__ == "__main__":
    arrays = computed()
    digests = {name: hashlib.sha256(x.tobytes()).hexdigest() for name, x in arrays.items()}
    about = {name: [float(np.mean(x)), float(np.linalg.norm(x))] for name, x in arrays.items()}
    print(
        json.dumps(
            {"versions": {jax.__version__: {"processors": [processor()], "digests": digests}}, "about": about}
        )
    )
