%% section head
<%# Types, conversions, the elementwise functions that `full` uses, and macros of its epilogue. %>
%% macro cuda(expression)
${expression.replace("0.25", "0.25f").replace("2.0", "2.0f")}
%%- endmacro
%% macro apply(form)
%% if form.before != "v"
v = ${cuda(form.before)};
%% endif
%% endmacro
%% macro channel_values(form, channel)
%% for name in form.channel_inputs
const float ${name} = wide(${name}_in[${channel}]);
%% endfor
%% endmacro
%% macro signature()
extern "C" __global__ void __launch_bounds__(THREADS) convolve(const T* __restrict__ x, const T* __restrict__ weight, <%% for name in form.channel_inputs %%>const T* __restrict__ ${name}_in, <%% endfor %%>OUT* __restrict__ y, int images, int c_in, int c_out, ${"int group_in, int group_out, " if form.groups > 1 else ""}${form.listed("int in_{}")}, ${form.listed("int out_{}")}) {
%%- endmacro
<%# Sums `mine` over the block in a fixed order and stores it as the block's partial sum. %>
%% macro block_sum(threads)
__shared__ float sums[${threads}];
sums[threadIdx.x] = mine;
__syncthreads();
for (int half = ${threads // 2}; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
}
if (threadIdx.x == 0) y[(n * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = sums[0];
%% endmacro
%% if full.half
#include <cuda_bf16.h>
typedef __nv_bfloat16 T;
__device__ __forceinline__ float wide(T v) { return __bfloat162float(v); }
__device__ __forceinline__ void put(T* p, float v) { *p = __float2bfloat16(v); }
%% else
typedef float T;
__device__ __forceinline__ float wide(T v) { return v; }
%% endif
__device__ __forceinline__ void put(float* p, float v) { *p = v; }
%% if full.combine in ("max", "min")
#define INF __int_as_float(0x7f800000)
%% endif
%% if full.exponential
#define EXP ${"__expf" if math == "fast" else "expf"}
%% endif
%% if full.uses("relu")
__device__ __forceinline__ float relu(float v) { return fmaxf(v, 0.0f); }
%% endif
%% if full.uses("tanh_")
__device__ __forceinline__ float tanh_(float v) { return 1.0f - 2.0f / (EXP(2.0f * v) + 1.0f); }
%% endif
%% if full.uses("sigmoid")
__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + EXP(-v)); }
%% endif
%% if full.uses("hardswish")
__device__ __forceinline__ float hardswish(float v) { return v * fminf(fmaxf(v + 3.0f, 0.0f), 6.0f) / 6.0f; }
%% endif
<%% if full.uses("mish") %%>
__device__ __forceinline__ float mish(float v) { float e = EXP(fminf(v, 20.0f)); float q = e * e + 2.0f * e; return v * (q / (q + 2.0f)); }
<%% endif %%>
%% section finish
<%# The pass that turns raw convolution outputs, summed over splits, into the answer; and the sum of an image. %>
<%% if finishing %%>

<%% filter braced %%>
%% macro read()
float v = 0.0f;
for (int s = 0; s < ${splits}; ++s) v += buffer[s * (size_t)raw + at];
%% endmacro
extern "C" __global__ void finish(const float* __restrict__ buffer, <%% for name in full.channel_inputs %%>const T* __restrict__ ${name}_in, <%% endfor %%>${"float" if full.total else "T"}* __restrict__ y, int count, int c_out, int raw, ${"int out_h, int out_w, int px_h, int px_w" if full.window > 1 else "int plane"}) {
%% if full.total
    const int n = blockIdx.z;
    const int j = blockIdx.x * 256 + threadIdx.x;
    float mine = 0.0f;
    if (j < count) {
        const int i = n * count + j;
%% else
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
%% endif
%% if full.over_channels
    float best = INF;
    for (int c = 0; c < c_out; ++c) {
        const int at = (i / plane * c_out + c) * plane + i % plane;
        ${read()}
        ${channel_values(full, "c")}
        ${apply(full)}
        best = fminf(best, v);
    }
    put(y + i, best);
%% elif full.window > 1
    const int c = i / (px_h * px_w) % c_out;
    ${channel_values(full, "c")}
    float best = ${"-INF" if full.combine == "max" else "0.0f"};
    for (int k = 0; k < ${full.window ** 2}; ++k) {
        const int at = (i / (px_h * px_w) * out_h + i / px_w % px_h * ${full.window} + k / ${full.window}) * out_w
            + i % px_w * ${full.window} + k % ${full.window};
        ${read()}
        ${apply(full)}
        ${"best = fmaxf(best, v);" if full.combine == "max" else "best += v;"}
    }
%% if full.total
    const float v = best;
    mine = ${cuda(full.after)};
    }
    ${block_sum(256)}
%% else
    put(y + i, best);
%% endif
%% else
    const int at = i;
    const int c = i / plane % c_out;
    ${read()}
    ${channel_values(full, "c")}
    ${apply(full)}
    put(y + i, v);
%% endif
}
<%% endfilter %%>
<%% endif %%>
<%% if full.total %%>

extern "C" __global__ void total(const float* partial, float* y, int count) {
    const int n = blockIdx.x;
    float mine = 0.0f;
    for (int j = threadIdx.x; j < count; j += 256) mine += partial[n * count + j];
    __shared__ float sums[256];
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[n] = sums[0];
}
<%% endif %%>
%% section shapes
    n, c_in, ${full.listed("in_{}")} = x.shape
%% if full.groups > 1
    group_in, group_out = c_in // ${full.groups}, weight.shape[1]
    c_out = ${full.groups} * group_out
%% else
    c_out = weight.shape[${1 if full.transposed else 0}]
%% endif
%% for axis, count in full.loops
%% if full.transposed
    out_${axis} = (in_${axis} - 1) * ${full.stride} + ${count - 2 * full.padding}
%% else
    out_${axis} = (in_${axis} - ${full.reach(axis, 1)}) // ${full.stride} + 1
%% endif
%% endfor
%% section finish_launch
%% set extra = "" if not full.channel_inputs else full.channel_inputs | join(", ") ~ ", "
%% set raw = "n * c_out * " ~ full.volume("out_{}")
%% if full.window > 1
    px_h, px_w = out_h // ${full.window}, out_w // ${full.window}
%% endif
%% if full.total
    count = c_out * px_h * px_w
    parts = (count + 255) // 256
    partial = torch.empty((n, parts), device=x.device, dtype=torch.float32)
    module.launch("finish", grid=(parts, 1, n), block=256, args=(buffer, ${extra}partial, count, c_out, ${raw}, out_h, out_w, px_h, px_w))
    y = torch.empty((n,), device=x.device, dtype=x.dtype)
    module.launch("total", grid=n, block=256, args=(partial, y, parts))
%% else
%% set extents = "c_out, px_h, px_w" if full.window > 1 else ("1, " if full.over_channels else "c_out, ") ~ full.listed("out_{}")
    y = torch.empty((n, ${extents}), device=x.device, dtype=x.dtype)
    module.launch("finish", grid=(y.numel() + 255) // 256, block=256, args=(buffer, ${extra}y, y.numel(), c_out, ${raw}, ${"out_h, out_w, px_h, px_w" if full.window > 1 else full.volume("out_{}")}))
%% endif
    return y
