// Activations, gated units and rotary embeddings in CUDA: one pass over memory, walked in several ways.
// let gated = problem in ("swiglu", "geglu")
// let rope = problem == "rope"
// let activation = "" if rope else {"swiglu": "swish", "geglu": "gelu_tanh"}[problem] if gated else problem
// let forms = {"relu": ("maximum", "select", "halves"), "sigmoid": ("precise", "fast", "reciprocal"),
//     "tanh": ("library", "fast", "ratio"), "swish": ("precise", "fast", "reciprocal"),
//     "gelu": ("erf", "normal", "polynomial"), "gelu_tanh": ("tanh", "logistic", "fast"),
//     "softplus": ("library", "fast", "stable"), "softsign": ("precise", "fast", "reciprocal"),
//     "elu": ("library", "fast", "clamped"), "": ("pairs", "singles")}[activation]
// let walks = ("single", "unrolled", "strided", "coarse", "rows", "batched", "staged")
// let kind = "bf16" if gated or rope else "float"
// let names = "gate, up" if problem == "geglu" else "x, cos, sin" if rope else "x"
// let parameters = {"x": f"const {kind}* __restrict__ x",
//     "gate, up": "const bf16* __restrict__ gate, const bf16* __restrict__ up",
//     "x, cos, sin": "const bf16* __restrict__ x, const float* __restrict__ cos, const float* __restrict__ sin"}[names]
// family elementwise_cuda for relu, sigmoid, tanh, swish, gelu, gelu_tanh, softplus, softsign, elu, swiglu, geglu, rope
// shape walk = walks[:4] if rope else walks[:5] if gated else walks
// shape form = forms
// shape vector = 1, 2, 4, 8
// shape load = "plain", "ldg", "ldcs", "ldcg"
// shape store = "plain", "stcs", "stcg", "stwt"
// pick threads = 64, 128, 256, 512, 1024
// pick unroll = 2, 4, 8
// pick per_sm = 1, 2, 4, 8, 16
// refuse walk == "staged" and threads * unroll * vector * 4 > 48 * 1024: more than 48 KiB of shared memory
// refuse walk == "batched" and unroll * vector > 32: more than 32 elements per thread
// refuse walk == "strided" and per_sm * threads > 2048: more threads than an SM holds
// let exported = instances(vector, "kernel")
// let pairs = form != "singles"
// let per_block = threads * (unroll if walk in ("unrolled", "coarse", "batched", "staged") else 1)

%% if kind == "bf16"
<%% include "rowwise/parts.cu#bf16" %%>
%% endif
<%% include "rowwise/parts.cu#packs" %%>
%% if activation
__device__ __forceinline__ float activation(float v) {
%% if activation == "relu"
%% if form == "maximum"
    return fmaxf(v, 0.0f);
%% elif form == "select"
    return v > 0.0f ? v : 0.0f;
%% else
    return 0.5f * (v + fabsf(v));
%% endif
%% elif activation == "sigmoid"
%% if form == "precise"
    return 1.0f / (1.0f + expf(-v));
%% elif form == "fast"
    return __fdividef(1.0f, 1.0f + __expf(-v));
%% else
    return __frcp_rn(1.0f + exp2f(v * -1.44269504f));
%% endif
%% elif activation == "tanh"
%% if form == "library"
    return tanhf(v);
%% elif form == "fast"
    return __fdividef(2.0f, 1.0f + __expf(-2.0f * v)) - 1.0f;
%% else
    float e = __expf(-2.0f * fabsf(v));
    return copysignf((1.0f - e) / (1.0f + e), v);
%% endif
%% elif activation == "swish"
%% if form == "precise"
    return v / (1.0f + expf(-v));
%% elif form == "fast"
    return __fdividef(v, 1.0f + __expf(-v));
%% else
    return v * __frcp_rn(1.0f + exp2f(v * -1.44269504f));
%% endif
%% elif activation == "gelu"
%% if form == "erf"
    return 0.5f * v * (1.0f + erff(v * 0.70710678f));
%% elif form == "normal"
    return v * normcdff(v);
%% else
    float z = fabsf(v) * 0.70710678f;
    float t = __fdividef(1.0f, 1.0f + 0.3275911f * z);
    float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    float e = 1.0f - p * __expf(-z * z);
    return 0.5f * v * (1.0f + copysignf(e, v));
%% endif
%% elif activation == "gelu_tanh"
%% if form == "tanh"
    float u = 0.79788456f * (v + 0.044715f * v * v * v);
    return 0.5f * v * (1.0f + tanhf(u));
%% elif form == "logistic"
    float u = 1.5957691216057308f * (v + 0.044715f * v * v * v);
    return v / (1.0f + expf(-u));
%% else
    float u = 1.5957691216057308f * (v + 0.044715f * v * v * v);
    return __fdividef(v, 1.0f + __expf(-u));
%% endif
%% elif activation == "softplus"
%% if form == "library"
    return v > 20.0f ? v : log1pf(expf(v));
%% elif form == "fast"
    return v > 20.0f ? v : __logf(1.0f + __expf(v));
%% else
    return fmaxf(v, 0.0f) + log1pf(__expf(-fabsf(v)));
%% endif
%% elif activation == "softsign"
%% if form == "precise"
    return v / (1.0f + fabsf(v));
%% elif form == "fast"
    return __fdividef(v, 1.0f + fabsf(v));
%% else
    return v * __frcp_rn(1.0f + fabsf(v));
%% endif
%% elif activation == "elu"
%% if form == "library"
    return v > 0.0f ? v : expm1f(v);
%% elif form == "fast"
    return v > 0.0f ? v : __expf(v) - 1.0f;
%% else
    return fmaxf(v, 0.0f) + __expf(fminf(v, 0.0f)) - 1.0f;
%% endif
%% endif
}
%% endif

template <int V>
__device__ __forceinline__ void step(${parameters}, ${kind}* __restrict__ y, int i, int width, int heads, int length) {
<%# Each step handles V work items from index i, which starts a pack; `width` is a multiple of V. %>
%% if problem == "rope" and pairs
    const int r = i / width, c = i - r * width;
    const int at = i + r * width;
    const int t = ((r / heads) % length) * width + c;
    Pack<bf16, V> a = load_pack<bf16, V>(x + at);
    Pack<bf16, V> b = load_pack<bf16, V>(x + at + width);
    const Pack<float, V> cosine = load_pack<float, V>(cos + t);
    const Pack<float, V> sine = load_pack<float, V>(sin + t);
#pragma unroll
    for (int e = 0; e < V; ++e) {
        const float first = wide(a.d[e]), second = wide(b.d[e]);
        a.d[e] = narrow(first * cosine.d[e] - second * sine.d[e]);
        b.d[e] = narrow(second * cosine.d[e] + first * sine.d[e]);
    }
    store_pack<bf16, V>(y + at, a);
    store_pack<bf16, V>(y + at + width, b);
%% elif problem == "rope"
    const int r = i / (2 * width), c = i - r * 2 * width;
    const bool left = c < width;
    const int t = ((r / heads) % length) * width + (left ? c : c - width);
    Pack<bf16, V> a = load_pack<bf16, V>(x + i);
    const Pack<bf16, V> b = load_pack<bf16, V>(x + (left ? i + width : i - width));
    const Pack<float, V> cosine = load_pack<float, V>(cos + t);
    const Pack<float, V> sine = load_pack<float, V>(sin + t);
    const float sign = left ? -1.0f : 1.0f;
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = narrow(wide(a.d[e]) * cosine.d[e] + sign * wide(b.d[e]) * sine.d[e]);
    store_pack<bf16, V>(y + i, a);
%% elif kind == "bf16"
%% if problem == "swiglu"
    const int at = i + (i / width) * width;
    Pack<bf16, V> a = load_pack<bf16, V>(x + at);
    const Pack<bf16, V> b = load_pack<bf16, V>(x + at + width);
%% else
    Pack<bf16, V> a = load_pack<bf16, V>(gate + i);
    const Pack<bf16, V> b = load_pack<bf16, V>(up + i);
%% endif
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = narrow(activation(wide(a.d[e])) * wide(b.d[e]));
    store_pack<bf16, V>(y + i, a);
%% else
    Pack<float, V> a = load_pack<float, V>(x + i);
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = activation(a.d[e]);
    store_pack<float, V>(y + i, a);
%% endif
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
%% host named
def run(${names}):
%% if problem == "swiglu"
    width = x.shape[1] // 2
    y = torch.empty((x.shape[0], width), dtype=x.dtype, device=x.device)
    n, heads, length = y.numel(), 1, 1
    packed = width % ${vector} == 0
%% elif problem == "geglu"
    y = torch.empty_like(gate)
    n, width, heads, length = y.numel(), gate.shape[1], 1, 1
    packed = ${"width" if walk == "rows" else "n"} % ${vector} == 0
%% elif problem == "rope"
    y = torch.empty_like(x)
    length, heads, width = x.shape[1], x.shape[2], x.shape[3] // 2
    n = x.numel()${" // 2" if pairs else ""}
    packed = width % ${vector} == 0
%% else
    y = torch.empty_like(x)
    n, width, heads, length = x.numel(), x.shape[1], 1, 1
    packed = ${"width" if walk == "rows" else "n"} % ${vector} == 0
%% endif
    vector = ${vector} if packed else 1
%% if walk == "rows"
    grid = n // width
%% else
    grid = (n // vector + ${per_block - 1}) // ${per_block}
%% endif
%% if walk == "strided"
    grid = min(grid, torch.cuda.get_device_properties(y.device).multi_processor_count * ${per_sm})
%% endif
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, n, width, heads, length))
    return y
