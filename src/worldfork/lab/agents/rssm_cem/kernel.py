"""The planner's imagination as one GPU kernel: what a candidate imagines never leaves the chip's caches.

One program imagines a tile of candidates of one decision over the whole horizon. Weights and the program's scratch
live in the L2 cache, and the layers are cut so that few bytes move between it and the matrix units. A hidden layer
has all its columns in registers at once and reads its inputs from the scratch, a run at a time. The layer after it
takes them from the registers as they are, and produces a run of columns at a time, while the weights of the next
runs are on their way.

A row of the scratch is [deter | stoch], and the gates take the place of stoch: they come when stoch was read, and
are gone when the next stoch comes. They make the way through the scratch because their norm is known only when all
of them are there. Threads exchange rows through the scratch: a barrier stands before every read of what others
wrote and before every write over what others read.

All candidates of a decision begin at one latent, so what that contributes to the first step is one row, computed
before the kernel. Sums, norms, softmax and gates are in float32; what is stored between layers has the precision
of the products' operands. Results are deterministic: every program writes its own rows, in a fixed order.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
from jaxtyping import Array, Float

from worldfork.lab.agents.rssm_cem.model.layers import HALVES, Params
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM, Latent

__all__ = ["Prepared", "Tile", "available", "fits", "imagined_values", "prepare"]

# Operands of 32 bits move twice the bytes and do not fit. Float16's range is no limit here: operands are weights,
# probabilities and normalised activations, and a model that diverged beyond it gives no finite value.
UNIT = 64  # every size of the model is a multiple of it
FEW = 4096  # candidates: 16 programs of the usual tile, for more than a hundred multiprocessors
HEADS = {
    "prior": ("model/prior/0", "model/prior/1"),
    "reward": ("model/reward/0", "model/reward/1"),
    "value": ("value/head/0", "value/head/1", "value/head/2"),
}

Prepared = dict[str, Array]
Pieces = Sequence[Array]  # a matrix cut by columns into powers of two, which is what Triton takes


@dataclasses.dataclass(frozen=True)
class Tile:
    """How the work is cut: `rows` candidates at once and `turns` times one after another in the same scratch;
    `inner` inputs or `outputs` gates of a product at a time; warps and pipeline stages as Triton means them."""

    rows: int = 128
    inner: int = 64
    warps: int = 8
    stages: int = 3
    turns: int = 2
    outputs: int = 32

    @classmethod
    def of_batch(cls, candidates: int) -> "Tile":
        """For so many candidates of all decisions together. A few are cut fine, or most of the chip would idle."""
        return cls() if candidates > FEW else cls(rows=16, warps=4, turns=1)


def available(model: RSSM, candidates: int) -> bool:
    """Whether the kernel runs this model on this machine; the plain path runs everywhere."""
    sizes = (model.deter, model.stoch, model.hidden)
    powers = all(size & (size - 1) == 0 for size in (model.deter, model.stoch, model.groups))
    cuts = powers and all(size % UNIT == 0 and size <= 256 for size in sizes)
    cuts = cuts and model.bins <= UNIT and model.classes <= UNIT
    whole = candidates % (Tile().rows * Tile().turns) == 0
    return fits() and model.precision in HALVES and cuts and whole


def fits() -> bool:
    """Whether there is a GPU with shared memory enough: Hopper's, or Blackwell's for data centres."""
    generation = str(getattr(jax.devices()[0], "compute_capability", "none")).split(".")[0]
    return jax.default_backend() == "gpu" and generation in ("9", "10")


def prepare(model: RSSM, params: Params, *, operand: Any = None) -> Prepared:
    """The parameters as the kernel reads them. Do this once per decision, outside of the search. `operand` is the
    type of the products' operands, by default that of the model's precision."""
    operand = operand or HALVES[model.precision]
    pad = UNIT - model.bins
    missing = max(16, pl.next_power_of_2(model.action_size)) - model.action_size  # 16 inputs are a product's least

    def weight(w: Array) -> Array:  # outputs by inputs, as is `left` by inputs: both are read along their rows
        return w.T.astype(operand)

    prepared = {
        "input/weight": weight(params["model/input/weight"][: model.stoch]),
        "input/action": weight(jnp.pad(params["model/input/weight"][model.stoch :], ((0, missing), (0, 0)))),
        "input/gain": params["model/input/gain"],
        "gru/weight": weight(params["model/gru/weight"]),
        "gru/gain": params["model/gru/gain"],
        "base": jnp.concatenate([params["model/input/bias"], params["model/gru/bias"]]),
        "grid": jnp.pad(jnp.linspace(0.0, 1.0, model.bins), (0, pad)),
    }
    for head, names in HEADS.items():
        for index, name in enumerate(names):
            w, bias = params[f"{name}/weight"], params[f"{name}/bias"]
            if name != names[-1]:
                prepared[f"{head}/{index}/gain"] = params[f"{name}/gain"]
            elif head != "prior":  # the bins that fill up the tile never get any probability
                w, bias = jnp.pad(w, ((0, 0), (0, pad))), jnp.pad(bias, (0, pad), constant_values=-jnp.inf)
            prepared |= {f"{head}/{index}/weight": weight(w), f"{head}/{index}/bias": bias}
    return prepared


def imagined_values(
    model: RSSM,
    prepared: Prepared,
    latent: Latent,
    actions: Float[Array, "N H A"],
    *,
    tile: Tile | None = None,
    interpret: bool = False,
) -> Float[Array, " N"]:
    """The value of each action sequence from `latent`: what `rssm_cem.imagination` computes. Batch it with vmap."""
    tile = tile or Tile()
    count, horizon, size = actions.shape
    operand, padded = prepared["gru/weight"].dtype, prepared["input/action"].shape[1]
    weights = (prepared["input/weight"], prepared["gru/weight"][:, model.hidden :])
    first = [
        _dot(x.astype(w.dtype)[None], w)[0] for w, x in zip(weights, (latent.stoch, latent.deter), strict=True)
    ]
    # What the first step adds to its input layer and to its gates, and below it what every other step adds.
    base = prepared["base"] + jnp.stack([jnp.concatenate(first), jnp.zeros_like(prepared["base"])])
    zeros = jnp.zeros(max(horizon, tile.turns), jnp.int32)
    given = {**prepared, "base": base, "deter": latent.deter.astype(operand), "zeros": zeros}
    programs, rows = count // (tile.rows * tile.turns), tile.rows * tile.turns
    width = model.deter + max(model.stoch, 3 * model.deter)

    def whole(x: Array) -> pl.BlockSpec:
        return pl.BlockSpec(x.shape, lambda i: (0,) * x.ndim)

    values, _ = pl.pallas_call(
        functools.partial(_imagine, model=model, tile=tile, horizon=horizon, interpret=interpret),
        grid=(programs,),
        in_specs=[
            pl.BlockSpec((horizon, rows, padded), lambda i: (0, i, 0)),
            jax.tree.map(whole, given),
        ],
        out_specs=[pl.BlockSpec((rows,), lambda i: (i,)), pl.BlockSpec((tile.rows, width), lambda i: (i, 0))],
        out_shape=[_like(jnp.float32, count), _like(operand, programs * tile.rows, width)],
        compiler_params=plgpu.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
        interpret=interpret,
        name="imagine",
    )(jnp.pad(jnp.swapaxes(actions, 0, 1).astype(operand), ((0, 0), (0, 0), (0, padded - size))), given)
    return values


def _imagine(
    actions: Any, given: Any, values: Any, state: Any, *, model: RSSM, tile: Tile, horizon: int, interpret: bool
) -> None:
    def turn(index: Array, _: None) -> None:
        candidates = pl.ds(index * tile.rows, tile.rows)
        program = _Program(model, tile, interpret, given, state, given["zeros"][index])
        program.begin()

        def step(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            total, discount = carry
            at = dataclasses.replace(program, top=given["zeros"][index])
            seen = jnp.minimum(index, 1)
            at.remember(at.gates(at.encode(actions[index, candidates, :], seen), seen))
            at.guess()
            return total + discount * at.head("reward", model.reward_high), discount * model.discount

        total, discount = jax.lax.fori_loop(0, horizon, step, (jnp.zeros(tile.rows), jnp.ones(tile.rows)))
        values[candidates] = total + discount * program.head("value", model.value_high)

    jax.lax.fori_loop(0, tile.turns, turn, None)


@dataclasses.dataclass(frozen=True)
class _Program:
    """One tile of candidates: references to what it reads and to its own scratch.

    `top` is zero, the first row of every matrix. Read from memory in each step, it keeps the compiler from holding
    the addresses of all layers in registers over the whole horizon, where they do not fit.
    """

    model: RSSM
    tile: Tile
    interpret: bool
    given: Any
    state: Any
    top: int | Array

    @property
    def rows(self) -> Any:
        return pl.ds(self.top, self.tile.rows)

    def begin(self) -> None:
        """All candidates begin at one deterministic state."""
        row = self.given["deter"][:][None]
        self.barrier()
        self.store(0, jnp.broadcast_to(row, (self.tile.rows, row.shape[1])))
        self.barrier()

    def encode(self, actions: Array, seen: Array) -> Pieces:
        """The input layer. `seen` is 0 in the first step, whose latent is in its base already."""
        model = self.model
        sums = self.add(self.zeros(model.hidden), [actions], "input/action")
        sums = self.read(sums, "input/weight", ((1 - seen) * model.stoch, model.stoch), column=model.deter)
        return self.activate(self.biased(sums, "base", seen), "input/gain")

    def gates(self, hidden: Pieces, seen: Array) -> Array:
        """The recurrent layer. Its outputs are stored as they are, its norm's squares returned."""
        deter, width = self.model.deter, self.tile.outputs

        def every(inputs: Pieces) -> Array:
            def run(index: Array, squares: Array) -> Array:
                sums = self.add(self.zeros(width), inputs, "gru/weight", output=index * width)
                [gates] = self.biased(sums, "base", seen, first=self.model.hidden + index * width)
                self.store(deter + index * width, gates)
                return squares + gates * gates

            [squares] = self.zeros(width)  # summed over columns at last, and not in every run
            return jnp.sum(jax.lax.fori_loop(0, 3 * deter // width, run, squares), 1)

        self.barrier()
        squares = jax.lax.cond(seen > 0, lambda: every([*hidden, self.load(0, deter)]), lambda: every(hidden))
        self.barrier()
        return squares

    def remember(self, squares: Array) -> None:
        """The gates, and the deterministic state before them, become the next one."""
        deter = self.model.deter
        scale = jax.lax.rsqrt(squares / (3 * deter) + 1e-6)[:, None]

        def run(index: Array, _: None) -> None:  # all columns at once do not fit into registers
            def gate(which: int) -> Array:
                column = which * deter + index * UNIT
                return self.load(deter + column, UNIT) * scale * self.given["gru/gain"][pl.ds(column, UNIT)][None]

            candidate = self.tanh(self.sigmoid(gate(0)) * gate(1))
            update = self.sigmoid(gate(2) - 1.0)
            before = self.load(index * UNIT, UNIT).astype(jnp.float32)
            self.store(index * UNIT, before + update * (candidate - before))

        jax.lax.fori_loop(0, deter // UNIT, run, None)
        self.barrier()

    def guess(self) -> None:
        """The prior's mean becomes the stochastic state."""
        model = self.model
        hidden = self.hide("prior/0", model.deter)

        def run(index: Array, _: None) -> None:
            column = index * UNIT
            sums = self.add(self.zeros(UNIT), hidden, "prior/1/weight", output=column)
            [flat] = self.biased(sums, "prior/1/bias", first=column)
            logits = flat.reshape(-1, model.classes)
            weight = self.exp(logits - jnp.max(logits, 1, keepdims=True))
            share = (1.0 - model.unimix) / jnp.sum(weight, 1, keepdims=True)
            self.store(model.deter + column, (weight * share + model.unimix / model.classes).reshape(flat.shape))

        jax.lax.fori_loop(0, model.stoch // UNIT, run, None)
        self.barrier()

    def head(self, name: str, high: float) -> Array:
        """What a head expects of the state: a mean on a grid from zero to `high`."""
        hidden = self.hide(f"{name}/0", self.model.deter + self.model.stoch)
        last = len(HEADS[name]) - 1
        for index in range(1, last):
            hidden = self.activate(self.layer(f"{name}/{index}", hidden), f"{name}/{index}/gain")
        [logits] = self.layer(f"{name}/{last}", hidden)
        weight = self.exp(logits - jnp.max(logits, 1, keepdims=True))
        return high * jnp.sum(weight * self.given["grid"][:][None], 1) / jnp.sum(weight, 1)

    def hide(self, name: str, inputs: int) -> Pieces:
        """A hidden layer on the first columns of the scratch."""
        sums = self.read(self.zeros(self.model.hidden), f"{name}/weight", (0, inputs))
        return self.activate(self.biased(sums, f"{name}/bias"), f"{name}/gain")

    def layer(self, name: str, hidden: Pieces) -> Pieces:
        """A layer on what is in registers."""
        outputs = self.given[f"{name}/bias"].shape[0]
        return self.biased(self.add(self.zeros(outputs), hidden, f"{name}/weight"), f"{name}/bias")

    def read(self, sums: Pieces, name: str, inputs: tuple[Any, Any], *, column: int = 0) -> Pieces:
        """Add what a run of a weight matrix' inputs makes of the scratch's columns from `column` on."""
        inner = self.tile.inner

        def add(index: Array, sums: Pieces) -> Pieces:
            left = self.load(column + index * inner, inner)
            return self.add(sums, [left], name, input=index * inner)

        # A bound that is not known before the run keeps the loop a loop: a step should fit the instruction cache.
        return jax.lax.fori_loop(inputs[0] // inner + self.top, inputs[1] // inner, add, sums)

    def add(
        self, sums: Pieces, lefts: Pieces, name: str, *, output: int | Array = 0, input: int | Array = 0
    ) -> Pieces:
        """Add the product of `lefts` with a weight matrix, from one of its outputs and one of its inputs on."""
        added = []
        for total in sums:
            first = input
            for left in lefts:
                block = (pl.ds(self.top + output, total.shape[1]), pl.ds(first, left.shape[1]))
                total += _dot(left, self.given[name][block])
                first += left.shape[1]
            added.append(total)
            output += total.shape[1]
        return added

    def zeros(self, width: int) -> Pieces:
        return [jnp.zeros((self.tile.rows, power)) for power in _powers(width)]

    def biased(self, sums: Pieces, name: str, *index: Array, first: int | Array = 0) -> Pieces:
        return _each(jnp.add, sums, self.row(name, sums, *index, first=first))

    def activate(self, pieces: Pieces, gain: str) -> Pieces:
        """Normalised, through silu, as operands of the next layer."""
        scale = jax.lax.rsqrt(_squares(pieces) / self.model.hidden + 1e-6)[:, None]
        normal = _each(lambda piece, row: piece * scale * row, pieces, self.row(gain, pieces))
        return [self.silu(x).astype(self.state.dtype) for x in normal]

    def row(self, name: str, pieces: Pieces, *index: Array, first: int | Array = 0) -> Pieces:
        """A stored row, cut as `pieces` are."""
        cut = []
        for piece in pieces:
            cut.append(self.given[name][(*index, pl.ds(first, piece.shape[1]))][None])
            first += piece.shape[1]
        return cut

    def load(self, column: int | Array, width: int) -> Array:
        return self.state[self.rows, pl.ds(column, width)]

    def store(self, column: int | Array, values: Array) -> None:
        self.state[self.rows, pl.ds(column, values.shape[1])] = values.astype(self.state.dtype)

    def barrier(self) -> None:
        if not self.interpret:
            plgpu.debug_barrier()

    def silu(self, x: Array) -> Array:
        return 0.5 * x + 0.5 * x * self.tanh(0.5 * x)

    def sigmoid(self, x: Array) -> Array:
        return 0.5 * self.tanh(0.5 * x) + 0.5

    def tanh(self, x: Array) -> Array:  # approximate, and yet as exact as 16-bit operands are
        return self.native("tanh.approx.f32", jnp.tanh, x)

    def exp(self, x: Array) -> Array:
        return self.native("ex2.approx.ftz.f32", jnp.exp2, x * math.log2(math.e))

    def native(self, instruction: str, function: Callable[[Array], Array], x: Array) -> Array:
        """One of the GPU's own instructions: what a library makes of it costs as much time as the products."""
        if self.interpret:
            return function(x)
        asm = f"{instruction} $0, $1;"
        [y] = plgpu.elementwise_inline_asm(
            asm, args=[x], constraints="=f,f", pack=1, result_shape_dtypes=[_like(x.dtype, *x.shape)]
        )
        return y


def _like(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _dot(left: Array, right: Array) -> Array:
    """Rows of `left` times rows of `right`."""
    return jax.lax.dot_general(left, right, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)


def _each(function: Any, *pieces: Pieces) -> Pieces:
    return [function(*parts) for parts in zip(*pieces, strict=True)]


def _squares(pieces: Pieces) -> Array:
    return functools.reduce(jnp.add, [jnp.sum(piece * piece, 1) for piece in pieces])


def _powers(width: int) -> list[int]:
    """Descending powers of two that add up to `width`."""
    return [1 << bit for bit in reversed(range(width.bit_length())) if width >> bit & 1]
