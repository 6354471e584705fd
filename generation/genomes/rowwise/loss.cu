// Losses in CUDA: a sum over everything, or one value per row, joined into one number.
// let huber = problem == "huber_loss"
// let entropy = problem == "cross_entropy_loss"
// let flat = problem in ("huber_loss", "kl_div_loss")
// let lead = "predictions" if flat else "logits" if entropy else "anchor"
// let names = lead + (", positive, negative" if problem == "triplet_margin_loss" else ", targets")
// let parameters = {"logits": "const float* __restrict__ logits, const long long* __restrict__ targets",
//     "predictions": "", "anchor": "const float* __restrict__ anchor, const float* __restrict__ positive,"
//     " const float* __restrict__ negative"}[lead]
// let store = "plain"
// family loss_cuda for cross_entropy_loss, triplet_margin_loss, huber_loss, kl_div_loss
// shape plan = ("strided", "blocks", "chunk") if flat else ("block", "warp")
// shape form = () if flat else ("expf", "__expf") if entropy else "expf"
// shape form = () if not flat else ("branch", "clamp") if huber else ("precise", "logs", "fast")
// shape schedule = "none" if flat else ("grid", "persistent")
// shape finish = "atomic", "second", "last"
// shape reduce = "shuffle", "tree", "serial"
// shape vector = 1, 2, 4, 8
// shape load = "plain", "ldg", "ldcs", "ldcg"
// pick threads = 64, 128, 256, 512, 1024
// pick unroll = 1, 2, 4, 8
// pick per_sm = 1, 2, 4, 8, 16
// refuse plan == "blocks" and threads * unroll * vector < 2048: too many parts
// let scheduled = schedule != "grid" and plan != "blocks"
// refuse scheduled and not 512 <= per_sm * threads <= 2048: too few or too many threads on an SM
// let exported = instances(vector, "kernel")
// polish compact

%% macro conclude(value)
    if (threadIdx.x == 0) {
%% if finish == "atomic"
        atomicAdd(loss, ${value} * scale);
%% else
        parts[blockIdx.x] = ${value};
%% endif
    }
%% if finish == "last"
    __shared__ bool mine;
    if (threadIdx.x == 0) {
        __threadfence();
        mine = atomicAdd(counter, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (mine) {
        __threadfence();
        float sum = 0.0f;
        for (int k = threadIdx.x; k < gridDim.x; k += blockDim.x) sum += __ldcg(parts + k);
        sum = block_reduce(sum, Add(), 0.0f);
        if (threadIdx.x == 0) *loss = sum * scale;
    }
%% endif
%% endmacro
<%% include "rowwise/parts.cu#packs" %%>

<%% include "rowwise/parts.cu#reductions" %%>
%% if flat
__device__ __forceinline__ float term(float a, float b) {
%% if form == "branch"
    const float d = fabsf(a - b);
    return d < 1.0f ? 0.5f * d * d : d - 0.5f;
%% elif form == "clamp"
    const float d = fabsf(a - b), q = fminf(d, 1.0f);
    return q * (d - 0.5f * q);
%% elif form == "precise"
    return b * logf(b / a);
%% elif form == "logs"
    return b * (logf(b) - logf(a));
%% else
    return b * __logf(__fdividef(b, a));
%% endif
}

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(
    const float* __restrict__ predictions, const float* __restrict__ targets, float* __restrict__ loss,
    float* __restrict__ parts, unsigned int* __restrict__ counter, int n, int cols, float scale) {
    float total = 0.0f;
%% macro step(tab)
${tab}const Pack<float, V> a = load_pack<float, V>(predictions + i);
${tab}const Pack<float, V> b = load_pack<float, V>(targets + i);
#pragma unroll
${tab}for (int e = 0; e < V; ++e) total += term(a.d[e], b.d[e]);
%% endmacro
%% if plan == "strided"
#pragma unroll ${unroll}
    for (int i = (blockIdx.x * ${threads} + threadIdx.x) * V; i < n; i += gridDim.x * ${threads} * V) {
${step("        ")}
    }
%% elif plan == "blocks"
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = ((blockIdx.x * ${unroll} + k) * ${threads} + threadIdx.x) * V;
        if (i < n) {
${step("            ")}
        }
    }
%% else
    const int share = (n / V + gridDim.x - 1) / gridDim.x * V;
    const int end = min(int(blockIdx.x * share + share), n);
#pragma unroll ${unroll}
    for (int i = blockIdx.x * share + threadIdx.x * V; i < end; i += ${threads} * V) {
${step("        ")}
    }
%% endif
    total = block_reduce(total, Add(), 0.0f);
${conclude("total")}
}
%% else
%% set entropy = problem == "cross_entropy_loss"
%% if entropy
struct Join {
    __device__ __forceinline__ Two operator()(Two x, Two y) const {
        const float top = fmaxf(x.a, y.a);
        return Two{top, x.b * ${form}(x.a - top) + y.b * ${form}(y.a - top)};
    }
};
%% else
typedef Add Join;
%% endif

template <int V>
__device__ __forceinline__ Two read(${parameters}, int row, int c, int cols, Two s) {
    const int o = row * cols + c;
%% if entropy
    const Pack<float, V> a = load_pack<float, V>(logits + o);
#pragma unroll
    for (int e = 0; e < V; ++e) {
        const float v = a.d[e];
        if (v > s.a) {
            s.b = s.b * ${form}(s.a - v) + 1.0f;
            s.a = v;
        } else {
            s.b += ${form}(v - s.a);
        }
    }
%% else
    const Pack<float, V> a = load_pack<float, V>(anchor + o);
    const Pack<float, V> p = load_pack<float, V>(positive + o);
    const Pack<float, V> q = load_pack<float, V>(negative + o);
#pragma unroll
    for (int e = 0; e < V; ++e) {
        const float near = a.d[e] - p.d[e] + 1e-6f, far = a.d[e] - q.d[e] + 1e-6f;
        s.a += near * near;
        s.b += far * far;
    }
%% endif
    return s;
}

__device__ __forceinline__ Two none() { return Two{${"-1.0e30f" if entropy else "0.0f"}, 0.0f}; }

__device__ __forceinline__ float close(${parameters}, int row, int cols, Two s) {
%% if entropy
    return s.a + logf(s.b) - logits[row * cols + (int)targets[row]];
%% else
    return fmaxf(sqrtf(s.a) - sqrtf(s.b) + 1.0f, 0.0f);
%% endif
}

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(
    ${parameters}, float* __restrict__ loss, float* __restrict__ parts, unsigned int* __restrict__ counter,
    int rows, int cols, float scale) {
    float total = 0.0f;
%% if plan == "warp"
    const int lane = threadIdx.x & 31, warps = gridDim.x * ${threads // 32};
    for (int row = blockIdx.x * ${threads // 32} + (threadIdx.x >> 5); row < rows; row += warps) {
        Two s = none();
#pragma unroll ${unroll}
        for (int c = lane * V; c < cols; c += 32 * V) s = read<V>(${names}, row, c, cols, s);
        s = warp_reduce(s, Join());
        if (lane == 0) total += close(${names}, row, cols, s);
    }
    total = block_reduce(total, Add(), 0.0f);
%% else
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        Two s = none();
#pragma unroll ${unroll}
        for (int c = threadIdx.x * V; c < cols; c += ${threads} * V) s = read<V>(${names}, row, c, cols, s);
        s = block_reduce(s, Join(), none());
        total += close(${names}, row, cols, s);
    }
%% endif
${conclude("total")}
}
%% endif
%% if finish == "second"

extern "C" __global__ void __launch_bounds__(${threads}) join(
    float* __restrict__ loss, const float* __restrict__ parts, int count, float scale) {
    float sum = 0.0f;
    for (int k = threadIdx.x; k < count; k += ${threads}) sum += parts[k];
    sum = block_reduce(sum, Add(), 0.0f);
    if (threadIdx.x == 0) *loss = sum * scale;
}
%% endif
%% host named
def run(${names}):
    rows, cols = ${lead}.shape
%% if flat
    n = rows * cols
    vector = ${vector} if n % ${vector} == 0 else 1
    scale = 1.0 / ${"rows" if problem == "kl_div_loss" else "n"}
    first, second = n, cols
%% if plan == "blocks"
    count = (n // vector + ${threads * unroll - 1}) // ${threads * unroll}
%% else
    count = (n // vector + ${threads - 1}) // ${threads}
%% endif
%% else
    vector = ${vector} if cols % ${vector} == 0 else 1
    scale = 1.0 / rows
    first, second = rows, cols
%% if plan == "warp"
    count = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% else
    count = rows
%% endif
%% endif
%% if not (flat and plan == "blocks") and not (not flat and schedule == "grid")
    count = min(count, torch.cuda.get_device_properties(${lead}.device).multi_processor_count * ${per_sm})
%% endif
%% if finish == "atomic"
    loss = torch.zeros((), dtype=torch.float32, device=${lead}.device)
    parts, counter = loss, loss
%% else
    loss = torch.empty((), dtype=torch.float32, device=${lead}.device)
    parts = torch.empty(count, dtype=torch.float32, device=${lead}.device)
    counter = ${"torch.zeros(1, dtype=torch.int32, device=" + lead + ".device)" if finish == "last" else "parts"}
%% endif
    args = (${names}, loss, parts, counter, first, second, scale)
    module.launch(f"kernel<{vector}>", grid=count, block=${threads}, args=args)
%% if finish == "second"
    module.launch("join", grid=1, block=${threads}, args=(loss, parts, count, scale))
%% endif
    return loss
