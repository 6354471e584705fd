// A paged int8 cache, collected and dequantised.
// family dequant_cuda for paged_kv_dequant
// shape walk = "page", "line", "flat", "stride"
// shape vec = 1, 4, 8, 16
// shape scale = "direct", "shared"
// pick lanes = 4, 8, 16, 32
// pick threads = 64, 128, 256, 512
// pick waves = 4, 8, 16
// pick unroll = 1, 2, 4
// refuse walk != "page" and scale != "direct": scales are staged by page
// refuse walk != "line" and lanes != 8: lanes belong to the line walk
// refuse walk != "stride" and waves != 8: waves belong to the grid stride
// refuse walk in ("line", "flat") and unroll != 1: nothing to unroll

#include <cuda_bf16.h>

const int VEC = ${vec}, THREADS = ${threads};

__device__ __forceinline__ void convert(const signed char* from, __nv_bfloat16* to, float scale) {
%% if vec == 1
    *to = __float2bfloat16((float)*from * scale);
%% else
    __align__(16) signed char raw[VEC];
    __align__(16) __nv_bfloat16 result[VEC];
%% if vec == 4
    *reinterpret_cast<unsigned*>(raw) = *reinterpret_cast<const unsigned*>(from);
%% elif vec == 8
    *reinterpret_cast<uint2*>(raw) = *reinterpret_cast<const uint2*>(from);
%% else
    *reinterpret_cast<uint4*>(raw) = *reinterpret_cast<const uint4*>(from);
%% endif
    #pragma unroll
    for (int i = 0; i < VEC; ++i) result[i] = __float2bfloat16((float)raw[i] * scale);
%% if vec == 4
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<uint2*>(result);
%% else
    #pragma unroll
    for (int i = 0; i < VEC / 8; ++i) reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<uint4*>(result)[i];
%% endif
%% endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
dequant(const signed char* __restrict__ pages, const float* __restrict__ scales, const int* __restrict__ table,
        __nv_bfloat16* __restrict__ out, int lines, int per_page, int dim) {
    int words = dim / VEC;
%% if walk == "page"
    long long page = table[blockIdx.x];
%% if scale == "shared"
    __shared__ float kept[1024];
    for (int i = threadIdx.x; i < per_page; i += THREADS) kept[i] = scales[page * per_page + i];
    __syncthreads();
%% endif
    #pragma unroll ${unroll}
    for (int i = threadIdx.x; i < per_page * words; i += THREADS) {
        int line = i / words;
%% if scale == "shared"
        float factor = kept[line];
%% else
        float factor = scales[page * per_page + line];
%% endif
        convert(pages + page * per_page * dim + (long long)i * VEC,
                out + (long long)blockIdx.x * per_page * dim + (long long)i * VEC, factor);
    }
%% elif walk == "line"
    int line = blockIdx.x * (THREADS / ${lanes}) + threadIdx.x / ${lanes};
    if (line >= lines) return;
    long long source = (long long)table[line / per_page] * per_page + line % per_page;
    float factor = scales[source];
    for (int c = threadIdx.x % ${lanes}; c < words; c += ${lanes})
        convert(pages + source * dim + c * VEC, out + (long long)line * dim + c * VEC, factor);
%% elif walk == "flat"
    long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long long)lines * words) return;
    int line = i / words;
    long long source = (long long)table[line / per_page] * per_page + line % per_page;
    convert(pages + source * dim + i % words * VEC, out + i * VEC, scales[source]);
%% else
    long long total = (long long)lines * words;
    #pragma unroll ${unroll}
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < total; i += (long long)gridDim.x * THREADS) {
        int line = i / words;
        long long source = (long long)table[line / per_page] * per_page + line % per_page;
        convert(pages + source * dim + i % words * VEC, out + i * VEC, scales[source]);
    }
%% endif
}
%% host
def run(pages, scales, page_table):
    batch, width = page_table.shape
    heads, dim = pages.shape[2], pages.shape[3]
    out = torch.empty((batch, width * 16, heads, dim), dtype=torch.bfloat16, device=pages.device)
    per_page = 16 * heads
    lines = batch * width * per_page
    words = dim // ${vec}
%% if walk == "page"
    grid = batch * width
%% elif walk == "line"
    grid = (lines + ${threads // lanes - 1}) // ${threads // lanes}
%% elif walk == "flat"
    grid = (lines * words + ${threads - 1}) // ${threads}
%% else
    grid = min(${waves} * 132, (lines * words + ${threads - 1}) // ${threads})
%% endif
    module.launch("dequant", grid=grid, block=${threads}, args=(pages, scales, page_table, out, lines, per_page, dim))
    return out
