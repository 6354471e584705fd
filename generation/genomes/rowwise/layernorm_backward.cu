// The backward pass of layer norm in CUDA: a row pass for x, a column sum for weight and bias.
// # Longest row of any workload: what a block holds at once where it holds a row.
// let longest = 4096
// family layernorm_backward_cuda for layernorm_backward
// shape plan = "partials", "atomic", "recompute", "warps"
// shape walk = "strided", "chunk"
// shape reduce = "shuffle", "tree", "serial"
// shape vector = 1, 2, 4
// shape load = "plain", "ldg", "ldcs", "ldcg"
// shape store = "plain", "stcs", "stcg", "stwt"
// pick threads = 128, 256, 512, 1024
// pick down = 2, 4, 8, 16, 32
// pick split = 8, 16, 32, 64
// pick per_sm = 1, 2, 4
// let sums = plan in ("partials", "atomic")
// refuse sums and longest / threads > 16: more than 16 columns per thread
// refuse sums and not 512 <= threads * per_sm <= 2048: too few or too many threads on an SM
// refuse not sums and walk == "chunk": rows come from the grid
// refuse plan == "warps" and reduce != "shuffle": warps reduce by shuffles
// let warp_grid = f"(rows + {threads // 32 - 1}) // {threads // 32}" if plan == "warps" else "rows"
// let exported = instances(vector, "rows_kernel")
// polish compact

%% set held = plan in ("partials", "atomic")
<%% include "rowwise/parts.cu#packs" %%>

<%% include "rowwise/parts.cu#reductions" %%>
template <int V>
__global__ void __launch_bounds__(${threads}) rows_kernel(
    const float* __restrict__ grad, const float* __restrict__ x, const float* __restrict__ weight,
    float* __restrict__ out, float* __restrict__ one, float* __restrict__ two, int rows, int cols) {
%% if held
    constexpr int HOLD = (${longest} + ${threads} * V - 1) / (${threads} * V);
    float to_weight[HOLD][V], to_bias[HOLD][V], g[HOLD][V], u[HOLD][V];
#pragma unroll
    for (int k = 0; k < HOLD; ++k) {
#pragma unroll
        for (int e = 0; e < V; ++e) to_weight[k][e] = to_bias[k][e] = g[k][e] = u[k][e] = 0.0f;
    }
%% if walk == "strided"
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
%% else
    const int share = (rows + gridDim.x - 1) / gridDim.x;
    const int last = min(int(blockIdx.x * share + share), rows);
    for (int row = blockIdx.x * share; row < last; ++row) {
%% endif
        Two s = Two{0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < HOLD; ++k) {
            const int c = (k * ${threads} + threadIdx.x) * V;
            if (c < cols) {
                const Pack<float, V> a = load_pack<float, V>(x + row * cols + c);
                const Pack<float, V> b = load_pack<float, V>(grad + row * cols + c);
#pragma unroll
                for (int e = 0; e < V; ++e) {
                    u[k][e] = a.d[e];
                    g[k][e] = b.d[e];
                    s.a += a.d[e];
                    s.b += a.d[e] * a.d[e];
                }
            }
        }
        s = block_reduce(s, Add(), Two{0.0f, 0.0f});
        const float mean = s.a / cols, rstd = rsqrtf(s.b / cols - mean * mean + 1e-5f);
        Two t = Two{0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < HOLD; ++k) {
            const int c = (k * ${threads} + threadIdx.x) * V;
            if (c < cols) {
                const Pack<float, V> w = load_pack<float, V>(weight + c);
#pragma unroll
                for (int e = 0; e < V; ++e) {
                    u[k][e] = (u[k][e] - mean) * rstd;
                    to_weight[k][e] += g[k][e] * u[k][e];
                    to_bias[k][e] += g[k][e];
                    g[k][e] *= w.d[e];
                    t.a += g[k][e];
                    t.b += g[k][e] * u[k][e];
                }
            }
        }
        t = block_reduce(t, Add(), Two{0.0f, 0.0f});
        const float near = t.a / cols, far = t.b / cols;
#pragma unroll
        for (int k = 0; k < HOLD; ++k) {
            const int c = (k * ${threads} + threadIdx.x) * V;
            if (c < cols) {
                Pack<float, V> a;
#pragma unroll
                for (int e = 0; e < V; ++e) a.d[e] = (g[k][e] - near - u[k][e] * far) * rstd;
                store_pack<float, V>(out + row * cols + c, a);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < HOLD; ++k) {
        const int c = (k * ${threads} + threadIdx.x) * V;
        if (c < cols) {
#pragma unroll
            for (int e = 0; e < V; ++e) {
%% if plan == "atomic"
                atomicAdd(one + c + e, to_weight[k][e]);
                atomicAdd(two + c + e, to_bias[k][e]);
%% else
                one[blockIdx.x * cols + c + e] = to_weight[k][e];
                two[blockIdx.x * cols + c + e] = to_bias[k][e];
%% endif
            }
        }
    }
%% else
%% if plan == "warps"
    const int lane = threadIdx.x & 31, pace = 32 * V;
    const int row = blockIdx.x * ${threads // 32} + (threadIdx.x >> 5);
    if (row >= rows) return;
%% else
    const int lane = threadIdx.x, pace = ${threads} * V, row = blockIdx.x;
%% endif
    Two s = Two{0.0f, 0.0f}, t = Two{0.0f, 0.0f};
    for (int c = lane * V; c < cols; c += pace) {
        const Pack<float, V> a = load_pack<float, V>(x + row * cols + c);
        const Pack<float, V> b = load_pack<float, V>(grad + row * cols + c);
        const Pack<float, V> w = load_pack<float, V>(weight + c);
#pragma unroll
        for (int e = 0; e < V; ++e) {
            const float g = b.d[e] * w.d[e];
            s.a += a.d[e];
            s.b += a.d[e] * a.d[e];
            t.a += g;
            t.b += g * a.d[e];
        }
    }
%% if plan == "warps"
    s = warp_reduce(s, Add());
    t = warp_reduce(t, Add());
%% else
    s = block_reduce(s, Add(), Two{0.0f, 0.0f});
    t = block_reduce(t, Add(), Two{0.0f, 0.0f});
%% endif
    const float mean = s.a / cols, rstd = rsqrtf(s.b / cols - mean * mean + 1e-5f);
    const float near = t.a / cols, far = (t.b / cols - mean * near) * rstd;
    for (int c = lane * V; c < cols; c += pace) {
        const Pack<float, V> a = load_pack<float, V>(x + row * cols + c);
        const Pack<float, V> b = load_pack<float, V>(grad + row * cols + c);
        const Pack<float, V> w = load_pack<float, V>(weight + c);
        Pack<float, V> d;
#pragma unroll
        for (int e = 0; e < V; ++e) d.d[e] = (b.d[e] * w.d[e] - near - (a.d[e] - mean) * rstd * far) * rstd;
        store_pack<float, V>(out + row * cols + c, d);
    }
    if (lane == 0) {
        one[row] = mean;
        two[row] = rstd;
    }
%% endif
}

%% if plan == "partials"
extern "C" __global__ void __launch_bounds__(${32 * down}) columns_kernel(
    const float* __restrict__ one, const float* __restrict__ two, float* __restrict__ to_weight,
    float* __restrict__ to_bias, int rows, int cols) {
    const int c = blockIdx.x * 32 + threadIdx.x;
    const int begin = 0, end = rows;
%% else
extern "C" __global__ void __launch_bounds__(${32 * down}) columns_kernel(
    const float* __restrict__ grad, const float* __restrict__ x, const float* __restrict__ one,
    const float* __restrict__ two, float* __restrict__ to_weight, float* __restrict__ to_bias,
    int rows, int cols, int share) {
    const int c = blockIdx.x * 32 + threadIdx.x;
    const int begin = blockIdx.y * share, end = min(begin + share, rows);
%% endif
    float first = 0.0f, second = 0.0f;
    if (c < cols) {
#pragma unroll 4
        for (int r = begin + threadIdx.y; r < end; r += ${down}) {
%% if plan == "partials"
            first += one[r * cols + c];
            second += two[r * cols + c];
%% else
            const float g = grad[r * cols + c];
            first += g * (x[r * cols + c] - one[r]) * two[r];
            second += g;
%% endif
        }
    }
    __shared__ float parts[2][${down}][32];
    parts[0][threadIdx.y][threadIdx.x] = first;
    parts[1][threadIdx.y][threadIdx.x] = second;
    __syncthreads();
    if (threadIdx.y == 0 && c < cols) {
        for (int k = 1; k < ${down}; ++k) {
            first += parts[0][k][threadIdx.x];
            second += parts[1][k][threadIdx.x];
        }
%% if plan == "partials"
        to_weight[c] = first;
        to_bias[c] = second;
%% else
        atomicAdd(to_weight + c, first);
        atomicAdd(to_bias + c, second);
%% endif
    }
}
%% host named
def run(grad, x, weight):
    rows, cols = x.shape
    out = torch.empty_like(x)
    vector = ${vector} if cols % ${vector} == 0 else 1
%% if held
    grid = min(rows, torch.cuda.get_device_properties(x.device).multi_processor_count * ${per_sm})
%% if plan == "partials"
    one = torch.empty((grid, cols), dtype=torch.float32, device=x.device)
    two = torch.empty((grid, cols), dtype=torch.float32, device=x.device)
    to_weight, to_bias = torch.empty_like(weight), torch.empty_like(weight)
%% else
    to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(weight)
    one, two = to_weight, to_bias
%% endif
    args = (grad, x, weight, out, one, two, rows, cols)
    module.launch(f"rows_kernel<{vector}>", grid=grid, block=${threads}, args=args)
%% if plan == "partials"
    args = (one, two, to_weight, to_bias, grid, cols)
    module.launch("columns_kernel", grid=(cols + 31) // 32, block=(32, ${down}), args=args)
%% endif
%% else
    one = torch.empty(rows, dtype=torch.float32, device=x.device)
    two = torch.empty(rows, dtype=torch.float32, device=x.device)
    to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(weight)
    grid = ${warp_grid}
    args = (grad, x, weight, out, one, two, rows, cols)
    module.launch(f"rows_kernel<{vector}>", grid=grid, block=${threads}, args=args)
    share = (rows + ${split - 1}) // ${split}
    args = (grad, x, one, two, to_weight, to_bias, rows, cols, share)
    module.launch("columns_kernel", grid=((cols + 31) // 32, ${split}), block=(32, ${down}), args=args)
%% endif
    return out, to_weight, to_bias
