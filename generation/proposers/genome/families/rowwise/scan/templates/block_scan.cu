typedef ${kind} value_t;
__device__ __forceinline__ value_t join(value_t a, value_t b) { return a ${"*" if product else "+"} b; }

__device__ __forceinline__ value_t warp_scan(value_t v) {
#pragma unroll
    for (int k = 1; k < 32; k <<= 1) {
        const value_t other = __shfl_up_sync(0xffffffffu, v, k);
        if ((threadIdx.x & 31) >= k) v = join(other, v);
    }
    return v;
}

// What comes before this thread's total, and the whole block's.
__device__ __forceinline__ value_t block_scan(value_t total, value_t& whole) {
%% if style == "shuffle"
    __shared__ value_t parts[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const value_t inclusive = warp_scan(total);
    __syncthreads();
    if (lane == 31) parts[warp] = inclusive;
    __syncthreads();
    value_t before = ${neutral};
    whole = ${neutral};
    for (int k = 0; k < ${threads // 32}; ++k) {
        if (k == warp) before = whole;
        whole = join(whole, parts[k]);
    }
    const value_t left = __shfl_up_sync(0xffffffffu, inclusive, 1);
    return lane == 0 ? before : join(before, left);
%% else
    __shared__ value_t parts[2][${threads}];
    int from = 0;
    __syncthreads();
    parts[0][threadIdx.x] = total;
    __syncthreads();
    for (int k = 1; k < ${threads}; k <<= 1) {
        value_t v = parts[from][threadIdx.x];
        if (threadIdx.x >= k) v = join(parts[from][threadIdx.x - k], v);
        parts[1 - from][threadIdx.x] = v;
        from = 1 - from;
        __syncthreads();
    }
    whole = parts[from][${threads - 1}];
    return threadIdx.x == 0 ? ${neutral} : parts[from][threadIdx.x - 1];
%% endif
}
