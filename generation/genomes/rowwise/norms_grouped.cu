// Norms by statistics of many rows at once, in CUDA: batch, group, instance and Frobenius norm.
// let frobenius = problem == "frobenius_norm"
// let affine = problem in ("batch_norm", "group_norm")
// family grouped_cuda for batch_norm, group_norm, instance_norm, frobenius_norm
// shape combine = "atomic", "finalize", "inline", "last"
// shape reduce = "shuffle", "tree", "serial"
// shape walk = "forward", "backward", "strided"
// shape vector = 1, 2, 4, 8
// shape load = "plain", "ldg", "ldcs", "ldcg"
// shape store = "plain", "stcs", "stcg", "stwt"
// pick threads = 64, 128, 256, 512, 1024
// pick unroll = 1, 2, 4
// pick split = 1, 2, 4, 8
// pick apply_threads = 64, 128, 256, 512
// pick apply_unroll = 1, 2, 4, 8
// pick per_sm = 2, 4, 8
// refuse frobenius and combine == "inline": every block would read thousands of parts
// refuse walk == "strided" and not 512 <= per_sm * apply_threads <= 2048: too few or too many threads on an SM
// refuse apply_unroll * vector > 32: more than 32 elements per thread
// let exported = instances(vector, "measure", "apply")
// polish compact

<%% include "rowwise/parts.cu#packs" %%>

<%% include "rowwise/parts.cu#reductions" %%>
%% macro place()
%% if problem == "batch_norm"
    const int place = (row % channels) * images + row / channels;
%% else
    const int place = row;
%% endif
%% endmacro
template <int V>
__global__ void __launch_bounds__(${threads}) measure(
    const float* __restrict__ x, float* __restrict__ found, unsigned int* __restrict__ counters,
    float* __restrict__ final,
    int plane, int channels, int images, int per_group, int share) {
    const int row = blockIdx.x, begin = blockIdx.y * share;
    const int end = min(begin + share, plane);
${place()}
    const float* source = x + row * plane;
    Two s = Two{0.0f, 0.0f};
#pragma unroll ${unroll}
    for (int c = begin + threadIdx.x * V; c < end; c += ${threads} * V) {
        const Pack<float, V> a = load_pack<float, V>(source + c);
#pragma unroll
        for (int e = 0; e < V; ++e) {
%% if frobenius
            s.a += a.d[e] * a.d[e];
%% else
            s.a += a.d[e];
            s.b += a.d[e] * a.d[e];
%% endif
        }
    }
    s = block_reduce(s, Add(), Two{0.0f, 0.0f});
%% if combine == "atomic"
    if (threadIdx.x == 0) {
        atomicAdd(found + 2 * (place / per_group), s.a);
        atomicAdd(found + 2 * (place / per_group) + 1, s.b);
    }
%% else
    Two* parts = reinterpret_cast<Two*>(found);
    if (threadIdx.x == 0) parts[place * gridDim.y + blockIdx.y] = s;
%% if combine == "last"
    __shared__ bool mine;
    const int group = place / per_group, count = per_group * gridDim.y;
    if (threadIdx.x == 0) {
        __threadfence();
        mine = atomicAdd(counters + group, 1u) == count - 1;
    }
    __syncthreads();
    if (mine) {
        __threadfence();
        Two total = Two{0.0f, 0.0f};
        for (int k = threadIdx.x; k < count; k += ${threads}) {
            total.a += __ldcg(found + 2 * (group * count + k));
            total.b += __ldcg(found + 2 * (group * count + k) + 1);
        }
        total = block_reduce(total, Add(), Two{0.0f, 0.0f});
        if (threadIdx.x == 0) {
            final[2 * group] = total.a;
            final[2 * group + 1] = total.b;
        }
    }
%% endif
%% endif
}
%% if combine == "finalize"

extern "C" __global__ void finalize(const float* __restrict__ found, float* __restrict__ final, int count) {
    Two total = Two{0.0f, 0.0f};
    for (int k = threadIdx.x; k < count; k += blockDim.x) {
        total.a += found[2 * (blockIdx.x * count + k)];
        total.b += found[2 * (blockIdx.x * count + k) + 1];
    }
    total = block_reduce(total, Add(), Two{0.0f, 0.0f});
    if (threadIdx.x == 0) {
        final[2 * blockIdx.x] = total.a;
        final[2 * blockIdx.x + 1] = total.b;
    }
}
%% endif

template <int V>
__global__ void __launch_bounds__(${apply_threads}) apply(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ y, const float* __restrict__ final, int rows, int plane, int channels, int images,
    int per_group, int parts) {
%% if walk == "strided"
    const int pieces = (plane + ${apply_threads} * V * ${apply_unroll} - 1) / (${apply_threads} * V * ${apply_unroll});
    for (int item = blockIdx.x; item < rows * pieces; item += gridDim.x) {
    const int row = item / pieces, start = (item % pieces) * (${apply_threads} * V * ${apply_unroll});
%% else
    {
    const int row = ${"gridDim.x - 1 - blockIdx.x" if walk == "backward" else "blockIdx.x"};
    const int start = blockIdx.y * (${apply_threads} * V * ${apply_unroll});
%% endif
%% if problem == "batch_norm"
    const int group = row % channels;
%% else
    const int group = row / per_group;
%% endif
%% if combine == "inline"
    Two s = Two{0.0f, 0.0f};
    for (int k = threadIdx.x & 31; k < parts; k += 32) {
        s.a += final[2 * (group * parts + k)];
        s.b += final[2 * (group * parts + k) + 1];
    }
    s = warp_reduce(s, Add());
%% else
    const Two s = Two{final[2 * group], final[2 * group + 1]};
%% endif
%% if frobenius
    const float scale = 1.0f / sqrtf(s.a), shift = 0.0f;
%% else
    const float count = float(per_group) * float(plane);
    const float mean = s.a / count;
    float scale = rsqrtf(s.b / count - mean * mean + 1e-5f);
%% if affine
    scale *= weight[row % channels];
    const float shift = bias[row % channels] - mean * scale;
%% else
    const float shift = -mean * scale;
%% endif
%% endif
    const int origin = row * plane;
#pragma unroll
    for (int k = 0; k < ${apply_unroll}; ++k) {
        const int c = start + (k * ${apply_threads} + threadIdx.x) * V;
        if (c < plane) {
            Pack<float, V> a = load_pack<float, V>(x + origin + c);
#pragma unroll
            for (int e = 0; e < V; ++e) a.d[e] = a.d[e] * scale + shift;
            store_pack<float, V>(y + origin + c, a);
        }
    }
    }
}
%% host named
def run(x${", weight, bias" if affine else ""}):
    y = torch.empty_like(x)
    images, channels, plane = x.shape[0], x.shape[1], x.shape[2] * x.shape[3]
    rows = images * channels
%% if problem == "batch_norm"
    per_group = images
%% elif problem == "group_norm"
    per_group = channels // 8
%% elif problem == "instance_norm"
    per_group = 1
%% else
    per_group = rows
%% endif
    groups = rows // per_group
    vector = ${vector} if plane % ${vector} == 0 else 1
    share = ((plane + ${split - 1}) // ${split} + vector - 1) // vector * vector
%% if combine == "atomic"
    found = torch.zeros((groups, 2), dtype=torch.float32, device=x.device)
    final, counters = found, found
%% else
    found = torch.empty((rows, ${split}, 2), dtype=torch.float32, device=x.device)
%% if combine == "inline"
    final, counters = found, found
%% else
    final = torch.empty((groups, 2), dtype=torch.float32, device=x.device)
    counters = ${"torch.zeros(groups, dtype=torch.int32, device=x.device)" if combine == "last" else "found"}
%% endif
%% endif
    args = (x, found, counters, final, plane, channels, images, per_group, share)
    module.launch(f"measure<{vector}>", grid=(rows, ${split}), block=${threads}, args=args)
%% if combine == "finalize"
    module.launch("finalize", grid=groups, block=256, args=(found, final, per_group * ${split}))
%% endif
    span = ${apply_threads * apply_unroll} * vector
%% if walk == "strided"
    pieces = rows * ((plane + span - 1) // span)
    grid = min(pieces, torch.cuda.get_device_properties(x.device).multi_processor_count * ${per_sm})
%% else
    grid = (rows, (plane + span - 1) // span)
%% endif
    args = (x, ${"weight, bias" if affine else "x, x"}, y, final, rows, plane, channels, images, per_group,
            per_group * ${split})
    module.launch(f"apply<{vector}>", grid=grid, block=${apply_threads}, args=args)
    return y
