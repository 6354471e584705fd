%% if kind == "bf16"
<%% include "rowwise/parts/templates/bf16.cu" %%>
%% endif
<%% include "rowwise/parts/templates/packs.cu" %%>
%% if activation
__device__ __forceinline__ float activation(float v) {
${activation}
}
%% endif

template <int V>
__device__ __forceinline__ void step(${parameters}, ${kind}* __restrict__ y, int i, int width, int heads, int length) {
<%% include "rowwise/elementwise/templates/step.cu" %%>
}

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(
    ${parameters}, ${kind}* __restrict__ y, int n, int width, int heads, int length) {
%% if walk == "single"
    const int i = (blockIdx.x * ${threads} + threadIdx.x) * V;
    if (i < n) step<V>(${names}, y, i, width, heads, length);
%% elif walk == "unrolled"
    const int base = blockIdx.x * (${threads} * ${unroll}) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
        if (i < n) step<V>(${names}, y, i, width, heads, length);
    }
%% elif walk == "strided"
    const int pace = gridDim.x * ${threads} * V;
#pragma unroll ${unroll}
    for (int i = (blockIdx.x * ${threads} + threadIdx.x) * V; i < n; i += pace)
        step<V>(${names}, y, i, width, heads, length);
%% elif walk == "coarse"
    const int base = (blockIdx.x * ${threads} + threadIdx.x) * ${unroll};
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k) * V;
        if (i < n) step<V>(${names}, y, i, width, heads, length);
    }
%% elif walk == "rows"
    const int begin = blockIdx.x * width;
    for (int c = threadIdx.x * V; c < width; c += ${threads} * V)
        step<V>(${names}, y, begin + c, width, heads, length);
%% elif walk == "batched"
    const int base = blockIdx.x * (${threads} * ${unroll}) + threadIdx.x;
    Pack<float, V> held[${unroll}];
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
        if (i < n) held[k] = load_pack<float, V>(x + i);
    }
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
#pragma unroll
        for (int e = 0; e < V; ++e) held[k].d[e] = activation(held[k].d[e]);
        if (i < n) store_pack<float, V>(y + i, held[k]);
    }
%% else
    __shared__ __align__(16) float staged[${unroll} * ${threads} * V];
    const int base = blockIdx.x * (${threads} * ${unroll}) + threadIdx.x;
    constexpr int WORD = V * 4 > 16 ? 16 : V * 4;
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
        float* place = staged + (k * ${threads} + threadIdx.x) * V;
        if (i < n) {
#pragma unroll
            for (int b = 0; b < V * 4; b += WORD) {
                const unsigned int address = (unsigned int)__cvta_generic_to_shared(place + b / 4);
                asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(x + i + b / 4), "n"(WORD));
            }
        }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
        const float* place = staged + (k * ${threads} + threadIdx.x) * V;
        Pack<float, V> a;
#pragma unroll
        for (int e = 0; e < V; ++e) a.d[e] = activation(place[e]);
        if (i < n) store_pack<float, V>(y + i, a);
    }
%% endif
}
