<%% include "rowwise/parts/templates/packs.cu" %%>
<%% include "rowwise/scan/templates/block_scan.cu" %%>
template <int V>
__device__ __forceinline__ void fetch(${parameters}, int base, int j, int cols, float (&v)[V]) {
    const int at = base + ${"cols - V - j" if reverse else "j"};
    const Pack<float, V> a = load_pack<float, V>(x + at);
%% if masked
    const Pack<unsigned char, V> keep = load_pack<unsigned char, V>(mask + at);
%% endif
#pragma unroll
%% if masked
    for (int e = 0; e < V; ++e) v[e] = keep.d[e] ? a.d[e] : 0.0f;
%% else
    for (int e = 0; e < V; ++e) v[e] = a.d[${"V - 1 - e" if reverse else "e"}];
%% endif
}

template <int V>
__device__ __forceinline__ void emit(float* __restrict__ y, int base, int j, int cols, const float (&v)[V]) {
    Pack<float, V> a;
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[${"V - 1 - e" if reverse else "e"}] = v[e];
    store_pack<float, V>(y + base + ${"cols - V - j" if reverse else "j"}, a);
}
%% macro own(lane, tab)
${tab}float v[${items}][V];
${tab}float total = ${neutral};
#pragma unroll
${tab}for (int k = 0; k < ${items}; ++k) {
${tab}    const int j = start + (${lane} * ${items} + k) * V;
#pragma unroll
${tab}    for (int e = 0; e < V; ++e) v[k][e] = ${neutral};
${tab}    if (j < end) fetch<V>(${names}, base, j, cols, v[k]);
#pragma unroll
${tab}    for (int e = 0; e < V; ++e) v[k][e] = total = join(total, v[k][e]);
${tab}}
%% endmacro
%% macro give(lane, tab)
#pragma unroll
${tab}for (int k = 0; k < ${items}; ++k) {
${tab}    const int j = start + (${lane} * ${items} + k) * V;
#pragma unroll
${tab}    for (int e = 0; e < V; ++e) v[k][e] = join(before, v[k][e]);
${tab}    if (j < end) emit<V>(y, base, j, cols, v[k]);
${tab}}
%% endmacro
%% if plan == "warp"

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(${parameters}, float* __restrict__ y, int rows, int cols) {
    const int lane = threadIdx.x & 31, row = blockIdx.x * ${threads // 32} + (threadIdx.x >> 5);
    if (row >= rows) return;
    const int base = row * cols, end = cols;
    float carry = ${neutral};
    for (int start = 0; start < end; start += 32 * ${items} * V) {
${own("lane", "        ")}
        const float inclusive = warp_scan(total);
        const float left = __shfl_up_sync(0xffffffffu, inclusive, 1);
        const float before = lane == 0 ? carry : join(carry, left);
${give("lane", "        ")}
        carry = join(carry, __shfl_sync(0xffffffffu, inclusive, 31));
    }
}
%% elif plan == "staged"

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(${parameters}, float* __restrict__ y, int rows, int cols) {
    __shared__ float stage[${threads} * ${items} * V];
    const int row = blockIdx.x, base = row * cols;
    float carry = ${neutral};
    for (int start = 0; start < cols; start += ${threads} * ${items} * V) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ${items}; ++k) {
            const int at = (k * ${threads} + threadIdx.x) * V;
            float v[V];
#pragma unroll
            for (int e = 0; e < V; ++e) v[e] = ${neutral};
            if (start + at < cols) fetch<V>(${names}, base, start + at, cols, v);
#pragma unroll
            for (int e = 0; e < V; ++e) stage[at + e] = v[e];
        }
        __syncthreads();
        float* mine = stage + threadIdx.x * (${items} * V);
        float total = ${neutral};
#pragma unroll
        for (int e = 0; e < ${items} * V; ++e) mine[e] = total = join(total, mine[e]);
        float whole;
        const float before = join(carry, block_scan(total, whole));
#pragma unroll
        for (int e = 0; e < ${items} * V; ++e) mine[e] = join(before, mine[e]);
        carry = join(carry, whole);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ${items}; ++k) {
            const int at = (k * ${threads} + threadIdx.x) * V;
            float v[V];
#pragma unroll
            for (int e = 0; e < V; ++e) v[e] = stage[at + e];
            if (start + at < cols) emit<V>(y, base, start + at, cols, v);
        }
    }
}
%% else
%% if plan == "two"

template <int V>
__global__ void __launch_bounds__(${threads}) totals(
    ${parameters}, float* __restrict__ found, int rows, int cols, int share) {
    const int row = blockIdx.x, base = row * cols;
    const int begin = blockIdx.y * share, end = min(begin + share, cols);
    float total = ${neutral};
    float whole = ${neutral};
    for (int j = begin + threadIdx.x * V; j < end; j += ${threads} * V) {
        float v[V];
        fetch<V>(${names}, base, j, cols, v);
#pragma unroll
        for (int e = 0; e < V; ++e) total = join(total, v[e]);
    }
    block_scan(total, whole);
    if (threadIdx.x == 0) found[row * gridDim.y + blockIdx.y] = whole;
}
%% endif

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(
    ${parameters}, float* __restrict__ y, const float* __restrict__ found, int rows, int cols, int share) {
%% if schedule == "persistent"
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
%% else
    const int row = blockIdx.x;
    {
%% endif
        const int base = row * cols, begin = blockIdx.y * share, end = min(begin + share, cols);
        float carry = ${neutral};
%% if plan == "two"
        for (int k = 0; k < blockIdx.y; ++k) carry = join(carry, found[row * gridDim.y + k]);
%% endif
        for (int start = begin; start < end; start += ${threads} * ${items} * V) {
${own("threadIdx.x", "            ")}
            float whole;
            const float before = join(carry, block_scan(total, whole));
${give("threadIdx.x", "            ")}
            carry = join(carry, whole);
        }
    }
}
%% endif
