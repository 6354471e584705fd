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
