// Pooling and depthwise windows in CUDA: straight from memory, from a staged tile, one pass per axis, or from registers.
// facts form = spatial/windows.toml
// let form = Window(form)
// let flat = len(form.axes) == 1
// let separable = not flat and not form.weighted
%% section head
%% macro join(value, weight="")
%% if form.op == "max"
acc = fmaxf(acc, ${value});
%% elif form.weighted
acc = fmaf(${weight}, ${value}, acc);
%% else
acc += ${value};
%% endif
%% endmacro
%% macro finish(target)
%% if form.op == "mean"
acc *= ${1 / form.tap_count}f;
%% endif
%% if form.silu
acc += wide(bias[channel]);
acc = acc / (1.0f + expf(-acc));
%% endif
${target} = narrow(acc);
%% endmacro
%% macro signature(threads)
extern "C" __global__ void __launch_bounds__(${threads}) slide(<%% for name in form.inputs %%>const T* __restrict__ ${name}, <%% endfor %%>T* __restrict__ y, int count, int channels, ${form.listed("int in_{}")}, ${form.listed("int out_{}")}) {
%%- endmacro
<%# Opens the loop over an axis's taps, with the tap's input coordinate. %>
%% macro tap_loop(axis, count)
#pragma unroll${"" if taps == "unrolled" else " 1"}
for (int k${axis} = 0; k${axis} < ${count}; ++k${axis}) {
    const int i${axis} = ${form.input_place(axis, "k" ~ axis)};
%% if form.padding
    if (i${axis} < 0 || i${axis} >= in_${axis}) continue;
%% endif
%% endmacro
%% if form.half
#include <cuda_bf16.h>
typedef __nv_bfloat16 T;
__device__ __forceinline__ float wide(T v) { return __bfloat162float(v); }
__device__ __forceinline__ T narrow(float v) { return __float2bfloat16(v); }
%% else
typedef float T;
__device__ __forceinline__ float wide(T v) { return v; }
__device__ __forceinline__ T narrow(float v) { return v; }
%% endif
#define READ(p) ${"*(p)" if read == "plain" else "__" ~ read ~ "(p)"}
#define NEUTRAL ${"(-__int_as_float(0x7f800000))" if form.op == "max" else "0.0f"}
%% section shapes
    n, channels, ${form.listed("in_{}")} = x.shape
%% for axis in form.axes
    out_${axis} = ${form.output_extent(axis)}
%% endfor
    y = torch.empty((n, channels, ${form.listed("out_{}")}), device=x.device, dtype=x.dtype)
%% section launch
    module.launch("slide", grid=${grid}, block=${threads}, args=(${form.inputs | join(", ")}, y, y.numel(), channels, ${form.listed("in_{}")}, ${form.listed("out_{}")}))
    return y
%% section direct
// family window_direct_cuda where True
// shape mapping = "adjacent", "strided", "grid_stride"
// shape taps = "unrolled", "looped"
// pick read = "plain", "ldg", "ldcs"
// pick each = 1, 2, 4, 8
// pick threads = 64, 128, 256, 512
// refuse mapping == "grid_stride" and each != 1: a grid-stride loop has no fixed share
// refuse mapping == "strided" and each == 1: one output per thread has no stride

<%# Every tap is read from memory. %>
<%% include "spatial/window.cu#head" %%>

%% macro output()
const int w = i % out_w;
%% set below = namespace(text="out_w")
%% for axis in form.axes[:-1] | reverse
const int ${axis} = i / (${below.text}) % out_${axis};
%% set below.text = below.text ~ " * out_" ~ axis
%% endfor
const int plane = i / (${below.text});
const T* from = x + (size_t)plane * (${form.volume("in_{}")});
%% if form.weighted
const int channel = plane % channels;
%% endif
float acc = NEUTRAL;
%% for axis, count in form.loops
${tap_loop(axis, count)}
%% endfor
${join("wide(READ(from + " ~ form.offset("i{}", "in_{}") ~ "))", "wide(READ(weight + channel * " ~ form.tap_count ~ " + " ~ form.tap() ~ "))")}
${"}\n" * form.axes | length}
${finish("y[i]")}
%% endmacro
%% filter braced
${signature(threads)}
%% if mapping == "grid_stride"
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        ${output()}
    }
%% else
    #pragma unroll
    for (int j = 0; j < ${each}; ++j) {
%% if mapping == "adjacent"
        const int i = (blockIdx.x * blockDim.x + threadIdx.x) * ${each} + j;
%% else
        const int i = blockIdx.x * ${threads * each} + threadIdx.x + j * ${threads};
%% endif
        if (i < count) {
            ${output()}
        }
    }
%% endif
}
%% endfilter
%% host
%% if mapping == "grid_stride"
%% set grid = "min((y.numel() + " ~ (threads - 1) ~ ") // " ~ threads ~ ", " ~ 132 * 2048 // threads ~ ")"
%% else
%% set grid = "(y.numel() + " ~ (threads * each - 1) ~ ") // " ~ threads * each
%% endif
def run(${form.inputs | join(", ")}):
<%% include "spatial/window.cu#shapes" %%>
<%% include "spatial/window.cu#launch" %%>
%% section staged
// family window_staged_cuda where True
// shape reduction = ("full", "separable") if separable else "full"
// pick tw = (128, 256, 512, 1024) if flat else (32, 64, 128)
// pick th = 1 if flat else (2, 4, 8, 16)
// pick pad = 0, 1
// pick read = "plain", "ldg", "ldcs"
// pick threads = 64, 128, 256
// refuse not threads <= tw * th <= 16 * threads: outputs do not fit the threads
// let tile_rows = form.reach("h", th)
// let words = tile_rows * (form.reach("w", tw) + 1) + (tile_rows * tw if reduction == "separable" else 0)
// refuse 4 * words > 48 * 1024: more than 48 KiB of shared memory

<%# A tile of each plane is staged in shared memory. %>
%% set rank = form.axes | length
<%% include "spatial/window.cu#head" %%>
#define TW ${tw}
#define TH ${th}
#define IW ${form.reach("w", tw)}
#define IH ${form.reach("h", th)}
#define THREADS ${threads}
#define EACH ${(tw * th + threads - 1) // threads}

%% set stride, step, shift = "" | times(form.stride), "" | times(form.dilation), " - " ~ form.padding if form.padding else ""
<%# The tile's inputs, neutral outside the plane. %>
%% macro fill()
for (int e = threadIdx.x; e < IH * IW; e += THREADS) {
    const int c = w0${stride}${shift} + e % IW;
%% if rank > 1
    const int r = h0${stride}${shift} + e / IW;
%% endif
    tile[e / IW][e % IW] = ${"c >= 0 && " if form.padding else ""}c < in_w${"" if rank == 1 else " && r >= 0 && r < in_h" if form.padding else " && r < in_h"} ? wide(READ(from + ${"id * in_h * in_w + " if rank == 3 else ""}${"r * in_w + " if rank > 1 else ""}c)) : NEUTRAL;
}
__syncthreads();
%% endmacro
%% macro reduce()
%% if reduction == "separable"
for (int e = threadIdx.x; e < IH * TW; e += THREADS) {
    float acc = NEUTRAL;
    #pragma unroll
    for (int kw = 0; kw < ${form.taps[-1]}; ++kw) {
        ${join("tile[e / TW][e % TW" ~ stride ~ " + kw" ~ step ~ "]")}
    }
    rows[e / TW][e % TW] = acc;
}
__syncthreads();
%% endif
#pragma unroll
for (int j = 0; j < EACH; ++j) {
    const int e = threadIdx.x + j * THREADS;
    if (e < TW * TH) {
        float acc = accs[j];
%% if reduction == "separable"
        #pragma unroll
        for (int kh = 0; kh < ${form.taps[-2]}; ++kh) {
            ${join("rows[e / TW" ~ stride ~ " + kh" ~ step ~ "][e % TW]")}
        }
%% else
%% for axis, count in form.loops[-2:]
        #pragma unroll
        for (int k${axis} = 0; k${axis} < ${count}; ++k${axis}) {
%% endfor
            ${join("tile[" ~ ("0" if rank == 1 else "e / TW" ~ stride ~ " + kh" ~ step) ~ "][e % TW" ~ stride ~ " + kw" ~ step ~ "]", "wide(weight[channel * " ~ form.tap_count ~ " + " ~ ("kw" if rank == 1 else "kh * " ~ form.taps[-1] ~ " + kw") ~ "])")}
${"}\n" * (1 if rank == 1 else 2)}
%% endif
        accs[j] = acc;
    }
}
%% endmacro
%% filter braced
${signature(threads)}
    int b = blockIdx.x;
    const int across = (out_w + TW - 1) / TW;
    const int w0 = b % across * TW;
    b /= across;
%% if rank > 1
    const int down = (out_h + TH - 1) / TH;
    const int h0 = b % down * TH;
    b /= down;
%% endif
%% if rank == 3
    const int d = b % out_d;
    b /= out_d;
%% endif
    const int plane = b;
    const int out_plane = ${form.volume("out_{}")};
    const T* from = x + (size_t)plane * (${form.volume("in_{}")});
%% if form.weighted
    const int channel = plane % channels;
%% endif
    __shared__ float tile[IH][IW + ${pad}];
%% if reduction == "separable"
    __shared__ float rows[IH][TW];
%% endif
    float accs[EACH];
    #pragma unroll
    for (int j = 0; j < EACH; ++j) accs[j] = NEUTRAL;
%% if rank == 3
    for (int kd = 0; kd < ${form.taps[0]}; ++kd) {
        const int id = ${form.input_place("d", "kd")};
%% if form.padding
        if (id < 0 || id >= in_d) continue;
%% endif
        ${fill()}
        ${reduce()}
        __syncthreads();
    }
%% else
    ${fill()}
    ${reduce()}
%% endif
    #pragma unroll
    for (int j = 0; j < EACH; ++j) {
        const int e = threadIdx.x + j * THREADS;
        const int w = w0 + e % TW;
%% if rank > 1
        const int h = h0 + e / TW;
%% endif
        if (e < TW * TH && w < out_w${" && h < out_h" if rank > 1 else ""}) {
            float acc = accs[j];
            ${finish("y[(size_t)plane * out_plane + " ~ form.offset("{}", "out_{}") ~ "]")}
        }
    }
}
%% endfilter
%% host
%% set grid = "n * channels" ~ (" * out_d" if rank == 3 else "") ~ (" * ((out_h + " ~ (th - 1) ~ ") // " ~ th ~ ")" if rank > 1 else "") ~ " * ((out_w + " ~ (tw - 1) ~ ") // " ~ tw ~ ")"
def run(${form.inputs | join(", ")}):
<%% include "spatial/window.cu#shapes" %%>
<%% include "spatial/window.cu#launch" %%>
%% section separable
// family window_separable_cuda where separable
// shape order = "inner_first", "outer_first"
// shape taps = "unrolled", "looped"
// pick read = "plain", "ldg", "ldcs"
// pick each = 1, 2, 4
// pick threads = 128, 256, 512

<%# One axis after another, through intermediate tensors. %>
<%% include "spatial/window.cu#head" %%>

%% filter braced
extern "C" __global__ void reduce(const T* __restrict__ x, T* __restrict__ y, int count, int inner, int in_extent, int out_extent) {
    for (int j = 0; j < ${each}; ++j) {
        const int i = blockIdx.x * ${threads * each} + threadIdx.x + j * ${threads};
        if (i < count) {
            const int place = i / inner % out_extent;
            const T* from = x + (size_t)(i / (inner * out_extent)) * in_extent * inner + i % inner;
            float acc = NEUTRAL;
            #pragma unroll${"" if taps == "unrolled" else " 1"}
            for (int k = 0; k < ${form.taps[-1]}; ++k) {
                const int at = ${form.input_place("place", "k")};
                if (at >= 0 && at < in_extent) ${join("wide(READ(from + (size_t)at * inner))")}
            }
%% if form.op == "mean"
            acc *= ${1 / form.taps[-1]}f;
%% endif
            y[i] = narrow(acc);
        }
    }
}
%% endfilter
%% host
def run(x):
    n, channels, ${form.listed("in_{}")} = x.shape
%% for axis in form.axes
    out_${axis} = ${form.output_extent(axis)}
%% endfor
%% for axis, extents, inner in form.passes(order == "outer_first")
    y = torch.empty((n, channels, ${extents}), device=x.device, dtype=x.dtype)
    module.launch("reduce", grid=(y.numel() + ${threads * each - 1}) // ${threads * each}, block=${threads}, args=(x, y, y.numel(), ${inner}, in_${axis}, out_${axis}))
%% if not loop.last
    x = y
%% endif
%% endfor
    return y
%% section segment
// family window_segment_cuda where True
// shape grid = "plain", "grid_stride"
// shape taps = "unrolled" if flat else ("unrolled", "looped")
// pick read = "plain", "ldg", "ldcs"
// pick each = 2, 3, 4, 8
// pick threads = 64, 128, 256, 512

<%# A thread slides over a segment of a row that it keeps in registers. %>
<%% include "spatial/window.cu#head" %%>
#define THREADS ${threads}
#define EACH ${each}
#define SEGMENT ${form.reach("w", each)}

%% set stride, step = "" | times(form.stride), "" | times(form.dilation)
%% macro output()
const int across = (out_w + EACH - 1) / EACH;
const int w0 = t % across * EACH;
int rest = t / across;
%% for axis in form.axes[:-1] | reverse
const int ${axis} = rest % out_${axis};
rest /= out_${axis};
%% endfor
const int plane = rest;
%% if form.weighted
const int channel = plane % channels;
%% endif
const T* from = x + (size_t)plane * (${form.volume("in_{}")});
float accs[EACH];
#pragma unroll
for (int j = 0; j < EACH; ++j) accs[j] = NEUTRAL;
%% for axis, count in form.loops[:-1]
${tap_loop(axis, count)}
%% endfor
float row[SEGMENT];
#pragma unroll
for (int s = 0; s < SEGMENT; ++s) {
    const int c = w0${stride}${" - " ~ form.padding if form.padding else ""} + s;
    row[s] = ${"c >= 0 && " if form.padding else ""}c < in_w ? wide(READ(from + ${form.row()})) : NEUTRAL;
}
#pragma unroll
for (int kw = 0; kw < ${form.taps[-1]}; ++kw) {
%% if form.weighted
    const float f = wide(weight[channel * ${form.tap_count} + ${form.tap()}]);
%% endif
    #pragma unroll
    for (int j = 0; j < EACH; ++j) ${join("row[j" ~ stride ~ " + kw" ~ step ~ "]", "f") | replace("acc", "accs[j]")}
}
${"}\n" * (form.axes | length - 1)}
#pragma unroll
for (int j = 0; j < EACH; ++j) {
    if (w0 + j < out_w) {
        const int w = w0 + j;
        float acc = accs[j];
        ${finish("y[(size_t)plane * (" ~ form.volume("out_{}") ~ ") + " ~ form.offset("{}", "out_{}") ~ "]")}
    }
}
%% endmacro
%% filter braced
${signature("THREADS")}
    const int segments = count / out_w * ((out_w + EACH - 1) / EACH);
%% if grid == "plain"
    const int t = blockIdx.x * THREADS + threadIdx.x;
    if (t >= segments) return;
    ${output()}
%% else
    for (int t = blockIdx.x * THREADS + threadIdx.x; t < segments; t += gridDim.x * THREADS) {
        ${output()}
    }
%% endif
}
%% endfilter
%% host
%% set blocks = "(segments + " ~ (threads - 1) ~ ") // " ~ threads
%% set grid = blocks if grid == "plain" else "min(" ~ blocks ~ ", " ~ 132 * 2048 // threads ~ ")"
def run(${form.inputs | join(", ")}):
<%% include "spatial/window.cu#shapes" %%>
    segments = y.numel() // out_w * ((out_w + ${each - 1}) // ${each})
<%% include "spatial/window.cu#launch" %%>
