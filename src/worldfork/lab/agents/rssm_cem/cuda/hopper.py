"""The instructions of Hopper GPUs that the imagination kernel is made of, in CUDA C++."""

INSTRUCTIONS = r"""
// The instructions of Hopper GPUs that the kernel is made of.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int UNIT = 64;  // rows of a warpgroup, and inputs of a tile of weights

struct Two {
    float x, y;
};

__device__ __forceinline__ u32 shared_memory() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return static_cast<u32>(__cvta_generic_to_shared(bytes));
}
__device__ __forceinline__ u32 load(u32 place) {
    u32 x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(place));
    return x;
}
__device__ __forceinline__ void store(u32 place, u32 x) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(place), "r"(x) : "memory");
}
__device__ __forceinline__ Two read(const float* from) {
    Two x;
    asm("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "l"(from));
    return x;
}
__device__ __forceinline__ u32 read(const u32* from) {
    u32 x;
    asm("ld.global.nc.b32 %0, [%1];" : "=r"(x) : "l"(from));
    return x;
}

// Barriers: counted arrivals and bytes in shared memory; a warpgroup's; the block's.
__device__ __forceinline__ void make_barrier(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barriers_made() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void wait(u32 barrier, u32 phase) {
    u32 done = 0;
    while (!done) {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
    }
}
__device__ __forceinline__ void copy_tile(u32 to, const char* from, u32 bytes, u32 barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                 "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
__device__ __forceinline__ void block_barrier() { __syncthreads(); }
__device__ __forceinline__ void warpgroup_barrier(int warp) {
    asm volatile("bar.sync %0, 128;" ::"r"(1 + warp / 4) : "memory");
}
__device__ __forceinline__ void states_written(int warp) {  // and may be read by the matrix units
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    warpgroup_barrier(warp);
}
__device__ __forceinline__ void more_registers() {
#if GROUPS > 1
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
#endif
}
__device__ __forceinline__ void fewer_registers() {
#if GROUPS > 1
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#endif
}

// Arithmetic.
__device__ __forceinline__ float from_neighbour(float x, int distance) {
    return __shfl_xor_sync(0xffffffffu, x, distance);
}
__device__ __forceinline__ float larger(float x, float y) { return fmaxf(x, y); }
__device__ __forceinline__ float power_of_two(float x) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}
__device__ __forceinline__ float inverse(float x) {
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}
__device__ __forceinline__ float inverse_root(float x) {
    asm("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

// Two numbers at once.
__device__ __forceinline__ Two times(Two x, Two y) { return {x.x * y.x, x.y * y.y}; }
__device__ __forceinline__ Two plus(Two x, Two y) { return {x.x + y.x, x.y + y.y}; }
__device__ __forceinline__ Two fused(Two x, Two y, Two z) { return {fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y)}; }
__device__ __forceinline__ Two tanh_of(Two x) {  // as exact as operands of 16 bits are
    asm("tanh.approx.f32 %0, %0;" : "+f"(x.x));
    asm("tanh.approx.f32 %0, %0;" : "+f"(x.y));
    return x;
}

// Two numbers of 16 bits in a word.
__device__ __forceinline__ u32 pack(float x, float y) {
    u32 z;
    asm("cvt.rn." OPERAND "x2.f32 %0, %1, %2;" : "=r"(z) : "f"(y), "f"(x));
    return z;
}
__device__ __forceinline__ u32 pack(Two x) { return pack(x.x, x.y); }
__device__ __forceinline__ Two unpack(u32 x) {
    Two y;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2;"
        " cvt.f32." OPERAND " %0, low; cvt.f32." OPERAND " %1, high; }" : "=f"(y.x), "=f"(y.y) : "r"(x));
    return y;
}

// Products of warpgroups. An operand is described by its address and the distances, all in 16 bytes, between its
// pieces of 8 x 8 along the inputs (from bit 16 on) and along the other axis (from bit 32 on).
__device__ __forceinline__ u64 left_operand(u32 place) {
    return (place & 0x3ffff) >> 4 | u64(UNIT) << 16 | u64(8) << 32;
}
template <int N>
__device__ __forceinline__ u64 right_operand(u32 place) {
    return (place & 0x3ffff) >> 4 | u64(N) << 16 | u64(8) << 32;
}
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
template <int COUNT>
__device__ __forceinline__ void keep_in_place(float (&x)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
"""
