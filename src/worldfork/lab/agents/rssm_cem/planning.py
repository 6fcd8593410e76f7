"""The planner's imagination as one GPU kernel: what a candidate imagines never leaves a multiprocessor.

The kernel (`cuda/imagine.py`) reads weights in the order of their use, cut into tiles; `prepare` lays them out so.
All candidates of a decision begin at one latent, so what that contributes to the first step is one row, computed
before the kernel. Sums, norms, softmax and gates are in float32; what is stored between layers has the precision
of the products' operands. Results are deterministic: every warpgroup writes its own rows, in a fixed order.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import custom_batching
from jaxtyping import Array, Float

from worldfork.lab.agents.layers import HALVES, Params
from worldfork.lab.agents.rssm_cem.cuda.kernel import UNIT, WIDE, Kernel, compiled
from worldfork.lab.agents.rssm_cem.rssm import RSSM, Latent
from worldfork.lab.planner.cem import Imagine

FEW = 64 * UNIT  # candidates: cut into blocks of one warpgroup, or most of the chip would idle
HEADS = {
    "prior": ("model/prior/0", "model/prior/1"),
    "reward": ("model/reward/0", "model/reward/1"),
    "value": ("value/head/0", "value/head/1", "value/head/2"),
}

Prepared = dict[str, Array]


def available(model: RSSM, candidates: int) -> bool:
    """Return True if the kernel runs this model on this machine; the plain path runs everywhere."""
    sizes = (model.deter, model.stoch, model.hidden)
    cuts = all(size % UNIT == 0 and size <= 256 for size in sizes)
    cuts = cuts and all(size % min(size, WIDE) == 0 for size in sizes[:2])
    cuts = cuts and model.classes in (8, 16, 32, 64) and model.bins <= UNIT and model.action_size <= UNIT
    return fits() and model.precision in HALVES and cuts and candidates % (2 * UNIT) == 0


def fits() -> bool:
    """Return True if there is a GPU with warpgroup products: Hopper's."""
    generation = str(getattr(jax.devices()[0], "compute_capability", "none"))
    return jax.default_backend() == "gpu" and generation == "9.0"


def prepare(model: RSSM, params: Params) -> Prepared:
    """Return the parameters as the kernel reads them. Do this once per decision, outside of the search."""
    operand = HALVES[model.precision]
    missing, pad = Kernel(model, 1).actions - model.action_size, UNIT - model.bins
    # A softmax takes powers of two, and every use of a gate begins with its half.
    unit = {name: math.log2(math.e) if name == names[-1] else 1.0 for names in HEADS.values() for name in names}
    weight = {name: (factor * params[f"{name}/weight"]).astype(operand) for name, factor in unit.items()}
    bias = {name: factor * params[f"{name}/bias"] for name, factor in unit.items()}
    for name in (HEADS["reward"][-1], HEADS["value"][-1]):  # bins that fill up the tile never get any probability
        weight[name] = jnp.pad(weight[name], ((0, 0), (0, pad)))
        bias[name] = jnp.pad(bias[name], (0, pad), constant_values=-1e30)
    by_stoch, by_action = jnp.split(params["model/input/weight"].astype(operand), [model.stoch])
    gates = params["model/gru/weight"].astype(operand)
    prior, reward, value = ([weight[name] for name in HEADS[head]] for head in ("prior", "reward", "value"))
    matrices = [
        jnp.pad(by_action, ((0, missing), (0, 0))),
        by_stoch,
        *_runs(gates, model.deter),
        prior[0],
        *_runs(prior[1], model.stoch),
        *reward,
        *value,
    ]
    rows = [params["model/input/bias"], params["model/gru/bias"], params["model/input/gain"]]
    for names in HEADS.values():
        for name in names:
            rows += [bias[name]] if name == names[-1] else [bias[name], params[f"{name}/gain"]]
    return {
        "weights": jnp.concatenate([_pieces(matrix) for matrix in matrices]),
        "rows": jnp.concatenate([*rows, 0.5 * params["model/gru/gain"]]),
        "by_stoch": by_stoch,
        "by_deter": gates[model.hidden :],
    }


def _runs(matrix: Array, size: int) -> list[Array]:
    """Columns that one product computes at once."""
    return jnp.split(matrix, matrix.shape[1] // min(size, WIDE), axis=1)


def _pieces(matrix: Float[Array, "K N"]) -> Array:
    """Pieces of 8 columns by 8 inputs, the columns' first; 64 inputs in a row are a tile."""
    inputs, columns = matrix.shape
    return matrix.reshape(inputs // 8, 8, columns // 8, 8).transpose(0, 2, 3, 1).reshape(-1)


def imagined_values(
    model: RSSM, prepared: Prepared, latent: Latent, actions: Float[Array, "N H A"]
) -> Float[Array, " N"]:
    """Return the value of each action sequence from `latent`: what `rssm_cem.imagination` computes. Batch it with
    vmap."""
    operand = prepared["weights"].dtype
    begun = [
        jnp.matmul(x.astype(operand)[None], prepared[name], preferred_element_type=jnp.float32)[0]
        for name, x in (("by_stoch", latent.stoch), ("by_deter", latent.deter))
    ]
    first = prepared["rows"][: model.hidden + 3 * model.deter] + jnp.concatenate(begun)
    given = (prepared["weights"], prepared["rows"], first, latent.deter.astype(operand), actions)
    return _launched(model)(*given)


def _launched(model: RSSM) -> Any:
    """Return the kernel as a function of arrays with any axes before their own; under vmap it takes one more of
    them."""

    @custom_batching.custom_vmap
    def launch(*given: Array) -> Array:
        return launch_all(model, *given)

    @launch.def_vmap
    def _(size: int, batched: Sequence[bool], *given: Array) -> tuple[Array, bool]:
        return launch(*(x if has else x[None] for x, has in zip(given, batched, strict=True))), True

    return launch


def launch_all(model: RSSM, weights: Array, rows: Array, first: Array, deter: Array, actions: Array) -> Array:
    """Launch the kernel once. Axes before an array's own are the decisions'; those of weights and rows may be of
    size one."""
    batch = jnp.broadcast_shapes(*(x.shape[:-1] for x in (weights, rows, first, deter)), actions.shape[:-3])
    sets = _sets(batch, weights.shape[:-1])
    weights, rows = (
        jnp.broadcast_to(x, (*batch[: len(sets)], *[1] * (len(batch) - len(sets)), x.shape[-1]))
        for x in (weights, rows)
    )
    first, deter = (jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (first, deter))
    actions = jnp.broadcast_to(actions, (*batch, *actions.shape[-3:]))
    candidates, horizon, size = actions.shape[-3:]
    decisions = math.prod(batch)
    kernel = Kernel(model, 1 if decisions * candidates <= FEW else 2)
    sizes = jnp.asarray(np.array([candidates, horizon, size, decisions // math.prod(sets)], np.int32))
    return run_blocks(kernel, (sizes, weights, rows, first, deter, actions), (*batch, candidates))


def run_blocks(kernel: Kernel, given: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """XLA loads PTX and launches it like its own kernels: no host code of ours, nothing that waits for Python."""
    values = jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call("__gpu$xla.gpu.ptx", values)
    blocks = math.prod(shape) // (UNIT * kernel.groups)
    sizes = {f"{what}_{axis}": 1 for what in ("grid", "block") for axis in "xyz"}
    sizes |= {"grid_x": blocks, "block_x": kernel.threads, "shared_mem_bytes": kernel.memory}
    return call(
        *given,
        name="imagine",
        kernel_type="ptx",
        kernel_data=compiled(kernel.text()),
        output_indices=(np.int32(len(given)),),
        **{name: np.int32(size) for name, size in sizes.items()},
    )


def _sets(batch: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the leading axes along which weights differ: the decisions behind them share a parameter set."""
    sizes = (1,) * (len(batch) - len(sizes)) + sizes
    count = max((index + 1 for index, size in enumerate(sizes) if size > 1), default=0)
    return batch[:count]


def imagination(model: RSSM, params: Params, latent: Latent, prepared: Prepared | None = None) -> Imagine:
    """Return the value of action sequences from `latent`: mean latents, rewards along the way, the value at the
    end.

    With `prepared` parameters the fused kernel computes it, else any backend.
    """
    if prepared is not None:
        return functools.partial(imagined_values, model, prepared, latent)

    def imagine(actions: Float[Array, "N H A"]) -> Float[Array, " N"]:
        def advance(carry: Latent, action: Array) -> tuple[Latent, Array]:
            deter = model.advance(params, carry, action)
            carry = Latent(deter, model.mean(model.prior(params, deter)))
            return carry, model.reward(params, carry)

        # The first step meets all actions with one latent, so most of its work is done once.
        by_time = jnp.swapaxes(actions, 0, 1)
        horizon = len(by_time)
        first, reward = advance(latent, by_time[0])
        last, later = jax.lax.scan(advance, first, by_time[1:])
        rewards = jnp.concatenate([reward[None], later])
        discounts = model.discount ** jnp.arange(horizon)
        return discounts @ rewards + model.discount**horizon * model.value(params, last)

    return imagine
