"""The planner's imagination as one GPU kernel: what a candidate imagines never leaves the chip's caches.

One program imagines a tile of candidates of one decision over the whole horizon. Its activations live in a scratch
of its own, small enough for the caches, and the weights stream from L2, so that the matrix units and not the memory
bound the speed. A row of the scratch `state` is [hidden | deter | stoch]: every layer reads a run of its columns.

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

from worldfork.lab.model.layers import Params
from worldfork.lab.model.rssm import RSSM, Latent

__all__ = ["Prepared", "Tile", "available", "imagined_values", "prepare"]

UNIT = 64  # every size of the model is a multiple of it
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
    `inner` columns of a product at a time; warps and pipeline stages as Triton means them."""

    rows: int = 128
    inner: int = 64
    warps: int = 8
    stages: int = 3
    turns: int = 2

    @classmethod
    def of_precision(cls, precision: str) -> "Tile":
        """As many bytes of a row at a time in either precision."""
        return cls() if precision == "bf16" else cls(inner=32)


def available(model: RSSM, candidates: int) -> bool:
    """Whether the kernel runs this model on this machine; the plain path runs everywhere."""
    sizes = (model.deter, model.stoch, model.hidden)
    powers = all(size & (size - 1) == 0 for size in (model.deter, model.stoch, model.groups))
    cuts = powers and all(size % UNIT == 0 and size <= 256 for size in sizes) and model.bins <= UNIT
    tile = Tile.of_precision(model.precision)
    whole = candidates % (tile.rows * tile.turns) == 0
    return jax.default_backend() == "gpu" and model.precision in ("tf32", "bf16") and cuts and whole


def prepare(model: RSSM, params: Params) -> Prepared:
    """The parameters as the kernel reads them. Do this once per decision, outside of the search."""
    operand = jnp.bfloat16 if model.precision == "bf16" else jnp.float32
    pad = UNIT - model.bins

    def weight(w: Array) -> Array:  # outputs by inputs: TF32 products need the inner dimension contiguous
        return w.T.astype(operand)

    prepared = {
        "input/weight": weight(params["model/input/weight"][: model.stoch]),
        "input/action": params["model/input/weight"][model.stoch :],
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
    tile = tile or Tile.of_precision(model.precision)
    count, horizon, size = actions.shape
    weights = (prepared["input/weight"], prepared["gru/weight"][:, model.hidden :])
    first = [
        _dot(x.astype(w.dtype)[None], w)[0] for w, x in zip(weights, (latent.stoch, latent.deter), strict=True)
    ]
    # What the first step adds to its input layer and to its gates, and below it what every other step adds.
    base = prepared["base"] + jnp.stack([jnp.concatenate(first), jnp.zeros_like(prepared["base"])])
    zeros = jnp.zeros(max(horizon, tile.turns), jnp.int32)
    given = {**prepared, "base": base, "deter": latent.deter, "zeros": zeros}
    programs, rows = count // (tile.rows * tile.turns), tile.rows * tile.turns
    operand = prepared["gru/weight"].dtype
    widths = (model.hidden + model.deter + model.stoch, 3 * model.deter)  # of the scratch: state and gates

    def whole(x: Array) -> pl.BlockSpec:
        return pl.BlockSpec(x.shape, lambda i: (0,) * x.ndim)

    values, *_ = pl.pallas_call(
        functools.partial(_imagine, model=model, tile=tile, horizon=horizon, interpret=interpret),
        grid=(programs,),
        in_specs=[
            pl.BlockSpec((horizon, size, rows), lambda i: (0, 0, i)),
            jax.tree.map(whole, given),
        ],
        out_specs=[
            pl.BlockSpec((rows,), lambda i: (i,)),
            *(pl.BlockSpec((tile.rows, width), lambda i: (i, 0)) for width in widths),
        ],
        out_shape=[_like(jnp.float32, count), *(_like(operand, programs * tile.rows, width) for width in widths)],
        compiler_params=plgpu.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
        interpret=interpret,
        name="imagine",
    )(jnp.transpose(actions, (1, 2, 0)), given)
    return values


def _imagine(
    actions: Any,
    given: Any,
    values: Any,
    state: Any,
    gates: Any,
    *,
    model: RSSM,
    tile: Tile,
    horizon: int,
    interpret: bool,
) -> None:
    def turn(index: Array, _: None) -> None:
        candidates = pl.ds(index * tile.rows, tile.rows)
        program = _Program(model, tile, interpret, given, state, gates, given["zeros"][index])
        program.put(model.hidden, [jnp.broadcast_to(given["deter"][:][None], (tile.rows, model.deter))])

        def step(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            total, discount = carry
            at = dataclasses.replace(program, top=given["zeros"][index])
            at.advance([actions[index, a, candidates] for a in range(model.action_size)], jnp.minimum(index, 1))
            at.guess()
            at.hide("reward/0", model.hidden, model.deter + model.stoch)
            return total + discount * at.expected("reward/1", model.reward_high), discount * model.discount

        total, discount = jax.lax.fori_loop(0, horizon, step, (jnp.zeros(tile.rows), jnp.ones(tile.rows)))
        program.hide("value/0", model.hidden, model.deter + model.stoch)
        program.hide("value/1", 0, model.hidden)
        values[candidates] = total + discount * program.expected("value/2", model.value_high)

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
    gates: Any
    top: int | Array

    @property
    def rows(self) -> Any:
        return pl.ds(self.top, self.tile.rows)

    def advance(self, actions: Sequence[Array], seen: Array) -> None:
        """The next deterministic state. `seen` is 0 in the first step, whose latent is in its base already."""
        model, deter = self.model, self.model.deter
        inputs = self.product(
            "input/weight", model.hidden + deter, (0, model.hidden), ((1 - seen) * model.stoch, model.stoch)
        )
        inputs = _each(jnp.add, inputs, self.row("base", inputs, seen))
        for index, action in enumerate(actions):
            inputs = _each(
                lambda x, w, a=action: x + a[:, None] * w, inputs, self.row("input/action", inputs, index)
            )
        self.put(0, self.activate(inputs, "input/gain"))

        squares = jnp.zeros(self.tile.rows)
        for gate in range(3):
            outputs = (gate * deter, (gate + 1) * deter)
            pieces = self.product("gru/weight", 0, outputs, (0, model.hidden + seen * deter))
            pieces = _each(jnp.add, pieces, self.row("base", pieces, seen, start=model.hidden + gate * deter))
            squares += _squares(pieces)
            for piece in pieces:
                self.gates[self.rows, pl.ds(gate * deter, deter)] = piece.astype(self.gates.dtype)
        self.barrier()
        scale = jax.lax.rsqrt(squares / (3 * deter) + 1e-6)[:, None]

        def remember(unit: Array, _: None) -> None:  # all columns at once do not fit into registers
            def gate(index: int) -> Array:
                columns = pl.ds(index * deter + unit * UNIT, UNIT)
                return self.gates[self.rows, columns] * scale * self.given["gru/gain"][columns][None]

            columns = pl.ds(model.hidden + unit * UNIT, UNIT)
            candidate = self.tanh(self.sigmoid(gate(0)) * gate(1))
            update = self.sigmoid(gate(2) - 1.0)
            new = update * candidate + (1.0 - update) * self.state[self.rows, columns]
            self.state[self.rows, columns] = new.astype(self.state.dtype)

        jax.lax.fori_loop(0, deter // UNIT, remember, None)
        self.barrier()

    def guess(self) -> None:
        """The prior's mean becomes the stochastic state."""
        model = self.model
        self.hide("prior/0", model.hidden, model.deter)
        [flat] = self.layer("prior/1", 0, model.hidden)
        logits = flat.reshape(self.tile.rows * model.groups, model.classes)
        weight = self.exp(logits - jnp.max(logits, 1, keepdims=True))
        probs = weight * ((1.0 - model.unimix) / jnp.sum(weight, 1, keepdims=True)) + model.unimix / model.classes
        self.put(model.hidden + model.deter, [probs.reshape(flat.shape)])

    def hide(self, name: str, column: int, inputs: int) -> None:
        """A hidden layer on the state's columns from `column` on; its activations become the first columns."""
        self.put(0, self.activate(self.layer(name, column, inputs), f"{name}/gain"))

    def expected(self, name: str, high: float) -> Array:
        """The mean on a grid from zero to `high`, by a last layer on the hidden columns."""
        [logits] = self.layer(name, 0, self.model.hidden)
        weight = self.exp(logits - jnp.max(logits, 1, keepdims=True))
        return high * jnp.sum(weight * self.given["grid"][:][None], 1) / jnp.sum(weight, 1)

    def layer(self, name: str, column: int, inputs: int) -> Pieces:
        outputs = self.given[f"{name}/bias"].shape[0]
        pieces = self.product(f"{name}/weight", column, (0, outputs), (0, inputs))
        return _each(jnp.add, pieces, self.row(f"{name}/bias", pieces))

    def product(self, name: str, column: int, outputs: tuple[int, int], inputs: tuple[Any, Any]) -> Pieces:
        """The state's columns from `column` on, through `inputs` and `outputs` of a weight matrix."""
        weight, inner = self.given[name], self.tile.inner
        widths = _powers(outputs[1] - outputs[0])

        def add(index: Array, sums: Pieces) -> Pieces:
            columns = index * inner
            left = self.state[self.rows, pl.ds(column + columns, inner)]
            added, start = [], self.top + outputs[0]
            for total in sums:
                added.append(total + _dot(left, weight[pl.ds(start, total.shape[1]), pl.ds(columns, inner)]))
                start += total.shape[1]
            return added

        zeros = [jnp.zeros((self.tile.rows, width)) for width in widths]
        return jax.lax.fori_loop(inputs[0] // inner, inputs[1] // inner, add, zeros)

    def activate(self, pieces: Pieces, gain: str) -> Pieces:
        scale = jax.lax.rsqrt(_squares(pieces) / self.model.hidden + 1e-6)[:, None]
        normal = _each(lambda piece, g: piece * scale * g, pieces, self.row(gain, pieces))
        return [x * self.sigmoid(x) for x in normal]

    def row(self, name: str, pieces: Pieces, *index: int | Array, start: int = 0) -> Pieces:
        """A stored row, cut as `pieces` are."""
        cut = []
        for piece in pieces:
            cut.append(self.given[name][(*index, pl.ds(start, piece.shape[1]))][None])
            start += piece.shape[1]
        return cut

    def put(self, column: int, pieces: Pieces) -> None:
        """Overwrite the state's columns once every thread has read them, and let every thread see what is new."""
        self.barrier()
        for piece in pieces:
            self.state[self.rows, pl.ds(column, piece.shape[1])] = piece.astype(self.state.dtype)
            column += piece.shape[1]
        self.barrier()

    def barrier(self) -> None:
        if not self.interpret:
            plgpu.debug_barrier()

    def sigmoid(self, x: Array) -> Array:
        if self.model.precision == "bf16":  # one approximate instruction, as exact as the operands are
            return 0.5 * self.tanh(0.5 * x) + 0.5
        return self.native("rcp.approx.ftz.f32", jnp.reciprocal, 1.0 + self.exp(-x))

    def tanh(self, x: Array) -> Array:
        if self.model.precision == "bf16":
            return self.native("tanh.approx.f32", jnp.tanh, x)
        return 2.0 * self.sigmoid(2.0 * x) - 1.0

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
    """Rows of `left` times rows of `right`. On the accelerator, float32 operands are multiplied in TF32."""
    return jax.lax.dot_general(left, right, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)


def _each(function: Any, *pieces: Pieces) -> Pieces:
    return [function(*parts) for parts in zip(*pieces, strict=True)]


def _squares(pieces: Pieces) -> Array:
    return functools.reduce(jnp.add, [jnp.sum(piece * piece, 1) for piece in pieces])


def _powers(width: int) -> list[int]:
    """Descending powers of two that add up to `width`."""
    return [1 << bit for bit in reversed(range(width.bit_length())) if width >> bit & 1]
