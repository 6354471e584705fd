// Norms of contiguous rows in CUDA: softmax, log-softmax, L2, RMS with residual, instance and group norm.
// # lse: maximum and sum of exponentials; squares: sum of squares; moments: mean and variance.
// let statistics = {"softmax": "lse", "log_softmax": "lse", "l2_norm": "squares", "rmsnorm_residual": "squares",
//     "instance_norm": "moments", "group_norm": "moments"}[problem]
// # Longest row of any workload, rounded up to a power of two: bounds what a block may hold at once.
// let longest = {"softmax": 16384, "log_softmax": 32768, "l2_norm": 16384, "rmsnorm_residual": 8192,
//     "instance_norm": 65536, "group_norm": 524288}[problem]
// let grouped = problem == "group_norm"
// let residual = problem == "rmsnorm_residual"
// let arguments = "x, residual, weight" if residual else "x, weight, bias" if grouped else "x"
// let names = arguments + (", y, hidden" if residual else ", y")
// let parameters = {"x": "const float* __restrict__ x, float* __restrict__ y",
//     "x, weight, bias": "const float* __restrict__ x, const float* __restrict__ weight,"
//     " const float* __restrict__ bias, float* __restrict__ y",
//     "x, residual, weight": "const bf16* __restrict__ x, const bf16* __restrict__ residual,"
//     " const bf16* __restrict__ weight, bf16* __restrict__ y, bf16* __restrict__ hidden"}[arguments]
// let shape_parameters = ", int per_group, int plane" if grouped else ""
// let shape_names = ", per_group, plane" if grouped else ""
// family rowwise_cuda for softmax, log_softmax, l2_norm, rmsnorm_residual, instance_norm, group_norm
// shape plan = *(("held",) if longest <= 65536 else ()), *(("shared",) if longest <= 32768 else ()), "reread",
//     *(("warp",) if longest <= 65536 else ()), "split"
// shape passes = "online" if statistics == "squares" else ("online", "stepwise")
// shape reduce = "shuffle", "tree", "serial"
// shape vector = 1, 2, 4, 8
// shape schedule = "grid", "persistent"
// shape exponential = ("precise", "fast", "two") if statistics == "lse" else "precise"
// shape load = "plain", "ldg", "ldcs", "ldcg"
// shape store = "plain", "stcs", "stcg", "stwt"
// pick threads = 64, 128, 256, 512, 1024
// pick split = 2, 4, 8, 16, *((32, 64) if longest > 65536 else ())
// pick per_sm = 1, 2, 4, 8
// refuse plan == "held" and not 1 <= longest / (threads * vector) <= 64 / vector: row does not fit the registers
// refuse plan in ("warp", "split") and (passes == "stepwise" or schedule == "persistent"): warps and split rows go over
//     a row once, from the grid
// refuse plan == "warp" and reduce != "shuffle": warps reduce by shuffles
// refuse schedule == "persistent" and not 512 <= per_sm * threads <= 2048: too few or too many threads on an SM
// refuse longest > 65536 and plan == "reread" and threads < 256: too few threads for so long a row
// let centred = passes == "stepwise"
// let expression = {"precise": "expf(d)", "fast": "__expf(d)", "two": "exp2f(d * 1.44269504f)"}[exponential]
// let exported = instances(vector, "measure", "apply") if plan == "split" else instances(vector, "kernel")
// polish compact

%% if problem == "rmsnorm_residual"
<%% include "rowwise/parts.cu#bf16" %%>
%% endif
<%% include "rowwise/parts.cu#packs" %%>

<%% include "rowwise/parts.cu#reductions" %%>
__device__ __forceinline__ float expo(float d) { return ${expression}; }

__device__ __forceinline__ Two nothing() { return Two{${"-1.0e30f" if statistics == "lse" else "0.0f"}, 0.0f}; }

struct Join {
    __device__ __forceinline__ Two operator()(Two x, Two y) const {
%% if statistics == "lse"
        const float top = fmaxf(x.a, y.a);
        return Two{top, x.b * expo(x.a - top) + y.b * expo(y.a - top)};
%% else
        return Two{x.a + y.a, x.b + y.b};
%% endif
    }
};

__device__ __forceinline__ void take(Two& s, float v) {
%% if statistics == "lse"
    if (v > s.a) {
        s.b = s.b * expo(s.a - v) + 1.0f;
        s.a = v;
    } else {
        s.b += expo(v - s.a);
    }
%% elif statistics == "squares"
    s.a += v * v;
%% else
    s.a += v;
    s.b += v * v;
%% endif
}

__device__ __forceinline__ Two finish(Two s, int cols) {
%% if problem == "softmax"
    return Two{s.a, 1.0f / s.b};
%% elif problem == "log_softmax"
    return Two{s.a + logf(s.b), 1.0f};
%% elif problem == "l2_norm"
    return Two{0.0f, 1.0f / sqrtf(s.a)};
%% elif problem == "rmsnorm_residual"
    return Two{0.0f, rsqrtf(s.a / cols + 1e-6f)};
%% else
    const float mean = s.a / cols;
    return Two{mean, rsqrtf(${"s.b / cols" if centred else "s.b / cols - mean * mean"} + 1e-5f)};
%% endif
}

template <int V, bool KEEP>
__device__ __forceinline__ void fetch(${parameters}, int o, float (&v)[V]) {
%% if problem == "rmsnorm_residual"
    Pack<bf16, V> a = load_pack<bf16, V>(x + o);
    const Pack<bf16, V> b = load_pack<bf16, V>(residual + o);
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = narrow(wide(a.d[e]) + wide(b.d[e]));
    if (KEEP) store_pack<bf16, V>(hidden + o, a);
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] = wide(a.d[e]);
%% else
    const Pack<float, V> a = load_pack<float, V>(x + o);
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] = a.d[e];
%% endif
}

template <int V>
__device__ __forceinline__ void emit(
    ${parameters}, int row, int c, int o, const float (&v)[V], Two s${shape_parameters}) {
%% if problem == "rmsnorm_residual"
    const Pack<bf16, V> w = load_pack<bf16, V>(weight + c);
    Pack<bf16, V> out;
#pragma unroll
    for (int e = 0; e < V; ++e) out.d[e] = narrow(v[e] * s.b * wide(w.d[e]));
    store_pack<bf16, V>(y + o, out);
%% else
    Pack<float, V> out;
#pragma unroll
    for (int e = 0; e < V; ++e) {
%% if problem == "softmax"
        out.d[e] = expo(v[e] - s.a) * s.b;
%% elif problem == "log_softmax"
        out.d[e] = v[e] - s.a;
%% elif problem == "l2_norm"
        out.d[e] = v[e] * s.b;
%% elif problem == "instance_norm"
        out.d[e] = (v[e] - s.a) * s.b;
%% else
        const int channel = (row % 8) * per_group + (c + e) / plane;
        out.d[e] = (v[e] - s.a) * s.b * weight[channel] + bias[channel];
%% endif
    }
    store_pack<float, V>(y + o, out);
%% endif
}

%% macro sweep(keep, code, begin="threadIdx.x * V", end="cols", pace=threads ~ " * V")
    for (int c = ${begin}; c < ${end}; c += ${pace}) {
        float v[V];
        fetch<V, ${keep}>(${names}, row * cols + c, v);
#pragma unroll
        for (int e = 0; e < V; ++e) ${code}
    }
%% endmacro
%% macro cached(code)
%% if plan == "held"
#pragma unroll
    for (int k = 0; k < HOLD; ++k) {
        if ((k * ${threads} + threadIdx.x) * V < cols) {
#pragma unroll
            for (int e = 0; e < V; ++e) { const float v = held[k][e]; ${code} }
        }
    }
%% else
    for (int c = threadIdx.x * V; c < cols; c += ${threads} * V) {
#pragma unroll
        for (int e = 0; e < V; ++e) { const float v = stage[c + e]; ${code} }
    }
%% endif
%% endmacro
%% if plan == "split"
template <int V>
__global__ void __launch_bounds__(${threads}) measure(
    ${parameters}, Two* __restrict__ found, int rows, int cols, int share${shape_parameters}) {
    const int row = blockIdx.x, begin = blockIdx.y * share;
    const int end = min(begin + share, cols);
    Two s = nothing();
${sweep("true", "take(s, v[e]);", "begin + threadIdx.x * V", "end")}
    s = block_reduce(s, Join(), nothing());
    if (threadIdx.x == 0) found[row * gridDim.y + blockIdx.y] = s;
}

template <int V>
__global__ void __launch_bounds__(${threads}) apply(
    ${parameters}, const Two* __restrict__ found, int rows, int cols, int share${shape_parameters}) {
    const int row = blockIdx.x, begin = blockIdx.y * share;
    const int end = min(begin + share, cols);
    Two s = nothing();
    for (int k = 0; k < gridDim.y; ++k) s = Join()(s, found[row * gridDim.y + k]);
    s = finish(s, cols);
    for (int c = begin + threadIdx.x * V; c < end; c += ${threads} * V) {
        float v[V];
%% if problem == "rmsnorm_residual"
        const Pack<bf16, V> h = load_pack<bf16, V>(hidden + row * cols + c);
#pragma unroll
        for (int e = 0; e < V; ++e) v[e] = wide(h.d[e]);
%% else
        fetch<V, false>(${names}, row * cols + c, v);
%% endif
        emit<V>(${names}, row, c, row * cols + c, v, s${shape_names});
    }
}
%% elif plan == "warp"
template <int V>
__global__ void __launch_bounds__(${threads}) kernel(${parameters}, int rows, int cols${shape_parameters}) {
    const int lane = threadIdx.x & 31;
    const int row = blockIdx.x * ${threads // 32} + (threadIdx.x >> 5);
    if (row >= rows) return;
    Two s = nothing();
${sweep("true", "take(s, v[e]);", "lane * V", "cols", "32 * V")}
    s = finish(warp_reduce(s, Join()), cols);
    for (int c = lane * V; c < cols; c += 32 * V) {
        float v[V];
        fetch<V, false>(${names}, row * cols + c, v);
        emit<V>(${names}, row, c, row * cols + c, v, s${shape_names});
    }
}
%% else
template <int V>
__global__ void __launch_bounds__(${threads}) kernel(${parameters}, int rows, int cols${shape_parameters}) {
%% if plan == "held"
    constexpr int HOLD = (${longest} + ${threads} * V - 1) / (${threads} * V);
    float held[HOLD][V];
%% elif plan == "shared"
    extern __shared__ __align__(16) float stage[];
%% endif
%% if schedule == "persistent"
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
%% else
    const int row = blockIdx.x;
    {
%% endif
    Two s = nothing();
%% if plan == "held"
#pragma unroll
    for (int k = 0; k < HOLD; ++k) {
        const int c = (k * ${threads} + threadIdx.x) * V;
        if (c < cols) {
            fetch<V, true>(${names}, row * cols + c, held[k]);
%% if not centred
#pragma unroll
            for (int e = 0; e < V; ++e) take(s, held[k][e]);
%% endif
        }
    }
%% elif plan == "shared"
${sweep("true", ("" if centred else "take(s, v[e]), ") ~ "stage[c + e] = v[e];")}
%% elif not centred
${sweep("true", "take(s, v[e]);")}
%% endif
%% if centred
%% if statistics == "lse"
    float top = -1.0e30f, total = 0.0f;
${cached("top = fmaxf(top, v);") if plan in ("held", "shared") else sweep("true", "top = fmaxf(top, v[e]);")}
    top = block_reduce(top, Max(), -1.0e30f);
${cached("total += expo(v - top);") if plan in ("held", "shared") else sweep("false", "total += expo(v[e] - top);")}
    s = Two{top, block_reduce(total, Add(), 0.0f)};
%% else
    float first = 0.0f, second = 0.0f;
${cached("first += v;") if plan in ("held", "shared") else sweep("true", "first += v[e];")}
    first = block_reduce(first, Add(), 0.0f);
    const float mean = first / cols;
%% if plan in ("held", "shared")
${cached("second += (v - mean) * (v - mean);")}
%% else
${sweep("false", "second += (v[e] - mean) * (v[e] - mean);")}
%% endif
    s = Two{first, block_reduce(second, Add(), 0.0f)};
%% endif
%% else
    s = block_reduce(s, Join(), nothing());
%% endif
    s = finish(s, cols);
%% if plan == "held"
#pragma unroll
    for (int k = 0; k < HOLD; ++k) {
        const int c = (k * ${threads} + threadIdx.x) * V;
        if (c < cols) emit<V>(${names}, row, c, row * cols + c, held[k], s${shape_names});
    }
%% else
    for (int c = threadIdx.x * V; c < cols; c += ${threads} * V) {
        float v[V];
%% if plan == "shared"
#pragma unroll
        for (int e = 0; e < V; ++e) v[e] = stage[c + e];
%% else
        fetch<V, false>(${names}, row * cols + c, v);
%% endif
        emit<V>(${names}, row, c, row * cols + c, v, s${shape_names});
    }
%% endif
    }
}
%% endif
%% host named
def run(${arguments}):
    y = torch.empty_like(x)
%% if problem == "rmsnorm_residual"
    hidden = torch.empty_like(x)
    rows, cols = x.shape
%% elif problem == "instance_norm"
    rows, cols = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
%% elif problem == "group_norm"
    plane = x.shape[2] * x.shape[3]
    per_group = x.shape[1] // 8
    rows, cols = x.shape[0] * 8, per_group * plane
%% else
    rows, cols = x.shape
%% endif
    vector = ${vector} if cols % ${vector} == 0 else 1
%% if plan == "split"
    share = ((cols + ${split - 1}) // ${split} + vector - 1) // vector * vector
    found = torch.empty((rows, ${split}, 2), dtype=torch.float32, device=x.device)
    args = (${names}, found, rows, cols, share${shape_names})
    module.launch(f"measure<{vector}>", grid=(rows, ${split}), block=${threads}, args=args)
    module.launch(f"apply<{vector}>", grid=(rows, ${split}), block=${threads}, args=args)
%% else
%% if plan == "warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% elif schedule == "persistent"
    grid = min(rows, torch.cuda.get_device_properties(x.device).multi_processor_count * ${per_sm})
%% else
    grid = rows
%% endif
    args = (${names}, rows, cols${shape_names})
%% if plan == "shared"
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=args, shared_bytes=cols * 4)
%% else
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=args)
%% endif
%% endif
    return ${"y, hidden" if problem == "rmsnorm_residual" else "y"}
