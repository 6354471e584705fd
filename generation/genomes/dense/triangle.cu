// The triangle multiplicative update: normalise and project, multiply, project back.
// family triangle_cuda for trimul
// shape storage = "float32", "bfloat16"
// shape product = "scalar", "tensor"
// shape lanes = "channels", "pairs"
// shape across = 1, 2, 4
// shape each = 1, 2, 4, 8
// pick depth = 8, 16, 32
// pick unroll = 1, 4, 8
// refuse storage == "float32" and product == "tensor": tensor cores take bfloat16

%% set kept = "__nv_bfloat16" if storage == "bfloat16" else "float"
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

typedef ${kept} kept_t;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void put(float* to, float x) { *to = x; }
__device__ __forceinline__ void put(__nv_bfloat16* to, float x) { *to = __float2bfloat16(x); }
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

extern "C" __global__ void __launch_bounds__(256)
find_stats(const float* __restrict__ x, float* __restrict__ means, float* __restrict__ scales, int pairs, int dim) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= pairs) return;
    const float* from = x + (long long)row * dim;
    float total = 0.0f;
    for (int i = lane; i < dim; i += 32) total += from[i];
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(0xffffffffu, total, gap);
    float mean = total / dim, squares = 0.0f;
    for (int i = lane; i < dim; i += 32) squares += (from[i] - mean) * (from[i] - mean);
    for (int gap = 16; gap > 0; gap /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, gap);
    if (lane == 0) {
        means[row] = mean;
        scales[row] = rsqrtf(squares / dim + 1.0e-5f);
    }
}

const int DEPTH = ${depth}, EACH = ${each}, ROWS = 16 * EACH;

extern "C" __global__ void __launch_bounds__(256)
project(const float* __restrict__ x, const float* __restrict__ mask, const float* __restrict__ means,
        const float* __restrict__ scales, const float* __restrict__ gain, const float* __restrict__ bias,
        const float* __restrict__ left, const float* __restrict__ right, const float* __restrict__ left_gate,
        const float* __restrict__ right_gate, const float* __restrict__ out_gate, kept_t* __restrict__ lefts,
        kept_t* __restrict__ rights, kept_t* __restrict__ gates, int pairs, int square, int dim) {
    __shared__ float tile[DEPTH][ROWS + 1], weights[5][DEPTH][17];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, first = blockIdx.x * ROWS, channel0 = blockIdx.y * 16;
    const float* sources[5] = {left, right, left_gate, right_gate, out_gate};
    float sums[5][EACH] = {};
    for (int depth = 0; depth < dim; depth += DEPTH) {
        __syncthreads();
        for (int i = threadIdx.x; i < ROWS * DEPTH; i += 256) {
            int r = i / DEPTH, d = i % DEPTH, row = first + r;
            float value = row < pairs ? (x[(long long)row * dim + depth + d] - means[row]) * scales[row] : 0.0f;
            tile[d][r] = value * gain[depth + d] + bias[depth + d];
        }
        #pragma unroll
        for (int s = 0; s < 5; ++s)
            for (int i = threadIdx.x; i < 16 * DEPTH; i += 256)
                weights[s][i % DEPTH][i / DEPTH] = sources[s][(channel0 + i / DEPTH) * dim + depth + i % DEPTH];
        __syncthreads();
        #pragma unroll ${unroll}
        for (int d = 0; d < DEPTH; ++d) {
%% if lanes == "channels"
            float w[5];
            #pragma unroll
            for (int s = 0; s < 5; ++s) w[s] = weights[s][d][tx];
            #pragma unroll
            for (int e = 0; e < EACH; ++e) {
                float value = tile[d][ty + 16 * e];
                #pragma unroll
                for (int s = 0; s < 5; ++s) sums[s][e] += value * w[s];
            }
%% else
            float w[5];
            #pragma unroll
            for (int s = 0; s < 5; ++s) w[s] = weights[s][d][ty];
            #pragma unroll
            for (int e = 0; e < EACH; ++e) {
                float value = tile[d][tx + 16 * e];
                #pragma unroll
                for (int s = 0; s < 5; ++s) sums[s][e] += value * w[s];
            }
%% endif
        }
    }
%% if lanes == "channels"
    int channel = channel0 + tx, lane = ty;
%% else
    int channel = channel0 + ty, lane = tx;
%% endif
    #pragma unroll
    for (int e = 0; e < EACH; ++e) {
        int row = first + lane + 16 * e;
        if (row >= pairs) continue;
        float use = mask[row];
        long long place = ((long long)(row / square) * 128 + channel) * square + row % square;
        put(lefts + place, sums[0][e] * use * sigmoid(sums[2][e]));
        put(rights + place, sums[1][e] * use * sigmoid(sums[3][e]));
        put(gates + (long long)row * 128 + channel, sigmoid(sums[4][e]));
    }
}

%% if storage == "bfloat16" and product == "tensor"
const int ACROSS = ${across};

extern "C" __global__ void __launch_bounds__(128)
multiply(const kept_t* __restrict__ lefts, const kept_t* __restrict__ rights, float* __restrict__ products,
         int length) {
    long long slab = (long long)blockIdx.z * length * length;
    int row = (blockIdx.y * 4 + threadIdx.x / 32) * 16, col = blockIdx.x * 16 * ACROSS;
    if (row >= length) return;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[ACROSS];
    #pragma unroll
    for (int j = 0; j < ACROSS; ++j) wmma::fill_fragment(sums[j], 0.0f);
    for (int k = 0; k < length; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left;
        wmma::load_matrix_sync(left, lefts + slab + (long long)row * length + k, length);
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            if (col + j * 16 >= length) continue;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> right;
            wmma::load_matrix_sync(right, rights + slab + (long long)(col + j * 16) * length + k, length);
            wmma::mma_sync(sums[j], left, right, sums[j]);
        }
    }
    #pragma unroll
    for (int j = 0; j < ACROSS; ++j)
        if (col + j * 16 < length)
            wmma::store_matrix_sync(products + slab + (long long)row * length + col + j * 16, sums[j], length,
                                    wmma::mem_row_major);
}
%% else
const int ACROSS = ${across}, SIDE = 16 * ACROSS;

extern "C" __global__ void __launch_bounds__(256)
multiply(const kept_t* __restrict__ lefts, const kept_t* __restrict__ rights, float* __restrict__ products,
         int length) {
    __shared__ float left[16][SIDE + 1], right[16][SIDE + 1];
    long long slab = (long long)blockIdx.z * length * length;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, row0 = blockIdx.y * SIDE, col0 = blockIdx.x * SIDE;
    float sums[ACROSS][ACROSS] = {};
    for (int k = 0; k < length; k += 16) {
        __syncthreads();
        for (int i = threadIdx.x; i < SIDE * 16; i += 256) {
            int r = i / 16, d = i % 16;
            left[d][r] = row0 + r < length ? widen(lefts[slab + (long long)(row0 + r) * length + k + d]) : 0.0f;
            right[d][r] = col0 + r < length ? widen(rights[slab + (long long)(col0 + r) * length + k + d]) : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int d = 0; d < 16; ++d) {
            float a[ACROSS], b[ACROSS];
            #pragma unroll
            for (int i = 0; i < ACROSS; ++i) {
                a[i] = left[d][ty + 16 * i];
                b[i] = right[d][tx + 16 * i];
            }
            #pragma unroll
            for (int i = 0; i < ACROSS; ++i)
                #pragma unroll
                for (int j = 0; j < ACROSS; ++j) sums[i][j] += a[i] * b[j];
        }
    }
    #pragma unroll
    for (int i = 0; i < ACROSS; ++i)
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            int r = row0 + ty + 16 * i, c = col0 + tx + 16 * j;
            if (r < length && c < length) products[slab + (long long)r * length + c] = sums[i][j];
        }
}
%% endif

extern "C" __global__ void __launch_bounds__(256)
project_back(const float* __restrict__ products, const kept_t* __restrict__ gates, const float* __restrict__ gain,
             const float* __restrict__ bias, const float* __restrict__ weight, float* __restrict__ out, int pairs,
             int square, int dim) {
    __shared__ float tile[32][129], part[32][33];
    int first = blockIdx.x * 32, tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    for (int channel = ty; channel < 128; channel += 8) {
        int row = first + tx;
        tile[tx][channel] = row < pairs
            ? products[((long long)(row / square) * 128 + channel) * square + row % square] : 0.0f;
    }
    __syncthreads();
    for (int r = ty; r < 32; r += 8) {
        float total = 0.0f, squares = 0.0f;
        for (int c = tx; c < 128; c += 32) total += tile[r][c];
        for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(0xffffffffu, total, gap);
        float mean = total / 128.0f;
        for (int c = tx; c < 128; c += 32) squares += (tile[r][c] - mean) * (tile[r][c] - mean);
        for (int gap = 16; gap > 0; gap /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, gap);
        float scale = rsqrtf(squares / 128.0f + 1.0e-5f);
        int row = min(first + r, pairs - 1);
        for (int c = tx; c < 128; c += 32)
            tile[r][c] = ((tile[r][c] - mean) * scale * gain[c] + bias[c]) * widen(gates[(long long)row * 128 + c]);
    }
    __syncthreads();
    for (int col0 = 0; col0 < dim; col0 += 32) {
        float sums[4] = {};
        for (int depth = 0; depth < 128; depth += 32) {
            __syncthreads();
            for (int i = threadIdx.x; i < 32 * 32; i += 256)
                part[i % 32][i / 32] = weight[(long long)(col0 + i / 32) * 128 + depth + i % 32];
            __syncthreads();
            #pragma unroll ${unroll}
            for (int d = 0; d < 32; ++d) {
                float w = part[d][tx];
                #pragma unroll
                for (int e = 0; e < 4; ++e) sums[e] += tile[ty + 8 * e][depth + d] * w;
            }
        }
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            int row = first + ty + 8 * e;
            if (row < pairs) out[(long long)row * dim + col0 + tx] = sums[e];
        }
    }
}
%% host
def run(x, mask, norm_weight, norm_bias, left_weight, right_weight, left_gate_weight, right_gate_weight,
        out_gate_weight, out_norm_weight, out_norm_bias, out_weight):
    batch, length, dim = x.shape[0], x.shape[1], x.shape[3]
    square = length * length
    pairs = batch * square
    lefts = torch.empty((batch, 128, length, length), dtype=torch.${storage}, device=x.device)
    rights = torch.empty((batch, 128, length, length), dtype=torch.${storage}, device=x.device)
    gates = torch.empty((pairs, 128), dtype=torch.${storage}, device=x.device)
    products = torch.empty((batch, 128, length, length), dtype=torch.float32, device=x.device)
    means = torch.empty(pairs, dtype=torch.float32, device=x.device)
    scales = torch.empty(pairs, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    module.launch("find_stats", grid=(pairs + 7) // 8, block=256, args=(x, means, scales, pairs, dim))
    args = (x, mask, means, scales, norm_weight, norm_bias, left_weight, right_weight, left_gate_weight,
            right_gate_weight, out_gate_weight, lefts, rights, gates, pairs, square, dim)
    module.launch("project", grid=((pairs + ${16 * each - 1}) // ${16 * each}, 8), block=256, args=args)
    wide = (length + ${16 * across - 1}) // ${16 * across}
%% if storage == "bfloat16" and product == "tensor"
    grid, block = (wide, (length + 63) // 64, batch * 128), 128
%% else
    grid, block = (wide, wide, batch * 128), 256
%% endif
    module.launch("multiply", grid=grid, block=block, args=(lefts, rights, products, length))
    args = (products, gates, out_norm_weight, out_norm_bias, out_weight, out, pairs, square, dim)
    module.launch("project_back", grid=(pairs + 31) // 32, block=256, args=args)
    return out
