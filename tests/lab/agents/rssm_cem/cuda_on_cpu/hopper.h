// What hopper.cu offers, on a CPU: every thread of a block is a coroutine, blocks run one after another.
//
// Waiting is yielding to the others. A product is computed when the last thread of its warpgroup asked for it, and
// its operands are looked up in shared memory as their descriptions say.

#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#define __device__
#define __global__
#define __launch_bounds__(...)
#define __forceinline__

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int UNIT = 64;

struct Two {
    float x, y;
};
struct Index {
    int x;
};

namespace block {
constexpr int MOST = 128 * (GROUPS + 1);
struct Barrier {
    int arrivals, missing, bytes, phase;
    void check() {
        if (missing == 0 && bytes == 0) missing = arrivals, phase ^= 1;
    }
};
struct Product {
    int width, asked;
    u64 left, right;
    bool registers;
    float* sums[128];
    u32 pieces[128][4];
};
struct Meeting {
    int arrived, generation;
};
struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    bool over;
    long products;
};

unsigned char memory[1 << 18];
std::map<u32, Barrier> barriers;
std::deque<Product> products[GROUPS];
long computed[GROUPS];
Meeting meetings[GROUPS + 2], exchanges[4 * GROUPS];
float exchanged[4 * GROUPS][2][32];
Thread threads[MOST];
ucontext_t scheduler;
int current;
long progress;

void yield() { swapcontext(&threads[current].context, &scheduler); }

void meet(Meeting& meeting, int count) {
    const int generation = meeting.generation;
    ++progress;
    if (++meeting.arrived == count) {
        meeting.arrived = 0, ++meeting.generation;
        return;
    }
    while (meeting.generation == generation) yield();
}

float number(unsigned short bits) {
#if FLOAT16
    _Float16 x;
    memcpy(&x, &bits, 2);
    return x;
#else
    const u32 wide = u32(bits) << 16;
    float x;
    memcpy(&x, &wide, 4);
    return x;
#endif
}
unsigned short rounded(float x) {
    unsigned short bits;
#if FLOAT16
    const _Float16 y = x;
    memcpy(&bits, &y, 2);
#else
    u32 wide;
    memcpy(&wide, &x, 4);
    bits = std::isnan(x) ? 0x7fff : (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
#endif
    return bits;
}
float table(unsigned short bits) {
    static std::vector<float> numbers;
    if (numbers.empty())
        for (int i = 0; i < 1 << 16; ++i) numbers.push_back(number(i));
    return numbers[bits];
}
float operand(u64 description, int other, int input) {
    const u64 place = 16 * (description & 0x3fff) + 16 * (description >> 16 & 0x3fff) * (input / 8) +
                      16 * (description >> 32 & 0x3fff) * (other / 8) + other % 8 * 16 + input % 8 * 2;
    unsigned short bits;
    if (place + 2 > sizeof memory) fprintf(stderr, "an operand lies beyond the shared memory\n"), abort();
    memcpy(&bits, memory + place, 2);
    return table(bits);
}

void compute(const Product& product) {
    static float left[64][16], right[16][256];
    for (int row = 0; row < 64; ++row)
        for (int k = 0; k < 16; ++k) {
            const int lane = row % 8 * 4 + k % 8 / 2, thread = row / 16 * 32 + lane;
            const u32 pieces = product.pieces[thread][row % 16 / 8 + 2 * (k / 8)];
            left[row][k] = product.registers ? table(k % 2 ? pieces >> 16 : pieces & 0xffff)
                                             : operand(product.left, row, k);
        }
    for (int column = 0; column < product.width; ++column)
        for (int k = 0; k < 16; ++k) right[k][column] = operand(product.right, column, k);
    for (int row = 0; row < 64; ++row) {
        float sums[256] = {};
        for (int k = 0; k < 16; ++k)
            for (int column = 0; column < product.width; ++column) sums[column] += left[row][k] * right[k][column];
        for (int column = 0; column < product.width; ++column) {
            const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
            product.sums[thread][column / 8 * 4 + row % 16 / 8 * 2 + column % 2] += sums[column];
        }
    }
}

__attribute__((noinline)) void ask(int width, float* sums, u64 left, u64 right, const u32* pieces) {
    const int group = current / 128, thread = current % 128;
    const long which = threads[current].products++ - computed[group];
    ++progress;
    if (which == long(products[group].size())) products[group].push_back({width, 0, left, right, pieces != nullptr});
    Product& product = products[group].at(which);
    if (product.width != width || product.right != right || product.left != left)
        fprintf(stderr, "the threads of a warpgroup ask for different products\n"), abort();
    product.sums[thread] = sums;
    if (pieces) memcpy(product.pieces[thread], pieces, 16);
    if (++product.asked == 128) {
        compute(product);
        products[group].pop_front();
        ++computed[group];
    }
}

__attribute__((noinline)) void finish() {
    while (computed[current / 128] < threads[current].products) yield();
}
}  // namespace block

static Index threadIdx, blockIdx;

u32 shared_memory() { return 0; }
u32 load(u32 place) {
    u32 x;
    memcpy(&x, block::memory + place, 4);
    return x;
}
void store(u32 place, u32 x) { memcpy(block::memory + place, &x, 4); }
Two read(const float* from) { return {from[0], from[1]}; }
u32 read(const u32* from) { return *from; }

void make_barrier(u32 barrier, u32 arrivals) { block::barriers[barrier] = {int(arrivals), int(arrivals), 0, 0}; }
void barriers_made() {}
void arrive(u32 barrier) {
    ++block::progress;
    --block::barriers.at(barrier).missing, block::barriers.at(barrier).check();
}
void wait(u32 barrier, u32 phase) {
    while (block::barriers.at(barrier).phase == int(phase)) block::yield();
}
void copy_tile(u32 to, const char* from, u32 bytes, u32 barrier) {
    memcpy(block::memory + to, from, bytes);
    arrive(barrier);
}
void block_barrier() { block::meet(block::meetings[GROUPS], block::MOST); }
void warpgroup_barrier(int warp) { block::meet(block::meetings[warp / 4], 128); }
void states_written(int warp) { warpgroup_barrier(warp); }
void more_registers() {}
void fewer_registers() {}

float from_neighbour(float x, int distance) {
    const int warp = block::current / 32, lane = block::current % 32;
    float* values = block::exchanged[warp][block::exchanges[warp].generation % 2];
    values[lane] = x;
    block::meet(block::exchanges[warp], 32);
    return values[lane ^ distance];
}
float larger(float x, float y) { return fmaxf(x, y); }
float power_of_two(float x) { return exp2f(x); }
float inverse(float x) { return 1 / x; }
float inverse_root(float x) { return 1 / sqrtf(x); }

u32 pack(float x, float y) { return block::rounded(x) | u32(block::rounded(y)) << 16; }
u32 pack(Two x) { return pack(x.x, x.y); }
Two unpack(u32 x) { return {block::table(x & 0xffff), block::table(x >> 16)}; }
Two times(Two x, Two y) { return {x.x * y.x, x.y * y.y}; }
Two plus(Two x, Two y) { return {x.x + y.x, x.y + y.y}; }
Two fused(Two x, Two y, Two z) { return {fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y)}; }
Two tanh_of(Two x) { return {tanhf(x.x), tanhf(x.y)}; }

u64 left_operand(u32 place) { return place >> 4 | u64(UNIT) << 16 | u64(8) << 32; }
template <int N>
u64 right_operand(u32 place) {
    return place >> 4 | u64(N) << 16 | u64(8) << 32;
}
void begin_products() {}
void commit() {}
template <int PENDING>
void wait_for_products() {
    block::finish();
}
template <int COUNT>
void keep_in_place(float (&)[COUNT]) {}
template <int COUNT>
void multiply(float (&sums)[COUNT], u64 left, u64 right) {
    block::ask(2 * COUNT, sums, left, right, nullptr);
}
template <int COUNT>
void multiply(float (&sums)[COUNT], u32 a, u32 b, u32 c, u32 d, u64 right) {
    const u32 pieces[4] = {a, b, c, d};
    block::ask(2 * COUNT, sums, 0, right, pieces);
}

typedef void (*Kernel)();
static Kernel kernel_of_threads;
static void run_thread() {
    kernel_of_threads();
    block::threads[block::current].over = true;
    ++block::progress;
    block::yield();
}
static void run_block(int which, Kernel kernel) {
    blockIdx.x = which, kernel_of_threads = kernel;
    block::barriers.clear();
    for (auto& thread : block::threads) {
        thread.stack.resize(1 << 17), thread.over = false, thread.products = 0;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        makecontext(&thread.context, run_thread, 0);
    }
    for (int group = 0; group < GROUPS; ++group) block::computed[group] = 0;
    for (bool left = true; left;) {
        const long before = block::progress;
        left = false;
        for (int index = 0; index < block::MOST; ++index) {
            if (block::threads[index].over) continue;
            block::current = threadIdx.x = index;
            swapcontext(&block::scheduler, &block::threads[index].context);
            left = true;
        }
        if (left && before == block::progress) fprintf(stderr, "all threads wait for one another\n"), abort();
    }
}
