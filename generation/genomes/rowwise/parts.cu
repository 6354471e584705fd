%% section bf16
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
__device__ __forceinline__ float wide(bf16 v) { return __bfloat162float(v); }
__device__ __forceinline__ bf16 narrow(float v) { return __float2bfloat16_rn(v); }
%% section packs
%% set loads = {"plain": "*(p)", "ldg": "__ldg(p)", "ldcs": "__ldcs(p)", "ldcg": "__ldcg(p)"}
%% set stores = {"plain": "*(p) = (v)", "stcs": "__stcs(p, v)", "stcg": "__stcg(p, v)", "stwt": "__stwt(p, v)"}
template <int BYTES> struct Word;
template <> struct Word<16> { typedef int4 type; };
template <> struct Word<8> { typedef int2 type; };
template <> struct Word<4> { typedef int type; };
template <> struct Word<2> { typedef short type; };
template <> struct Word<1> { typedef char type; };

template <typename T, int V> struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) Pack { T d[V]; };

#define LOAD(p) (${loads[load]})
#define STORE(p, v) ${stores[store]}

template <typename T, int V> __device__ __forceinline__ Pack<T, V> load_pack(const T* source) {
    constexpr int BYTES = sizeof(T) * V > 16 ? 16 : sizeof(T) * V;
    typedef typename Word<BYTES>::type W;
    Pack<T, V> pack;
    const W* words = reinterpret_cast<const W*>(source);
#pragma unroll
    for (int k = 0; k < int(sizeof(T) * V) / BYTES; ++k) reinterpret_cast<W*>(&pack)[k] = LOAD(words + k);
    return pack;
}

template <typename T, int V> __device__ __forceinline__ void store_pack(T* target, const Pack<T, V>& pack) {
    constexpr int BYTES = sizeof(T) * V > 16 ? 16 : sizeof(T) * V;
    typedef typename Word<BYTES>::type W;
    W* words = reinterpret_cast<W*>(target);
#pragma unroll
    for (int k = 0; k < int(sizeof(T) * V) / BYTES; ++k) STORE(words + k, reinterpret_cast<const W*>(&pack)[k]);
}
%% section reductions
struct Two { float a, b; };
__device__ __forceinline__ float shuffle(float v, int k) { return __shfl_xor_sync(0xffffffffu, v, k); }
__device__ __forceinline__ Two shuffle(Two v, int k) { return Two{shuffle(v.a, k), shuffle(v.b, k)}; }
struct Add {
    __device__ __forceinline__ float operator()(float x, float y) const { return x + y; }
    __device__ __forceinline__ Two operator()(Two x, Two y) const { return Two{x.a + y.a, x.b + y.b}; }
};
struct Max {
    __device__ __forceinline__ float operator()(float x, float y) const { return fmaxf(x, y); }
};
%% if reduce == "shuffle"
template <typename T, typename Op> __device__ __forceinline__ T warp_reduce(T v, Op op) {
#pragma unroll
    for (int k = 16; k > 0; k >>= 1) v = op(v, shuffle(v, k));
    return v;
}

template <typename T, typename Op> __device__ __forceinline__ T block_reduce(T v, Op op, T none) {
    __shared__ T parts[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    v = warp_reduce(v, op);
    __syncthreads();
    if (lane == 0) parts[warp] = v;
    __syncthreads();
    v = lane < warps ? parts[lane] : none;
    return warp_reduce(v, op);
}
%% elif reduce == "tree"
template <typename T, typename Op> __device__ __forceinline__ T warp_reduce(T v, Op op) {
#pragma unroll
    for (int k = 16; k > 0; k >>= 1) v = op(v, shuffle(v, k));
    return v;
}

template <typename T, typename Op> __device__ __forceinline__ T block_reduce(T v, Op op, T none) {
    __shared__ T parts[1024];
    __syncthreads();
    parts[threadIdx.x] = v;
    __syncthreads();
    for (int k = blockDim.x >> 1; k > 0; k >>= 1) {
        if (threadIdx.x < k) parts[threadIdx.x] = op(parts[threadIdx.x], parts[threadIdx.x + k]);
        __syncthreads();
    }
    return parts[0];
}
%% else
template <typename T, typename Op> __device__ __forceinline__ T warp_reduce(T v, Op op) {
#pragma unroll
    for (int k = 16; k > 0; k >>= 1) v = op(v, shuffle(v, k));
    return v;
}

template <typename T, typename Op> __device__ __forceinline__ T block_reduce(T v, Op op, T none) {
    __shared__ T parts[32];
    __shared__ T whole;
    v = warp_reduce(v, op);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        T total = parts[0];
        for (int k = 1; k < (blockDim.x >> 5); ++k) total = op(total, parts[k]);
        whole = total;
    }
    __syncthreads();
    return whole;
}
%% endif
