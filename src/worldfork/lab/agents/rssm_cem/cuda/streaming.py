"""How the imagination kernel lays out its memory, and the thread that copies weights into it, in CUDA C++."""

__all__ = ["STREAMING"]

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
