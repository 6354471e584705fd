// Reductions of the middle dimension of a (batch, length, width) tensor, and RMS norm over channels, in CUDA.
// let pair = problem in ("argmax", "argmin")
// let sums = problem in ("sum_reduce", "mean_reduce")
// let rms = problem == "rms_norm"
// family columns_cuda for sum_reduce, mean_reduce, max_reduce, argmax, argmin, rms_norm
// shape combine = "none" if rms else ("none", "second", "atomic") if sums else ("none", "second")
// shape finish = ("reread", "held", "second") if rms else "none"
// shape join = "tree", "serial"
// shape order = "columns", "batches"
// shape vector = 1, 2, 4, 8
// shape load = "plain", "ldg", "ldcs", "ldcg"
// shape store = "plain", "stcs", "stcg", "stwt"
// pick across = 16, 32, 64, 128, 256
// pick down = 1, 2, 4, 8, 16, 32
// pick unroll = 1, 2, 4, 8
// pick parts_count = 1, 2, 4, 8, 16
// refuse not 64 <= across * down <= 1024: threads out of bounds
// refuse across * down * vector * (8 if pair else 4) > 48 * 1024: more than 48 KiB of shared memory
// refuse (combine == "none") != (parts_count == 1): parts and their joining go together
// refuse finish == "held" and 64 // down * vector > 64: more than 64 elements per thread
// refuse down == 1 and join == "serial": nothing to join
// let kind = "long long" if pair else "float"
// let neutral = "0.0f" if sums or rms else f"__int_as_float({'0x7f800000' if problem == 'argmin' else '0xff800000'})"
// # Elements that a thread holds: a reduced row of RMS norm has at most 64.
// let hold = max(1, 64 // down)
// let own = "threadIdx.y" if join == "tree" else "0"
// let other = "threadIdx.y + k" if join == "tree" else "k"
// let exported = instances(vector, "kernel", "scale") if finish == "second" else instances(vector, "kernel")
// polish compact

<%% include "rowwise/parts.cu#packs" %%>
%% set better = "<" if problem == "argmin" else ">"
%% macro merge(to, from)
%% if pair
            const float v_ = shared_value[${from}][at];
            const int i_ = shared_index[${from}][at];
            if (v_ ${better} shared_value[${to}][at] || (v_ == shared_value[${to}][at] && i_ < shared_index[${to}][at])) {
                shared_value[${to}][at] = v_;
                shared_index[${to}][at] = i_;
            }
%% elif problem == "max_reduce"
            shared_value[${to}][at] = fmaxf(shared_value[${to}][at], shared_value[${from}][at]);
%% else
            shared_value[${to}][at] += shared_value[${from}][at];
%% endif
%% endmacro
template <int V>
__global__ void __launch_bounds__(${across * down}) kernel(
    const float* __restrict__ x, ${kind}* __restrict__ y, float* __restrict__ values, int* __restrict__ places,
    int length, int width, int share) {
    const int c = (${"blockIdx.x" if order == "columns" else "blockIdx.y"} * ${across} + threadIdx.x) * V;
    const int b = ${"blockIdx.y" if order == "columns" else "blockIdx.x"};
    const bool inside = c < width;
    const int begin = blockIdx.z * share, end = min(begin + share, length);
    const float* source = x + b * length * width + c;
    float value[V];
%% if pair
    int index[V];
%% endif
#pragma unroll
    for (int e = 0; e < V; ++e) {
        value[e] = ${neutral};
%% if pair
        index[e] = 2147483647;
%% endif
    }
%% if finish == "held"
    Pack<float, V> held[${hold}];
#pragma unroll
    for (int k = 0; k < ${hold}; ++k) {
        const int l = threadIdx.y + k * ${down};
        if (inside && l < length) {
            held[k] = load_pack<float, V>(source + l * width);
#pragma unroll
            for (int e = 0; e < V; ++e) value[e] += held[k].d[e] * held[k].d[e];
        }
    }
%% else
    if (inside) {
#pragma unroll ${unroll}
        for (int l = begin + threadIdx.y; l < end; l += ${down}) {
            const Pack<float, V> a = load_pack<float, V>(source + l * width);
#pragma unroll
            for (int e = 0; e < V; ++e) {
%% if pair
                if (a.d[e] ${better} value[e]) {
                    value[e] = a.d[e];
                    index[e] = l;
                }
%% elif problem == "max_reduce"
                value[e] = fmaxf(value[e], a.d[e]);
%% elif problem == "rms_norm"
                value[e] += a.d[e] * a.d[e];
%% else
                value[e] += a.d[e];
%% endif
            }
        }
    }
%% endif
%% if down > 1
    __shared__ float shared_value[${down}][${across} * V];
%% if pair
    __shared__ int shared_index[${down}][${across} * V];
%% endif
#pragma unroll
    for (int e = 0; e < V; ++e) {
        shared_value[threadIdx.y][threadIdx.x + e * ${across}] = value[e];
%% if pair
        shared_index[threadIdx.y][threadIdx.x + e * ${across}] = index[e];
%% endif
    }
    __syncthreads();
%% if join == "tree"
    for (int k = ${down // 2}; k > 0; k >>= 1) {
        if (threadIdx.y < k) {
#pragma unroll
            for (int e = 0; e < V; ++e) {
                const int at = threadIdx.x + e * ${across};
${merge(own, other)}
            }
        }
        __syncthreads();
    }
%% else
    if (threadIdx.y == 0) {
        for (int k = 1; k < ${down}; ++k) {
#pragma unroll
            for (int e = 0; e < V; ++e) {
                const int at = threadIdx.x + e * ${across};
${merge(own, other)}
            }
        }
    }
    __syncthreads();
%% endif
#pragma unroll
    for (int e = 0; e < V; ++e) {
        value[e] = shared_value[0][threadIdx.x + e * ${across}];
%% if pair
        index[e] = shared_index[0][threadIdx.x + e * ${across}];
%% endif
    }
%% endif
%% if problem == "rms_norm"
#pragma unroll
    for (int e = 0; e < V; ++e) value[e] = 1.0f / sqrtf(value[e] / length + 1e-5f);
%% if finish == "second"
    if (inside && threadIdx.y == 0) {
#pragma unroll
        for (int e = 0; e < V; ++e) values[b * width + c + e] = value[e];
    }
%% elif finish == "held"
#pragma unroll
    for (int k = 0; k < ${hold}; ++k) {
        const int l = threadIdx.y + k * ${down};
        if (inside && l < length) {
#pragma unroll
            for (int e = 0; e < V; ++e) held[k].d[e] *= value[e];
            store_pack<float, V>(y + (b * length + l) * width + c, held[k]);
        }
    }
%% else
    if (inside) {
#pragma unroll ${unroll}
        for (int l = threadIdx.y; l < length; l += ${down}) {
            Pack<float, V> a = load_pack<float, V>(source + l * width);
#pragma unroll
            for (int e = 0; e < V; ++e) a.d[e] *= value[e];
            store_pack<float, V>(y + (b * length + l) * width + c, a);
        }
    }
%% endif
%% else
    if (inside && threadIdx.y == 0) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
%% if combine == "second"
            const int at = (b * gridDim.z + blockIdx.z) * width + c + e;
            values[at] = value[e];
%% if pair
            places[at] = index[e];
%% endif
%% elif combine == "atomic"
            atomicAdd(y + b * width + c + e, value[e]${" / length" if problem == "mean_reduce" else ""});
%% elif pair
            y[b * width + c + e] = index[e];
%% else
            y[b * width + c + e] = value[e]${" / length" if problem == "mean_reduce" else ""};
%% endif
        }
    }
%% endif
}
%% if combine == "second"

extern "C" __global__ void combine(
    ${kind}* __restrict__ y, const float* __restrict__ values, const int* __restrict__ places,
    int length, int width, int parts) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (c >= width) return;
    float value = ${neutral};
%% if pair
    int index = 2147483647;
%% endif
    for (int k = 0; k < parts; ++k) {
        const int at = (b * parts + k) * width + c;
%% if pair
        if (values[at] ${better} value) {
            value = values[at];
            index = places[at];
        }
%% elif problem == "max_reduce"
        value = fmaxf(value, values[at]);
%% else
        value += values[at];
%% endif
    }
%% if pair
    y[b * width + c] = index;
%% else
    y[b * width + c] = value${" / length" if problem == "mean_reduce" else ""};
%% endif
}
%% endif
%% if finish == "second"

template <int V>
__global__ void scale(
    const float* __restrict__ x, float* __restrict__ y, const float* __restrict__ values, int length, int width) {
    const int c = (blockIdx.y * blockDim.x + threadIdx.x) * V, row = blockIdx.x;
    if (c >= width) return;
    Pack<float, V> a = load_pack<float, V>(x + row * width + c);
    const Pack<float, V> f = load_pack<float, V>(values + (row / length) * width + c);
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] *= f.d[e];
    store_pack<float, V>(y + row * width + c, a);
}
%% endif
%% host named
def run(x):
    batch, length = x.shape[0], x.shape[1]
    width = x.numel() // (batch * length)
%% set maker = "zeros" if combine == "atomic" else "empty"
%% if problem == "rms_norm"
    y = torch.empty_like(x)
%% elif problem == "sum_reduce"
    y = torch.${maker}((batch, 1, width), dtype=torch.float32, device=x.device)
%% elif pair
    y = torch.empty((batch, width), dtype=torch.int64, device=x.device)
%% else
    y = torch.${maker}((batch, width), dtype=torch.float32, device=x.device)
%% endif
    vector = ${vector} if width % ${vector} == 0 else 1
    share = (length + ${parts_count - 1}) // ${parts_count}
%% if combine == "second"
    values = torch.empty((batch, ${parts_count}, width), dtype=torch.float32, device=x.device)
    places = torch.empty((batch, ${parts_count}, width), dtype=torch.int32, device=x.device)
%% elif finish == "second"
    values = torch.empty((batch, width), dtype=torch.float32, device=x.device)
    places = values
%% else
    values, places = x, x
%% endif
    columns = (width + ${across} * vector - 1) // (${across} * vector)
    grid = (${"columns, batch" if order == "columns" else "batch, columns"}, ${parts_count})
    args = (x, y, values, places, length, width, share)
    module.launch(f"kernel<{vector}>", grid=grid, block=(${across}, ${down}), args=args)
%% if combine == "second"
    args = (y, values, places, length, width, ${parts_count})
    module.launch("combine", grid=((width + 127) // 128, batch), block=128, args=args)
%% endif
%% if finish == "second"
    grid = (batch * length, (width + 256 * vector - 1) // (256 * vector))
    module.launch(f"scale<{vector}>", grid=grid, block=256, args=(x, y, values, length, width))
%% endif
    return y
