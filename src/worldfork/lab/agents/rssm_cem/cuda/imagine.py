"""The imagination kernel in CUDA C++. It is text in a module, so that a row's source digest covers it."""

KERNEL = r"""
// The planner's imagination for Hopper GPUs: candidates of one decision over the whole horizon, in one block.
//
// A block holds GROUPS warpgroups of 64 candidates each, from the first layer to the last, and one thread that does
// nothing but copy weights: they lie in memory in the order in which they are read, cut into tiles that each fill
// one slot of a ring in shared memory. All warpgroups read a tile, and the last of them gives its slot back.
//
// Matrices in shared memory are cut into pieces of 8 rows by 8 columns, 128 bytes each. The matrix units read such
// a piece without conflicts, and it is what a warp holds of 8 columns of a product: one instruction stores it.
//
// A hidden layer stays in registers: what a product leaves there is, normalised and rounded, the left operand of
// the next. The gates of the recurrent layer are normalised over all of them, so none is used before the last is
// there: reset gates wait in the place of the stochastic state, which was read by then, the others in registers.
//
// The layers of a step are turns of one loop, so that they share the code of what follows a product. The compiler
// is given the model's sizes DETER, STOCH, CLASSES, HIDDEN and BINS, and ACTIONS, the inputs of the actions' tile.

// The turns of the loop: hidden layers.
enum Turn { INPUT, DYNAMICS, REWARDS, VALUES, VALUES_AGAIN };

// One warpgroup. A thread holds, of every 8 columns of a product, two of row `lane / 4` of its warp's 16 and two of
// the row 8 below it; four neighbours hold a row.
struct Warpgroup {
    Ring ring;
    u32 deter, stoch;  // this thread's place in its warpgroup's states
    u32 left;          // the states as a left operand
    int index, lane;
    const float* rows;   // of the parameter set
    const float* first;  // base of the decision's first step

    __device__ void release(u32 slot) {
        if (lane == 0) arrive(ring.empty(slot));
    }

    template <int N>
    __device__ void begin(float (&sums)[N / 2], const float* bias) {
        bias += 2 * (lane % 4);
#pragma unroll
        for (int j = 0; j < N / 8; ++j) {
            const Two b = read(bias + 8 * j);
            sums[4 * j] = sums[4 * j + 2] = b.x;
            sums[4 * j + 1] = sums[4 * j + 3] = b.y;
        }
    }

    // Give the tile before the last one back, as soon as its products are done.
    template <int N>
    __device__ void settle(float (&sums)[N / 2], bool before) {
        commit();
        wait_for_products<1>();
        if (before) release(ring.last());
        ring.advance();
    }

    template <int N>
    __device__ void finish(float (&sums)[N / 2]) {
        wait_for_products<0>();
        keep_in_place(sums);
        release(ring.last());
    }

    // Add products of what is in shared memory, from column 64 * `from` of [deter | stoch] on.
    template <int N>
    __device__ void add_states(float (&sums)[N / 2], int from, int tiles, bool before) {
        u32 a = left + from * 8 * STEP;
#pragma unroll 1
        for (int tile = 0; tile < tiles; ++tile, a += 8 * STEP) {
            wait(ring.full(), ring.phase);
            keep_in_place(sums);
            begin_products();
            const u64 b = right_operand<N>(ring.tile()), l = left_operand(a);
#pragma unroll
            for (int k = 0; k < UNIT / 16; ++k) multiply(sums, l + k * (2 * STEP / 16), b + k * (2 * N));
            settle<N>(sums, before || tile > 0);
        }
    }

    // Add products of what is in registers: K columns, PIECE of them in a tile.
    template <int N, int K, int PIECE>
    __device__ void add_registers(float (&sums)[N / 2], const u32 (&x)[K / 4]) {
#pragma unroll
        for (int tile = 0; tile < K / PIECE; ++tile) {
            wait(ring.full(), ring.phase);
            keep_in_place(sums);
            begin_products();
            const u64 b = right_operand<N>(ring.tile());
#pragma unroll
            for (int k = 0; k < PIECE / 16; ++k) {
                const int at = 4 * (tile * (PIECE / 16) + k);
                multiply(sums, x[at], x[at + 1], x[at + 2], x[at + 3], b + k * (2 * N));
            }
            settle<N>(sums, tile > 0);
        }
    }

    // Sums over the four threads of a row.
    __device__ float over_row(float x) {
        x += from_neighbour(x, 1);
        return x + from_neighbour(x, 2);
    }
    __device__ float largest(float x) {
        x = larger(x, from_neighbour(x, 1));
        return larger(x, from_neighbour(x, 2));
    }

    template <int N>
    __device__ void add_squares(const float (&x)[N / 2], float& upper, float& lower) {
        float u = 0, v = 0, w = 0, z = 0;
#pragma unroll
        for (int j = 0; j < N / 8; ++j) {
            u = fmaf(x[4 * j], x[4 * j], u), v = fmaf(x[4 * j + 1], x[4 * j + 1], v);
            w = fmaf(x[4 * j + 2], x[4 * j + 2], w), z = fmaf(x[4 * j + 3], x[4 * j + 3], z);
        }
        upper += u + v, lower += w + z;
    }

    // What makes the root mean square of a row one, of its thread's sum of squares.
    __device__ float scale_of(float squares, int columns) {
        return inverse_root(fmaf(over_row(squares), 1.0f / columns, 1e-6f));
    }

    // Normalised, through silu(x) = h + h tanh(h) with h = x / 2, as left operand of the next layer.
    __device__ void activate(const float (&x)[HIDDEN / 2], const float* gain, u32 (&y)[HIDDEN / 4]) {
        float upper = 0, lower = 0;
        add_squares<HIDDEN>(x, upper, lower);
        upper = 0.5f * scale_of(upper, HIDDEN);
        lower = 0.5f * scale_of(lower, HIDDEN);
        gain += 2 * (lane % 4);
#pragma unroll
        for (int j = 0; j < HIDDEN / 8; ++j) {
            const Two g = read(gain + 8 * j);
            const Two a = {x[4 * j] * upper * g.x, x[4 * j + 1] * upper * g.y};
            const Two b = {x[4 * j + 2] * lower * g.x, x[4 * j + 3] * lower * g.y};
            y[2 * j] = pack(fused(a, tanh_of(a), a)), y[2 * j + 1] = pack(fused(b, tanh_of(b), b));
        }
    }

    __device__ void load_actions(const float* actions, int size, int stride, u32 (&x)[ACTIONS / 4]) {
#pragma unroll
        for (int j = 0; j < ACTIONS / 8; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float* row = actions + (16 * (index % 4) + lane / 4 + 8 * half) * stride;
                const int column = 8 * j + 2 * (lane % 4);
                x[2 * j + half] = pack(column < size ? row[column] : 0.0f,
                                       column + 1 < size ? row[column + 1] : 0.0f);
            }
        }
    }

    // The recurrent layer, from the input layer's outputs to the next deterministic state.
    __device__ void remember(const u32 (&hidden)[HIDDEN / 4], const float* base, bool begun) {
        u32 kept[2 * RUNS][GATES / 4];
        float upper = 0, lower = 0;
        base += HIDDEN;
#pragma unroll
        for (int run = 0; run < 3 * RUNS; ++run) {
            float sums[GATES / 2];
            begin<GATES>(sums, base + run * GATES);
            add_registers<GATES, HIDDEN, UNIT>(sums, hidden);
            if (begun) add_states<GATES>(sums, 0, DETER / UNIT, true);
            finish<GATES>(sums);
            add_squares<GATES>(sums, upper, lower);
#pragma unroll
            for (int j = 0; j < GATES / 8; ++j) {
                const u32 a = pack(sums[4 * j], sums[4 * j + 1]), b = pack(sums[4 * j + 2], sums[4 * j + 3]);
                if (run < RUNS) {
                    const u32 place = stoch + (run * GATES / 8 + j) * STEP;
                    store(place, a), store(place + 128, b);
                } else {
                    kept[run - RUNS][2 * j] = a, kept[run - RUNS][2 * j + 1] = b;
                }
            }
        }
        const float roots[2] = {scale_of(upper, 3 * DETER), scale_of(lower, 3 * DETER)};
        const Two scale[2] = {{roots[0], roots[0]}, {roots[1], roots[1]}};
        const float* gain = rows + GATE_GAIN + 2 * (lane % 4);
        const Two half = {0.5f, 0.5f}, less = {-0.5f, -0.5f};
        warpgroup_barrier(index);  // nobody reads the state before this step any more
#pragma unroll
        for (int run = 0; run < RUNS; ++run) {
#pragma unroll
            for (int j = 0; j < GATES / 8; ++j) {
                const int column = run * (GATES / 8) + j;
                const Two gr = read(gain + 8 * column), gc = read(gain + DETER + 8 * column),
                          gu = read(gain + 2 * DETER + 8 * column);
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    const u32 place = column * STEP + row * 128;
                    // sigmoid(x) = (tanh(x / 2) + 1) / 2, and the gains are halves of the layer's
                    const Two reset = tanh_of(times(times(unpack(load(stoch + place)), scale[row]), gr));
                    Two candidate = times(times(unpack(kept[run][2 * j + row]), scale[row]), gc);
                    candidate = tanh_of(fused(candidate, reset, candidate));
                    // the gate of the update begins by remembering
                    const Two update = tanh_of(
                        fused(times(unpack(kept[RUNS + run][2 * j + row]), scale[row]), gu, less));
                    const Two before = unpack(load(deter + place));
                    const Two change = fused(before, less, times(candidate, half));
                    store(deter + place, pack(plus(before, fused(change, update, change))));
                }
            }
        }
        states_written(index);
    }

    // The prior's mean becomes the stochastic state. Its logits are in powers of two.
    __device__ void guess(const u32 (&hidden)[HIDDEN / 4]) {
        constexpr int blocks = CLASSES / 8;
#pragma unroll 1
        for (int run = 0; run < STOCH / LOGITS; ++run) {
            float sums[LOGITS / 2];
            begin<LOGITS>(sums, rows + PRIOR + 2 * HIDDEN + run * LOGITS);
            add_registers<LOGITS, HIDDEN, UNIT>(sums, hidden);
            finish<LOGITS>(sums);
            if (run == 0) warpgroup_barrier(index);  // the gates that waited in its place were used
#pragma unroll
            for (int group = 0; group < LOGITS / CLASSES; ++group) {
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    float weights[2 * blocks], top, total = 0;
#pragma unroll
                    for (int i = 0; i < 2 * blocks; ++i) {
                        weights[i] = sums[4 * (group * blocks + i / 2) + 2 * row + i % 2];
                        top = i == 0 ? weights[i] : larger(top, weights[i]);
                    }
                    top = largest(top);
#pragma unroll
                    for (int i = 0; i < 2 * blocks; ++i) total += weights[i] = power_of_two(weights[i] - top);
                    const float share = (1.0f - UNIMIX) * inverse(over_row(total));
                    const u32 place = stoch + ((run * LOGITS / 8) + group * blocks) * STEP + row * 128;
#pragma unroll
                    for (int i = 0; i < blocks; ++i) {
                        store(place + i * STEP, pack(fmaf(weights[2 * i], share, UNIMIX / CLASSES),
                                                     fmaf(weights[2 * i + 1], share, UNIMIX / CLASSES)));
                    }
                }
            }
        }
        states_written(index);
    }

    // What a head expects: a mean on a grid from zero to one, of the thread's two candidates.
    __device__ Two expect(const u32 (&hidden)[HIDDEN / 4], const float* bias) {
        float sums[UNIT / 2], means[2];
        begin<UNIT>(sums, bias);
        add_registers<UNIT, HIDDEN, HIDDEN>(sums, hidden);
        finish<UNIT>(sums);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float top = sums[2 * row], total = 0, mean = 0;
#pragma unroll
            for (int j = 0; j < UNIT / 4; ++j) top = larger(top, sums[4 * (j / 2) + 2 * row + j % 2]);
            top = largest(top);
#pragma unroll
            for (int j = 0; j < UNIT / 4; ++j) {
                const float weight = power_of_two(sums[4 * (j / 2) + 2 * row + j % 2] - top);
                total += weight, mean = fmaf(weight, 8 * (j / 2) + 2 * (lane % 4) + j % 2, mean);
            }
            means[row] = over_row(mean) * inverse(over_row(total)) * (1.0f / (BINS - 1));
        }
        return {means[0], means[1]};
    }

    __device__ Two imagine(const float* actions, int size, int horizon) {
        Two total = {0, 0};
        float discount = 1;
        int turn = INPUT, step = 0;
        u32 hidden[HIDDEN / 4];
        while (true) {
            float sums[HIDDEN / 2];
            const float* base = step == 0 ? first : rows;
            const float* bias = rows + REWARD;
            if (turn == INPUT) bias = base;
            if (turn == DYNAMICS) bias = rows + PRIOR;
            if (turn >= VALUES) bias = rows + VALUE + (turn - VALUES) * 2 * HIDDEN;
            begin<HIDDEN>(sums, bias);
            if (turn == INPUT) {
                u32 action[ACTIONS / 4];
                load_actions(actions + step * size, size, horizon * size, action);
                add_registers<HIDDEN, ACTIONS, ACTIONS>(sums, action);
            }
            if (turn == VALUES_AGAIN) {
                add_registers<HIDDEN, HIDDEN, UNIT>(sums, hidden);
            } else {
                int from = turn == INPUT ? DETER / UNIT : 0;
                int tiles = turn == INPUT ? (step > 0 ? STOCH / UNIT : 0) : DETER / UNIT;
                if (turn >= REWARDS) tiles += STOCH / UNIT;
                add_states<HIDDEN>(sums, from, tiles, turn == INPUT);
            }
            finish<HIDDEN>(sums);
            activate(sums, turn == INPUT ? rows + INPUT_GAIN : bias + HIDDEN, hidden);
            if (turn == INPUT) {
                remember(hidden, base, step > 0);
                turn = DYNAMICS;
            } else if (turn == DYNAMICS) {
                guess(hidden);
                turn = REWARDS;
            } else if (turn == VALUES) {
                turn = VALUES_AGAIN;
            } else {
                const bool reward = turn == REWARDS;
                const Two mean = expect(hidden, rows + (reward ? REWARD + 2 * HIDDEN : VALUE + 4 * HIDDEN));
                const float factor = discount * (reward ? REWARD_HIGH : VALUE_HIGH);
                total = {fmaf(factor, mean.x, total.x), fmaf(factor, mean.y, total.y)};
                if (!reward) return total;
                discount *= DISCOUNT;
                turn = ++step < horizon ? INPUT : VALUES;
            }
        }
    }
};

// `sizes`: candidates of a decision, horizon, actions, decisions of a parameter set.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    imagine(const int* sizes, const char* weights, const float* rows, const float* first, const u32* deter,
            const float* actions, float* values) {
    const int candidates = sizes[0], horizon = sizes[1], size = sizes[2], decisions = sizes[3];
    const int tiles = candidates / (UNIT * GROUPS);
    const int decision = blockIdx.x / tiles, set = decision / decisions;
    const u32 memory = shared_memory();
    const Ring ring{memory + RING, memory + BARRIERS, 0, 0};
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < SLOTS; ++slot) {
            make_barrier(ring.barriers + 8 * slot, 1);
            make_barrier(ring.empty(slot), 4 * GROUPS);
        }
        barriers_made();
    }
    block_barrier();
    const int group = threadIdx.x / 128;
    if (group == GROUPS) {
        fewer_registers();
        if (threadIdx.x % 128 == 0) copy_weights(ring, weights + (long long)set * WEIGHTS, horizon);
    } else {
        more_registers();
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const u32 left = memory + group * STATE, place = left + (warp % 4) * 256 + lane * 4;
        Warpgroup worker{ring, place, place + DETER / 8 * STEP, left, warp, lane, rows + (long long)set * ROWS,
                         first + (long long)decision * (HIDDEN + 3 * DETER)};
        for (int j = 0; j < DETER / 8; ++j) {  // all candidates begin at one state
            const u32 state = read(deter + (long long)decision * (DETER / 2) + 4 * j + lane % 4);
            store(place + j * STEP, state), store(place + j * STEP + 128, state);
        }
        states_written(warp);
        const long long row = (long long)blockIdx.x * (UNIT * GROUPS) + group * UNIT;
        const Two value = worker.imagine(actions + row * horizon * size, size, horizon);
        if (lane % 4 == 0) {
            float* out = values + row + 16 * (warp % 4) + lane / 4;
            out[0] = value.x, out[8] = value.y;
        }
    }
}
"""
