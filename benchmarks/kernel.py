"""The fused imagination beside the plain one: time, error against float32, the same bits from a second call.

    python benchmarks/kernel.py                                     # a Hopper GPU: 24 x 30 decisions of 512 x 5
    python benchmarks/kernel.py --sets 1 --episodes 1 --horizon 3   # one environment

Parameters are fresh ones with noise on all of them: heads that start at zero would hide every error. Errors are in
units of the spread among a decision's candidates, which is what the planner sees.
"""

import argparse
import dataclasses
import functools
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from precision import kernel, plain  # beside this file
from throughput import work_per_decision

from worldfork.lab.agents.rssm_cem.planning import available
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.planner.cem import CEM

OBSERVATIONS, ACTIONS = 17, 6  # cheetah's

Inputs = tuple[dict[str, jax.Array], Latent, jax.Array]


def inputs(model: RSSM, given: argparse.Namespace) -> Inputs:
    """Noisy parameters, latents and action sequences for `sets` x `episodes` decisions."""
    batch, keys = (given.sets, given.episodes), iter(jax.random.split(jax.random.key(7), 99))
    fresh = jax.jit(jax.vmap(model.initialise))(jax.random.split(jax.random.key(0), given.sets))
    scale = {name: 0.1 if x.ndim == 2 else 0.5 / np.sqrt(x.shape[1]) for name, x in fresh.items()}
    params = {name: x + scale[name] * jax.random.normal(next(keys), x.shape) for name, x in fresh.items()}
    logits = 3.0 * jax.random.normal(next(keys), (*batch, model.groups, model.classes))
    deter = jnp.tanh(jax.random.normal(next(keys), (*batch, model.deter)))
    shape = (*batch, given.candidates, given.horizon, model.action_size)
    actions = jax.random.uniform(next(keys), shape, minval=-1.0)
    return params, Latent(deter, jax.nn.softmax(logits).reshape(*batch, -1)), actions


def batched(one: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Values [P, E, N]; parameters are prepared within, once per set, as in a decision."""
    return jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0, 0))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=24)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5, help="calls, of which the median is told")
    given = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, {given.sets} x {given.episodes} decisions")
    models = {name: RSSMCEMPlugin().model(OBSERVATIONS, ACTIONS, precision=name) for name in ("float32", "tf32")}
    models |= {name: dataclasses.replace(models["tf32"], precision=name) for name in ("bf16", "fp16")}
    params, latent, actions = inputs(models["float32"], given)
    truth = np.asarray(batched(functools.partial(plain, models["float32"]))(params, latent, actions))
    search = CEM(candidates=given.candidates, horizon=given.horizon, iterations=1)
    work = given.sets * given.episodes * work_per_decision(search, params)
    print(f"{'':16}{'ms':>10}{'TFLOP/s':>10}{'error':>10}{'first call':>12}  same bits again")
    paths = [(name, "XLA") for name in models]
    paths += [(name, "kernel") for name in ("bf16", "fp16") if available(models[name], given.candidates)]
    for precision, path in paths:
        call = batched(functools.partial(plain if path == "XLA" else kernel, models[precision]))
        start = time.perf_counter()
        found = np.asarray(call(params, latent, actions))
        compiled = time.perf_counter() - start
        times = []
        for _ in range(given.rounds):
            start = time.perf_counter()
            again = call(params, latent, actions).block_until_ready()
            times.append(time.perf_counter() - start)
        took = statistics.median(times)
        error = np.sqrt(np.mean((found - truth) ** 2)) / truth.std(-1).mean()
        speed = work / took / 1e12
        same = np.array_equal(again, found)
        print(
            f"{precision:8}{path:8}{took * 1e3:10.2f}{speed:10.1f}{error:10.4f}{compiled:10.1f} s  {same}",
            flush=True,
        )


if __name__ == "__main__":
    main()
