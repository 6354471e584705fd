// Attention over a whole prompt: one pass, two passes, or stored scores.
// family prefill_cuda for attention_prefill
// shape method = "two_pass", "flash", "stored"
// shape stage = True, False
// shape order = "rows", "heads"
// shape base = "two", "e"
// pick block = 16, 32, 64
// pick warps = 1, 2, 4, 8
// let scores = warps * 16 * (block + 8) * 6
// let sums = warps * 64 * 136 if method == "flash" else 0
// let staged = 2 * block * 136 if stage else 0
// refuse scores + sums + staged > 96000: shared memory

#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

const int WARPS = ${warps}, BLOCK = ${block}, LINE = BLOCK + 8;
const float LOWEST = -1.0e30f;

__device__ __forceinline__ float power(float x) { return ${"exp2f" if base == "two" else "__expf"}(x); }

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> Left;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> Keys;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> Values;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Sums;

%% if stage
template <int D>
__device__ __forceinline__ void fetch(const __nv_bfloat16* from, __nv_bfloat16* to) {
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK * D / 8; i += WARPS * 32) {
        int r = i / (D / 8), c = i % (D / 8);
        *reinterpret_cast<uint4*>(to + r * (D + 8) + c * 8) = reinterpret_cast<const uint4*>(from)[i];
    }
    __syncthreads();
}
%% endif

template <int D>
__device__ __forceinline__ void score(const Left* queries, const __nv_bfloat16* keys, int line, float* scores) {
    #pragma unroll
    for (int j = 0; j < BLOCK / 16; ++j) {
        Sums sums;
        wmma::fill_fragment(sums, 0.0f);
        #pragma unroll
        for (int d = 0; d < D / 16; ++d) {
            Keys part;
            wmma::load_matrix_sync(part, keys + j * 16 * line + d * 16, line);
            wmma::mma_sync(sums, queries[d], part, sums);
        }
        wmma::store_matrix_sync(scores + j * 16, sums, LINE, wmma::mem_row_major);
    }
    __syncwarp();
}

template <int D>
__device__ __forceinline__ void attend(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                                       __nv_bfloat16* out, float* kept, int length, float scale) {
    extern __shared__ __align__(128) char pool[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* scores = reinterpret_cast<float*>(pool) + warp * 16 * LINE;
    __nv_bfloat16* weights = reinterpret_cast<__nv_bfloat16*>(pool + WARPS * 16 * LINE * 4) + warp * 16 * LINE;
    char* rest = pool + WARPS * 16 * LINE * 6;
%% if method == "flash"
    float* outputs = reinterpret_cast<float*>(rest) + warp * 16 * (D + 8);
    rest += WARPS * 16 * (D + 8) * 4;
%% endif
%% if stage
    __nv_bfloat16* tile = reinterpret_cast<__nv_bfloat16*>(rest);
    const int line = D + 8;
%% else
    const int line = D;
%% endif
%% if order == "rows"
    long long head = blockIdx.y;
    int row0 = (blockIdx.x * WARPS + warp) * 16;
%% else
    long long head = blockIdx.x;
    int row0 = (blockIdx.y * WARPS + warp) * 16;
%% endif
    bool active = row0 < length;
    if (!active) row0 = 0;
    q += head * length * D;
    k += head * length * D;
    v += head * length * D;
    Left queries[D / 16];
    #pragma unroll
    for (int d = 0; d < D / 16; ++d) wmma::load_matrix_sync(queries[d], q + (long long)row0 * D + d * 16, D);
    // Two lanes share a row: each keeps the row's maximum and half of its sum.
    int row = lane / 2, half = lane % 2;
    float top = LOWEST, total = 0.0f;
%% if method == "flash"
    for (int i = lane; i < 16 * (D + 8); i += 32) outputs[i] = 0.0f;
    __syncwarp();
    for (int start = 0; start < length; start += BLOCK) {
%% if stage
        fetch<D>(k + (long long)start * D, tile);
        score<D>(queries, tile, line, scores);
        fetch<D>(v + (long long)start * D, tile);
        const __nv_bfloat16* values = tile;
%% else
        score<D>(queries, k + (long long)start * D, line, scores);
        const __nv_bfloat16* values = v + (long long)start * D;
%% endif
        float higher = top;
        for (int c = half; c < BLOCK; c += 2) higher = fmaxf(higher, scores[row * LINE + c] * scale);
        higher = fmaxf(higher, __shfl_xor_sync(0xffffffffu, higher, 1));
        float shrink = power(top - higher), sum = 0.0f;
        for (int c = half; c < BLOCK; c += 2) {
            float weight = power(scores[row * LINE + c] * scale - higher);
            sum += weight;
            weights[row * LINE + c] = __float2bfloat16(weight);
        }
        total = total * shrink + sum;
        top = higher;
        for (int c = half; c < D; c += 2) outputs[row * (D + 8) + c] *= shrink;
        __syncwarp();
        #pragma unroll
        for (int d = 0; d < D / 16; ++d) {
            Sums sums;
            wmma::load_matrix_sync(sums, outputs + d * 16, D + 8, wmma::mem_row_major);
            #pragma unroll
            for (int j = 0; j < BLOCK / 16; ++j) {
                Left left;
                Values right;
                wmma::load_matrix_sync(left, weights + j * 16, LINE);
                wmma::load_matrix_sync(right, values + j * 16 * line + d * 16, line);
                wmma::mma_sync(sums, left, right, sums);
            }
            wmma::store_matrix_sync(outputs + d * 16, sums, D + 8, wmma::mem_row_major);
        }
        __syncwarp();
    }
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    if (active)
        for (int c = half; c < D; c += 2)
            out[(head * length + row0 + row) * D + c] = __float2bfloat16(outputs[row * (D + 8) + c] / total);
%% else
%% if method == "stored"
    float* lines = kept + (head * length + row0) * length;
%% endif
    for (int start = 0; start < length; start += BLOCK) {
%% if stage
        fetch<D>(k + (long long)start * D, tile);
        score<D>(queries, tile, line, scores);
%% else
        score<D>(queries, k + (long long)start * D, line, scores);
%% endif
        float higher = top;
        for (int c = half; c < BLOCK; c += 2) higher = fmaxf(higher, scores[row * LINE + c] * scale);
        higher = fmaxf(higher, __shfl_xor_sync(0xffffffffu, higher, 1));
        total *= power(top - higher);
        for (int c = half; c < BLOCK; c += 2) total += power(scores[row * LINE + c] * scale - higher);
        top = higher;
%% if method == "stored"
        if (active)
            for (int i = lane; i < 16 * BLOCK; i += 32)
                lines[(long long)(i / BLOCK) * length + start + i % BLOCK] = scores[i / BLOCK * LINE + i % BLOCK];
%% endif
        __syncwarp();
    }
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    float inverse = 1.0f / total;
    Sums sums[D / 16];
    #pragma unroll
    for (int d = 0; d < D / 16; ++d) wmma::fill_fragment(sums[d], 0.0f);
    for (int start = 0; start < length; start += BLOCK) {
%% if method == "stored"
        if (active)
            for (int i = lane; i < 16 * BLOCK; i += 32)
                scores[i / BLOCK * LINE + i % BLOCK] = lines[(long long)(i / BLOCK) * length + start + i % BLOCK];
        __syncwarp();
%% elif stage
        fetch<D>(k + (long long)start * D, tile);
        score<D>(queries, tile, line, scores);
%% else
        score<D>(queries, k + (long long)start * D, line, scores);
%% endif
        for (int c = half; c < BLOCK; c += 2)
            weights[row * LINE + c] = __float2bfloat16(power(scores[row * LINE + c] * scale - top) * inverse);
%% if stage
        fetch<D>(v + (long long)start * D, tile);
        const __nv_bfloat16* values = tile;
%% else
        const __nv_bfloat16* values = v + (long long)start * D;
%% endif
        __syncwarp();
        #pragma unroll
        for (int j = 0; j < BLOCK / 16; ++j) {
            Left left;
            wmma::load_matrix_sync(left, weights + j * 16, LINE);
            #pragma unroll
            for (int d = 0; d < D / 16; ++d) {
                Values right;
                wmma::load_matrix_sync(right, values + j * 16 * line + d * 16, line);
                wmma::mma_sync(sums[d], left, right, sums[d]);
            }
        }
        __syncwarp();
    }
    #pragma unroll
    for (int d = 0; d < D / 16; ++d) {
        wmma::store_matrix_sync(scores, sums[d], LINE, wmma::mem_row_major);
        __syncwarp();
        if (active)
            for (int c = half; c < 16; c += 2)
                out[(head * length + row0 + row) * D + d * 16 + c] = __float2bfloat16(scores[row * LINE + c]);
        __syncwarp();
    }
%% endif
}

%% for dim in (64, 128)
extern "C" __global__ void __launch_bounds__(WARPS * 32)
attend_${dim}(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* out, float* kept,
           int length, float scale) {
    attend<${dim}>(q, k, v, out, kept, length, scale);
}
%% endfor
%% host
def run(q, k, v):
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
%% if method == "stored"
    kept = torch.empty((batch * heads, length, length), dtype=torch.float32, device=q.device)
%% else
    kept = q
%% endif
    scale = dim**-0.5${" * 1.4426950408889634" if base == "two" else ""}
    blocks = (length + ${16 * warps - 1}) // ${16 * warps}
%% if order == "rows"
    grid = (blocks, batch * heads)
%% else
    grid = (batch * heads, blocks)
%% endif
    shared = ${warps * 16 * (block + 8) * 6}
%% if method == "flash"
    shared += ${warps * 16 * 4} * (dim + 8)
%% endif
%% if stage
    shared += ${2 * block} * (dim + 8)
%% endif
    args = (q, k, v, out, kept, length, scale)
    module.launch(f"attend_{dim}", grid=grid, block=${warps * 32}, args=args, shared_bytes=shared)
    return out
