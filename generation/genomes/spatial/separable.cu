// Depthwise-separable convolutions: both stages in one pass, or the depthwise stage written out first.
// family separable_cuda for depthwise_separable_conv2d
// shape stages = "per_thread", "per_block", "two_pass"
// shape weights = "global", "shared"
// shape taps = "unrolled", "looped"
// shape pixels = "adjacent", "strided"
// pick tc = 1, 2, 4, 8, 16, 32
// pick tp = 1, 2, 4
// pick threads = 64, 128, 256
// let each = tc * tp
// refuse each > 64: {each} accumulators per thread
// refuse tp == 1 and pixels == "strided": one pixel per thread has no stride
// refuse stages == "per_block" and weights == "shared": a block that walks over all channels reads weights from memory
// refuse stages == "per_block" and threads * tp > 512: filtered pixels of 32 channels exceed 64 KiB

%% set two_pass = stages == "two_pass"
%% macro filter(filters)
%% set pragma = "#pragma unroll" if taps == "unrolled" else "#pragma unroll 1"
float value = 0.0f;
${pragma}
for (int kh = 0; kh < 3; ++kh) {
    ${pragma}
    for (int kw = 0; kw < 3; ++kw) {
        value = fmaf((depthwise + ${filters} * 9)[kh * 3 + kw], from[kh * in_w + kw], value);
    }
}
%% endmacro
%% macro clear()
float acc[TC][TP];
#pragma unroll
for (int i = 0; i < TC; ++i) {
    #pragma unroll
    for (int j = 0; j < TP; ++j) {
        acc[i][j] = 0.0f;
    }
}
%% endmacro
%% macro mix(weight, value)
#pragma unroll
for (int i = 0; i < TC; ++i) {
    const float f = ${weight};
    #pragma unroll
    for (int j = 0; j < TP; ++j) {
        acc[i][j] = fmaf(f, ${value}, acc[i][j]);
    }
}
%% endmacro
%% macro store()
#pragma unroll
for (int i = 0; i < TC; ++i) {
    if (c0 + i < c_out) {
        #pragma unroll
        for (int j = 0; j < TP; ++j) {
            if (exists[j]) y[(size_t)(n * c_out + c0 + i) * plane + places[j]] = acc[i][j];
        }
    }
}
%% endmacro
#define THREADS ${threads}
#define TC ${tc}
#define TP ${tp}

<%% if two_pass %%>
<%% filter packed %%>
extern "C" __global__ void filter_planes(const float* __restrict__ x, const float* __restrict__ depthwise, float* __restrict__ z, int count, int c_in, int in_h, int in_w, int px_h, int px_w) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    const int plane = i / (px_h * px_w);
    const float* from = x + (size_t)(plane * in_h + i / px_w % px_h) * in_w + i % px_w;
${filter("plane % c_in") | indent(4, true)}
    z[i] = value;
}
<%% endfilter %%>

<%% endif %%>
%% filter packed
extern "C" __global__ void __launch_bounds__(THREADS) mix(const float* __restrict__ x, ${"" if two_pass else "const float* __restrict__ depthwise, "}const float* __restrict__ pointwise, float* __restrict__ y, int c_in, int c_out, int in_h, int in_w, int px_h, int px_w) {
    const int n = blockIdx.z${"" if stages == "per_block" else ", c0 = blockIdx.y * TC"};
    const int plane = px_h * px_w;
    bool exists[TP];
    int places[TP], corners[TP];
    #pragma unroll
    for (int j = 0; j < TP; ++j) {
        const int p = blockIdx.x * (THREADS * TP) + ${"threadIdx.x * TP + j" if pixels == "adjacent" else "threadIdx.x + j * THREADS"};
        exists[j] = p < plane;
        places[j] = exists[j] ? p : 0;
        corners[j] = places[j] / px_w * in_w + places[j] % px_w;
    }
%% if stages == "per_block"
<%# A block filters its pixels once for all input channels, then walks over all output channels. %>
    extern __shared__ float staged[];
    for (int ci = 0; ci < c_in; ++ci) {
        #pragma unroll
        for (int j = 0; j < TP; ++j) {
            const float* from = x + (size_t)(n * c_in + ci) * in_h * in_w + corners[j];
${filter("ci") | indent(12, true)}
            staged[(ci * TP + j) * THREADS + threadIdx.x] = value;
        }
    }
<%# Each thread reads back only what it wrote itself, so no barrier is needed. %>
    for (int c0 = 0; c0 < c_out; c0 += TC) {
${clear() | indent(8, true)}
        for (int ci = 0; ci < c_in; ++ci) {
${mix("pointwise[min(c0 + i, c_out - 1) * c_in + ci]", "staged[(ci * TP + j) * THREADS + threadIdx.x]") | indent(12, true)}
        }
${store() | indent(8, true)}
    }
%% else
<%# Every thread filters its own pixels for every input channel, for one group of output channels. %>
%% if weights == "shared"
    extern __shared__ float staged[];
    for (int e = threadIdx.x; e < c_in * TC; e += THREADS) {
        staged[e] = pointwise[min(c0 + e % TC, c_out - 1) * c_in + e / TC];
    }
    __syncthreads();
%% endif
${clear() | indent(4, true)}
    for (int ci = 0; ci < c_in; ++ci) {
        float values[TP];
        #pragma unroll
        for (int j = 0; j < TP; ++j) {
%% if two_pass
            values[j] = x[(size_t)(n * c_in + ci) * plane + places[j]];
%% else
            const float* from = x + (size_t)(n * c_in + ci) * in_h * in_w + corners[j];
${filter("ci") | indent(12, true)}
            values[j] = value;
%% endif
        }
${mix("staged[ci * TC + i]" if weights == "shared" else "pointwise[min(c0 + i, c_out - 1) * c_in + ci]", "values[j]") | indent(8, true)}
    }
${store() | indent(4, true)}
%% endif
}
%% endfilter
%% host
def run(x, depthwise, pointwise):
    n, c_in, in_h, in_w = x.shape
    c_out = pointwise.shape[0]
    px_h, px_w = in_h - 2, in_w - 2
    y = torch.empty((n, c_out, px_h, px_w), device=x.device, dtype=x.dtype)
%% if two_pass
    z = torch.empty((n, c_in, px_h, px_w), device=x.device, dtype=x.dtype)
    module.launch("filter_planes", grid=(z.numel() + 255) // 256, block=256, args=(x, depthwise, z, z.numel(), c_in, in_h, in_w, px_h, px_w))
%% endif
%% set blocks = "(px_h * px_w + " ~ (threads * tp - 1) ~ ") // " ~ threads * tp
%% set groups = "1" if stages == "per_block" else "(c_out + " ~ (tc - 1) ~ ") // " ~ tc
%% if stages == "per_block"
%% set shared = ", shared_bytes=" ~ 4 * threads * tp ~ " * c_in"
%% else
%% set shared = ", shared_bytes=" ~ 4 * tc ~ " * c_in" if weights == "shared" else ""
%% endif
    module.launch("mix", grid=(${blocks}, ${groups}, n), block=${threads}, args=(${"z" if two_pass else "x, depthwise"}, pointwise, y, c_in, c_out, in_h, in_w, px_h, px_w)${shared})
    return y
