"""The imagination kernel's layout of memory, and the thread that copies weights into it, in CUDA C++."""

import ctypes
import dataclasses
import functools
import re
from importlib import util
from pathlib import Path

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem.cuda.hopper import INSTRUCTIONS
from worldfork.lab.agents.rssm_cem.cuda.imagine import KERNEL
from worldfork.lab.agents.rssm_cem.rssm import RSSM

STREAMING = r"""
constexpr int WIDE = 128;                                    // gates or logits in registers at once
constexpr int GATES = DETER < WIDE ? DETER : WIDE;
constexpr int LOGITS = STOCH < WIDE ? STOCH : WIDE;
constexpr int RUNS = DETER / GATES;                          // of each of the three gates
constexpr int STEP = UNIT * 16;                              // bytes of 8 columns of a warpgroup's matrix
constexpr int STATE = UNIT * (DETER + (STOCH > DETER ? STOCH : DETER)) * 2;
constexpr int SLOT = (HIDDEN > WIDE ? HIDDEN : WIDE) * UNIT * 2;
constexpr int THREADS = 128 * GROUPS + 128;
constexpr int RING = GROUPS * STATE;                         // where the ring begins, and the barriers behind it
constexpr int BARRIERS = RING + SLOTS * SLOT;

// Rows of a parameter set, in this order; a decision has its own `base` for the first step.
constexpr int BASE = 0;                                      // what is added to the input layer, and to the gates
constexpr int INPUT_GAIN = BASE + HIDDEN + 3 * DETER;
constexpr int PRIOR = INPUT_GAIN + HIDDEN;                   // bias and gain of the hidden layer, the logits' bias
constexpr int REWARD = PRIOR + 2 * HIDDEN + STOCH;
constexpr int VALUE = REWARD + 2 * HIDDEN + UNIT;            // two hidden layers
constexpr int GATE_GAIN = VALUE + 4 * HIDDEN + UNIT;         // halves of the gains
constexpr int ROWS = GATE_GAIN + 3 * DETER;

struct Ring {
    u32 first, barriers, slot, phase;

    __device__ u32 full() const { return barriers + 8 * slot; }
    __device__ u32 empty(u32 of) const { return barriers + 8 * (SLOTS + of); }
    __device__ u32 tile() const { return first + slot * SLOT; }
    __device__ u32 last() const { return slot == 0 ? SLOTS - 1 : slot - 1; }
    __device__ void advance() {
        if (++slot == SLOTS) slot = 0, phase ^= 1;
    }
};

struct Copier {
    Ring ring;
    const char* from;

    __device__ void copy(int bytes) {
        wait(ring.empty(ring.slot), ring.phase ^ 1);
        copy_tile(ring.tile(), from, bytes, ring.full());
        ring.advance();
        from += bytes;
    }
    __device__ void copies(int count, int bytes) {
#pragma unroll 1
        for (int index = 0; index < count; ++index) copy(bytes);
    }
};

// The thread that copies: every tile in the order of its use.
__device__ void copy_weights(Ring ring, const char* weights, int horizon) {
    constexpr int wide = HIDDEN * UNIT * 2, gates = GATES * UNIT * 2, logits = LOGITS * UNIT * 2;
    constexpr int head = HIDDEN * UNIT * 2;
    Copier copier{ring, weights};
#pragma unroll 1
    for (int step = 0; step < horizon; ++step) {
        copier.from = weights;
        copier.copy(ACTIONS * HIDDEN * 2);
        if (step > 0) copier.copies(STOCH / UNIT, wide);
        else copier.from += STOCH / UNIT * wide;
#pragma unroll 1
        for (int run = 0; run < 3 * RUNS; ++run) {
            copier.copies(HIDDEN / UNIT, gates);
            if (step > 0) copier.copies(DETER / UNIT, gates);
            else copier.from += DETER / UNIT * gates;
        }
        copier.copies(DETER / UNIT, wide);
        copier.copies(STOCH / LOGITS * (HIDDEN / UNIT), logits);
        copier.copies((DETER + STOCH) / UNIT, wide);
        copier.copy(head);
    }
    copier.copies((DETER + STOCH + HIDDEN) / UNIT, wide);
    copier.copy(head);
}
"""


UNIT = 64  # candidates of a warpgroup, and inputs of a tile of weights
WIDE = 128  # gates, or logits of the prior, that a product computes at once
MEMORY = 227 * 1024  # bytes that a block may use
OPERANDS = {"fp16": "f16", "bf16": "bf16"}  # as instructions name them


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A compiled program: a model's sizes and precision, and `groups` warpgroups of 64 candidates in a block."""

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
        """Return all of it, as the compiler reads it."""
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


TARGET = "compute_90a"  # Hopper, with its warpgroup products
VERSION = "8.0"  # of PTX: the first that has them. A driver refuses what says that it is newer than the driver.


@functools.cache
def compiled(source: str) -> str:
    """Return the PTX of `source`. The driver makes machine code of it when a program that holds it is loaded."""
    nvrtc = _library()
    program = ctypes.c_void_p()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"imagine.cu", 0, None, None))
    try:
        # No product and sum are joined but where the source says so: bits do not depend on the compiler's choice.
        options = [f"--gpu-architecture={TARGET}".encode(), b"--std=c++17", b"--fmad=false"]
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            log = _text(nvrtc, program, "ProgramLog")
            raise WorldforkError(f"The imagination kernel should compile; NVIDIA's compiler says:\n{log}")
        return re.sub(r"^\.version .*$", f".version {VERSION}", _text(nvrtc, program, "PTX"), flags=re.MULTILINE)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, text))
    return text.value.decode()


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise WorldforkError(f"The CUDA compiler failed: {nvrtc.nvrtcGetErrorString(status).decode()}.")


@functools.cache
def _library() -> ctypes.CDLL:
    for candidate in _candidates():
        try:
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    raise WorldforkError(
        "The imagination kernel needs NVIDIA's runtime compiler (libnvrtc), and none was found. Install "
        "'jax[cuda13]', which brings it along, or run the agent with `fused = false`."
    )


def _candidates() -> list[str]:
    """Return the compiler of the wheels that jax installs, then the system's."""
    package = util.find_spec("nvidia")
    roots = list(package.submodule_search_locations or []) if package else []
    wheels = [str(path) for root in roots for path in sorted(Path(root).glob("*/lib/libnvrtc.so.*"), reverse=True)]
    return [*wheels, "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"]
