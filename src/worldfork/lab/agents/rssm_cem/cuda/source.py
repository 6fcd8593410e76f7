"""The text of the imagination kernel for one model: its sizes, the GPU's instructions, and what is made of them."""

import dataclasses

from worldfork.lab.agents.rssm_cem.cuda.hopper import INSTRUCTIONS
from worldfork.lab.agents.rssm_cem.cuda.imagine import KERNEL
from worldfork.lab.agents.rssm_cem.cuda.streaming import STREAMING
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM

__all__ = ["UNIT", "Kernel"]

UNIT = 64  # candidates of a warpgroup, and inputs of a tile of weights
WIDE = 128  # gates, or logits of the prior, that a product computes at once
MEMORY = 227 * 1024  # bytes that a block may use
OPERANDS = {"fp16": "f16", "bf16": "bf16"}  # as instructions name them


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One program: a model's sizes and precision, and `groups` warpgroups of 64 candidates in a block."""

    model: RSSM
    groups: int

    @property
    def threads(self) -> int:
        return 128 * (self.groups + 1)  # the last warpgroup copies weights

    @property
    def actions(self) -> int:
        """The inputs of the actions' tile: a product takes them by sixteens."""
        return -(-self.model.action_size // 16) * 16

    @property
    def weights(self) -> int:
        """Bytes of a parameter set's weights."""
        deter, stoch, hidden = self.model.deter, self.model.stoch, self.model.hidden
        gates = 3 * deter * (hidden + deter)
        heads = 2 * (deter + stoch) * hidden + hidden * hidden + 2 * hidden * UNIT
        return 2 * ((self.actions + stoch) * hidden + gates + deter * hidden + hidden * stoch + heads)

    @property
    def states(self) -> int:
        """Bytes of the candidates' states. Gates wait in the place of the stochastic one."""
        return 2 * self.groups * UNIT * (self.model.deter + max(self.model.deter, self.model.stoch))

    @property
    def slot(self) -> int:
        """Bytes of the largest tile, and of two barriers."""
        return 2 * UNIT * max(self.model.hidden, WIDE) + 16

    @property
    def slots(self) -> int:
        """As many as fit beside the states; more than eight are never full."""
        return min((MEMORY - self.states) // self.slot, 8)

    @property
    def memory(self) -> int:
        """Bytes of a block's shared memory."""
        return self.states + self.slots * self.slot

    def definitions(self) -> str:
        model = self.model
        names = {
            "GROUPS": self.groups,
            "SLOTS": self.slots,
            "DETER": model.deter,
            "STOCH": model.stoch,
            "CLASSES": model.classes,
            "HIDDEN": model.hidden,
            "BINS": model.bins,
            "ACTIONS": self.actions,
            "WEIGHTS": self.weights,
            "UNIMIX": _number(model.unimix),
            "DISCOUNT": _number(model.discount),
            "REWARD_HIGH": _number(model.reward_high),
            "VALUE_HIGH": _number(model.value_high),
            "FLOAT16": int(model.precision == "fp16"),
            "OPERAND": f'"{OPERANDS[model.precision]}"',
        }
        return "".join(f"#define {name} {value}\n" for name, value in names.items())

    def text(self) -> str:
        """All of it, as the compiler reads it."""
        widths = sorted({UNIT, min(WIDE, self.model.deter), min(WIDE, self.model.stoch), self.model.hidden})
        products = "".join(_product(width, OPERANDS[self.model.precision]) for width in widths)
        return "\n".join([self.definitions(), INSTRUCTIONS, products, STREAMING, KERNEL])


def _number(value: float) -> str:
    return f"{float(value)!r}f"


def _product(width: int, operand: str) -> str:
    """64 rows by 16 inputs times 16 inputs by `width` columns; the left ones in shared memory or in registers."""
    count = width // 2
    sums = ", ".join(f"%{index}" for index in range(count))
    bound = ", ".join(f'"+f"(x[{index}])' for index in range(count))
    shape = f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{operand}.{operand}"
    a, b, c, d, right = (f"%{count + index}" for index in range(5))
    head = f"__device__ __forceinline__ void multiply(float (&x)[{count}], "
    return f"""{head}u64 left, u64 right) {{
    asm volatile("{shape} {{{sums}}}, {a}, {b}, 1, 1, 1, 0, 0;" : {bound} : "l"(left), "l"(right));
}}
{head}u32 a, u32 b, u32 c, u32 d, u64 right) {{
    asm volatile("{shape} {{{sums}}}, {{{a}, {b}, {c}, {d}}}, {right}, 1, 1, 1, 0;"
                 : {bound} : "r"(a), "r"(b), "r"(c), "r"(d), "l"(right));
}}
"""
