<%% include "rowwise/parts/templates/packs.cu" %%>
<%% include "rowwise/scan/templates/block_scan.cu" %%>
%% macro own()
    int v[${items}][V];
    int total = 0;
#pragma unroll
    for (int k = 0; k < ${items}; ++k) {
        const int i = start + (threadIdx.x * ${items} + k) * V;
#pragma unroll
        for (int e = 0; e < V; ++e) v[k][e] = 0;
        if (i < n) {
            const Pack<int, V> a = load_pack<int, V>(x + i);
#pragma unroll
            for (int e = 0; e < V; ++e) v[k][e] = a.d[e];
        }
#pragma unroll
        for (int e = 0; e < V; ++e) v[k][e] = total += v[k][e];
    }
%% endmacro
%% macro give()
#pragma unroll
    for (int k = 0; k < ${items}; ++k) {
        const int i = start + (threadIdx.x * ${items} + k) * V;
        Pack<int, V> a;
#pragma unroll
        for (int e = 0; e < V; ++e) a.d[e] = v[k][e] + before;
        if (i < n) store_pack<int, V>(y + i, a);
    }
%% endmacro
%% if method == "lookback"

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(
    const int* __restrict__ x, int* __restrict__ y, unsigned long long* states, unsigned int* ticket, int n) {
    __shared__ int tile_shared, prefix_shared;
    if (threadIdx.x == 0) tile_shared = atomicAdd(ticket, 1u);
    __syncthreads();
    const int tile = tile_shared;
    const int start = tile * (${threads} * ${items} * V);
${own()}
    int whole;
    int before = block_scan(total, whole);
    volatile unsigned long long* seen = states;
    const unsigned long long published = (unsigned int)whole;
    if (threadIdx.x == 0) seen[tile] = ((tile == 0 ? 2ull : 1ull) << 32) | published;
%% if look == "serial"
    if (threadIdx.x == 0) {
        int prefix = 0;
        for (int k = tile - 1; k >= 0; --k) {
            unsigned long long word = seen[k];
            while ((word >> 32) == 0) word = seen[k];
            prefix += (int)(unsigned int)word;
            if ((word >> 32) == 2) break;
        }
        if (tile > 0) seen[tile] = (2ull << 32) | (unsigned int)(prefix + whole);
        prefix_shared = prefix;
    }
%% else
    if (threadIdx.x < 32) {
        int prefix = 0;
        for (int top = tile - 1; top >= 0; top -= 32) {
            const int k = top - (int)threadIdx.x;
            unsigned long long word = 2ull << 32;
            if (k >= 0) {
                word = seen[k];
                while ((word >> 32) == 0) word = seen[k];
            }
            const unsigned int complete = __ballot_sync(0xffffffffu, (word >> 32) == 2);
            const int last = complete ? __ffs(complete) - 1 : 31;
            int add = (int)threadIdx.x <= last ? (int)(unsigned int)word : 0;
#pragma unroll
            for (int d = 16; d > 0; d >>= 1) add += __shfl_xor_sync(0xffffffffu, add, d);
            prefix += add;
            if (complete) break;
        }
        if (threadIdx.x == 0) {
            if (tile > 0) seen[tile] = (2ull << 32) | (unsigned int)(prefix + whole);
            prefix_shared = prefix;
        }
    }
%% endif
    __syncthreads();
    before += prefix_shared;
${give()}
}
%% else

template <int V>
__global__ void __launch_bounds__(${threads}) first(
    const int* __restrict__ x, int* __restrict__ y, int* __restrict__ sums, int n) {
    const int start = blockIdx.x * (${threads} * ${items} * V);
%% if method == "scan_add"
${own()}
    int whole;
    const int before = block_scan(total, whole);
${give()}
%% else
    int total = 0, whole;
#pragma unroll
    for (int k = 0; k < ${items}; ++k) {
        const int i = start + (k * ${threads} + threadIdx.x) * V;
        if (i < n) {
            const Pack<int, V> a = load_pack<int, V>(x + i);
#pragma unroll
            for (int e = 0; e < V; ++e) total += a.d[e];
        }
    }
    block_scan(total, whole);
%% endif
    if (threadIdx.x == 0) sums[blockIdx.x] = whole;
}

extern "C" __global__ void __launch_bounds__(${threads}) second(int* __restrict__ sums, int count) {
    int carry = 0;
    for (int start = 0; start < count; start += ${threads}) {
        const int k = start + threadIdx.x;
        int whole;
        const int before = block_scan(k < count ? sums[k] : 0, whole);
        if (k < count) sums[k] = carry + before;
        carry += whole;
    }
}

template <int V>
__global__ void __launch_bounds__(${threads}) third(
    const int* __restrict__ x, int* __restrict__ y, const int* __restrict__ sums, int n) {
    const int start = blockIdx.x * (${threads} * ${items} * V);
%% if method == "scan_add"
    const int before = sums[blockIdx.x];
#pragma unroll
    for (int k = 0; k < ${items}; ++k) {
        const int i = start + (k * ${threads} + threadIdx.x) * V;
        if (i < n) {
            Pack<int, V> a = *reinterpret_cast<const Pack<int, V>*>(y + i);
#pragma unroll
            for (int e = 0; e < V; ++e) a.d[e] += before;
            store_pack<int, V>(y + i, a);
        }
    }
%% else
${own()}
    int whole;
    const int before = sums[blockIdx.x] + block_scan(total, whole);
${give()}
%% endif
}
%% endif
