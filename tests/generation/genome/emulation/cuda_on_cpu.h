// Enough of CUDA C++ to run small kernels on a CPU, one block at a time: threads are fibers that switch at barriers.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static
#define __restrict__
#define __CUDA_ARCH__ 900

using std::max;
using std::min;
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct uint3 { unsigned x, y, z; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float __uint_as_float(unsigned v) { float f; memcpy(&f, &v, 4); return f; }
inline unsigned __float_as_uint(float v) { unsigned u; memcpy(&u, &v, 4); return u; }

// Reduced-precision numbers.
inline float half_bits_to_float(uint16_t h) {
    int sign = h >> 15, exponent = h >> 10 & 31, fraction = h & 1023;
    float v = exponent == 31 ? (fraction ? NAN : INFINITY)
              : exponent ? std::ldexp(1024.0f + fraction, exponent - 25) : std::ldexp((float)fraction, -24);
    return sign ? -v : v;
}
inline uint16_t float_to_half_bits(float f) {
    uint16_t sign = std::signbit(f) ? 0x8000 : 0;
    f = std::fabs(f);
    if (std::isnan(f)) return sign | 0x7e00;
    if (f >= 65520.0f) return sign | 0x7c00;
    if (f == 0) return sign;
    int exponent = std::max(std::ilogb(f), -14);
    long scaled = std::lrint(std::ldexp(f, 10 - exponent));  // nearest even
    if (scaled >= 2048) { scaled >>= 1; ++exponent; }
    return sign | (scaled < 1024 ? scaled : ((exponent + 15) << 10) | (scaled - 1024));
}
inline float bfloat_bits_to_float(uint16_t b) { return __uint_as_float((unsigned)b << 16); }
inline uint16_t float_to_bfloat_bits(float f) {
    unsigned u = __float_as_uint(f);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline float fp8_bits_to_float(uint8_t b) {
    int exponent = b >> 3 & 15, fraction = b & 7;
    float v = exponent ? std::ldexp(8.0f + fraction, exponent - 10) : std::ldexp((float)fraction, -9);
    return b & 128 ? -v : v;
}
struct __half { uint16_t bits; };
struct __nv_bfloat16 { uint16_t bits; };
struct __half2 { __half x, y; };
struct __nv_bfloat162 { __nv_bfloat16 x, y; };
inline float __half2float(__half h) { return half_bits_to_float(h.bits); }
inline __half __float2half(float f) { return {float_to_half_bits(f)}; }
inline float __bfloat162float(__nv_bfloat16 b) { return bfloat_bits_to_float(b.bits); }
inline __nv_bfloat16 __float2bfloat16(float f) { return {float_to_bfloat_bits(f)}; }
inline __half2 __floats2half2_rn(float a, float b) { return {__float2half(a), __float2half(b)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {__float2bfloat16(a), __float2bfloat16(b)}; }
inline float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }
inline __half2 __half2half2(__half h) { return {h, h}; }
inline __half2 __hsub2(__half2 a, __half2 b) {
    return __floats2half2_rn(__half2float(a.x) - __half2float(b.x), __half2float(a.y) - __half2float(b.y));
}
inline __half2 __hmul2(__half2 a, __half2 b) {
    return __floats2half2_rn(__half2float(a.x) * __half2float(b.x), __half2float(a.y) * __half2float(b.y));
}
inline unsigned to_tf32(float v) { return (__float_as_uint(v) + 0x1000) & ~0x1fffu; }
inline float rsqrtf(float v) { return 1.0f / std::sqrt(v); }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += (int)(int8_t)(a >> 8 * i) * (int)(int8_t)(b >> 8 * i);
    return c;
}
template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> void __stcs(T* p, T v) { *p = v; }
template <class T> void __stcg(T* p, T v) { *p = v; }
template <class T> void __stwt(T* p, T v) { *p = v; }
template <class T> T atomicAdd(T* p, T v) { T old = *p; *p += v; return old; }
inline void __threadfence() {}

// Threads, blocks and barriers.
inline uint3 threadIdx, blockIdx, blockDim, gridDim;
inline unsigned char* dynamic_shared;
struct Slot { unsigned a[4], b[2]; const void* address; float number; };
struct Group { std::vector<std::function<void()>> copies; };
struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    uint3 index;
    bool done = false;
    std::deque<Group> groups;
    Group open;
};
struct Barrier { int count = 0, generation = 0; };
inline std::vector<Fiber> fibers;
inline std::vector<Slot> slots;
inline std::vector<Barrier> warp_barriers;
inline Barrier block_barrier;
inline int current, progress;
inline ucontext_t scheduler;
inline std::function<void()> body;

inline void yield() { swapcontext(&fibers[current].context, &scheduler); }
inline void await(Barrier& barrier, int expected) {
    int generation = barrier.generation;
    ++progress;
    if (++barrier.count == expected) { barrier.count = 0; ++barrier.generation; }
    else while (barrier.generation == generation) yield();
}
inline int alive(int from, int to) {
    int n = 0;
    for (int i = from; i < to; ++i) n += !fibers[i].done;
    return n;
}
inline void __syncthreads() { await(block_barrier, alive(0, (int)fibers.size())); }
inline void warp_barrier() {
    int warp = current / 32, last = std::min((warp + 1) * 32, (int)fibers.size());
    await(warp_barriers[warp], alive(warp * 32, last));
}
inline void __syncwarp(unsigned = 0xffffffffu) { warp_barrier(); }
inline Slot& slot(int lane) { return slots[current / 32 * 32 + lane]; }

inline float __shfl_xor_sync(unsigned, float v, int lanes) {
    slot(current % 32).number = v;
    warp_barrier();
    float got = slot(current % 32 ^ lanes).number;
    warp_barrier();
    return got;
}
inline float __shfl_down_sync(unsigned, float v, int lanes) {
    slot(current % 32).number = v;
    warp_barrier();
    int from = current % 32 + lanes;
    float got = slot(from < 32 ? from : current % 32).number;
    warp_barrier();
    return got;
}
inline float __shfl_sync(unsigned, float v, int lane) {
    slot(current % 32).number = v;
    warp_barrier();
    float got = slot(lane).number;
    warp_barrier();
    return got;
}

// Asynchronous copies happen when they are waited for, as late as the hardware may do them.
template <int BYTES> void copy_later(void* to, const void* from, bool inside) {
    if ((uintptr_t)to % BYTES || (inside && (uintptr_t)from % BYTES)) { fprintf(stderr, "misaligned copy\n"); abort(); }
    fibers[current].open.copies.push_back([=] {
        if (inside) memcpy(to, from, BYTES); else memset(to, 0, BYTES);
    });
}
inline void copy_commit() {
    fibers[current].groups.push_back(std::move(fibers[current].open));
    fibers[current].open = {};
}
template <int N> void copy_wait() {
    auto& groups = fibers[current].groups;
    while ((int)groups.size() > N) {
        for (auto& copy : groups.front().copies) copy();
        groups.pop_front();
    }
}

// Warp-wide matrix instructions, in the register layouts of the PTX manual.
inline void load_matrices(unsigned* r, const void* from, int count, bool transposed) {
    slot(current % 32).address = from;
    warp_barrier();
    int lane = current % 32;
    for (int q = 0; q < count; ++q) {
        uint16_t pair[2];
        for (int e = 0; e < 2; ++e) {
            int row = lane / 4, column = lane % 4 * 2 + e;
            if (transposed) std::swap(row, column);
            auto address = (const uint16_t*)slot(q * 8 + row).address;
            if ((uintptr_t)address % 16) { fprintf(stderr, "misaligned matrix row\n"); abort(); }
            pair[e] = address[column];
        }
        r[q] = pair[0] | (unsigned)pair[1] << 16;
    }
    warp_barrier();
}
inline void load_matrix_x4(unsigned* r, const void* p) { load_matrices(r, p, 4, false); }
inline void load_matrix_x4_transposed(unsigned* r, const void* p) { load_matrices(r, p, 4, true); }
inline void load_matrix_x2(unsigned* r, const void* p) { load_matrices(r, p, 2, false); }
inline void load_matrix_x2_transposed(unsigned* r, const void* p) { load_matrices(r, p, 2, true); }

template <class D, class Element>
void multiply_warp(D* d, const unsigned* a, const unsigned* b, int per_word, Element element) {
    memcpy(slot(current % 32).a, a, 16);
    memcpy(slot(current % 32).b, b, 8);
    warp_barrier();
    int lane = current % 32, g = lane / 4, t = lane % 4;
    for (int e = 0; e < 4; ++e) {
        int row = g + (e >= 2 ? 8 : 0), column = 2 * t + e % 2;
        D sum = d[e];
        for (int k = 0; k < 8 * per_word; ++k) {
            int half = k / (4 * per_word), inside = k % (4 * per_word), word = inside / per_word;
            unsigned wa = slot(row % 8 * 4 + word).a[(row >= 8) + 2 * half];
            unsigned wb = slot(column * 4 + word).b[half];
            sum += element(wa, inside % per_word) * element(wb, inside % per_word);
        }
        d[e] = sum;
    }
    warp_barrier();
}
inline void multiply_bfloat16(float* d, const unsigned* a, const unsigned* b) {
    multiply_warp(d, a, b, 2, [](unsigned w, int i) { return bfloat_bits_to_float(w >> 16 * i); });
}
inline void multiply_float16(float* d, const unsigned* a, const unsigned* b) {
    multiply_warp(d, a, b, 2, [](unsigned w, int i) { return half_bits_to_float(w >> 16 * i); });
}
inline void multiply_float32(float* d, const unsigned* a, const unsigned* b) {
    // The hardware reads nineteen bits of a tf32 operand.
    multiply_warp(d, a, b, 1, [](unsigned w, int) { return __uint_as_float(w & ~0x1fffu); });
}
inline void multiply_int8(int* d, const unsigned* a, const unsigned* b) {
    multiply_warp(d, a, b, 4, [](unsigned w, int i) { return (int)(int8_t)(w >> 8 * i); });
}
inline void multiply_fp8_native(float* d, const unsigned* a, const unsigned* b) {
    multiply_warp(d, a, b, 4, [](unsigned w, int i) { return fp8_bits_to_float(w >> 8 * i); });
}

// The portable warp-matrix interface: every lane holds the whole matrix, so no exchange is needed.
namespace nvcuda { namespace wmma {
struct matrix_a; struct matrix_b; struct accumulator; struct row_major; struct col_major;
namespace precision { struct tf32; }
enum layout_t { mem_row_major };
template <class T> struct Number { using type = float; };
inline float number(float v) { return v; }
inline float number(__half v) { return __half2float(v); }
inline float number(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    static constexpr int rows = std::is_same<Use, matrix_b>::value ? K : M;
    static constexpr int columns = std::is_same<Use, matrix_a>::value ? K : N;
    static constexpr int num_elements = rows * columns;
    float x[num_elements];
};
template <class F> void fill_fragment(F& f, float v) { std::fill(f.x, f.x + F::num_elements, v); }
template <class Use, int M, int N, int K, class T, class L, class S>
void load_matrix_sync(fragment<Use, M, N, K, T, L>& f, const S* p, int ld) {
    using F = fragment<Use, M, N, K, T, L>;
    if ((uintptr_t)p % 32 || ld * sizeof(S) % 16) { fprintf(stderr, "misaligned fragment\n"); abort(); }
    for (int r = 0; r < F::rows; ++r) for (int c = 0; c < F::columns; ++c)
        f.x[r * F::columns + c] = number(std::is_same<L, row_major>::value ? p[r * ld + c] : p[c * ld + r]);
}
template <int M, int N, int K, class T, class A, class B>
void mma_sync(fragment<accumulator, M, N, K, T>& d, const A& a, const B& b, const fragment<accumulator, M, N, K, T>& c) {
    for (int m = 0; m < M; ++m) for (int n = 0; n < N; ++n) {
        float sum = c.x[m * N + n];
        for (int k = 0; k < K; ++k) sum += a.x[m * K + k] * b.x[k * N + n];
        d.x[m * N + n] = sum;
    }
}
template <int M, int N, int K, class T>
void store_matrix_sync(float* p, const fragment<accumulator, M, N, K, T>& f, int ld, layout_t) {
    if ((uintptr_t)p % 32 || ld % 4) { fprintf(stderr, "misaligned fragment\n"); abort(); }
    for (int m = 0; m < M; ++m) for (int n = 0; n < N; ++n) p[m * ld + n] = f.x[m * N + n];
}
inline float __float_to_tf32(float v) { return __uint_as_float(to_tf32(v)); }
} }

inline void enter() {
    body();
    fibers[current].done = true;
    ++progress;
    swapcontext(&fibers[current].context, &scheduler);
}
inline void run_block(int threads) {
    constexpr size_t STACK = 1 << 18;
    fibers = std::vector<Fiber>(threads);
    slots = std::vector<Slot>((threads + 31) / 32 * 32);
    warp_barriers = std::vector<Barrier>((threads + 31) / 32);
    block_barrier = {};
    for (int i = 0; i < threads; ++i) {
        Fiber& fiber = fibers[i];
        fiber.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        fiber.stack.reset(new char[STACK]);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, enter, 0);
    }
    while (alive(0, threads)) {
        progress = 0;
        for (current = 0; current < threads; ++current) {
            if (fibers[current].done) continue;
            threadIdx = fibers[current].index;
            swapcontext(&scheduler, &fibers[current].context);
        }
        if (!progress) { fprintf(stderr, "threads wait at different barriers\n"); abort(); }
    }
}
inline void run_grid(const int* grid, const int* block, int shared_bytes) {
    gridDim = {(unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]};
    blockDim = {(unsigned)block[0], (unsigned)block[1], (unsigned)block[2]};
    for (int z = 0; z < grid[2]; ++z) for (int y = 0; y < grid[1]; ++y) for (int x = 0; x < grid[0]; ++x) {
        blockIdx = {(unsigned)x, (unsigned)y, (unsigned)z};
        // Shared memory starts as not-a-number, so that reading before writing shows.
        unsigned char* raw = new unsigned char[shared_bytes + 256];
        memset(raw, 0xff, shared_bytes + 256);
        dynamic_shared = raw + (128 - (uintptr_t)raw % 128) % 128;
        run_block(block[0] * block[1] * block[2]);
        delete[] raw;
    }
}
