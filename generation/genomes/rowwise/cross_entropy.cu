// Cross entropy with its gradient.
// family cross_entropy_cuda for cross_entropy_fwd_bwd
// shape method = "fused", "separate", "split"
// shape sums = "online", "packs", "two_pass"
// shape walk = "rows", "persistent"
// shape vec = 1, 2, 4, 8
// pick threads = 128, 256, 512, 1024
// pick split = 2, 4, 8
// pick unroll = 1, 2, 4
// refuse method == "split" and walk == "persistent": the split form has its own grid
// refuse method == "fused" and walk == "rows" and (split != 4): nothing to split

#include <cuda_bf16.h>

const int THREADS = ${threads}, WARPS = THREADS / 32, VEC = ${vec};
const float LOWEST = -1.0e30f;

struct Pack {
    __align__(16) __nv_bfloat16 item[VEC];
};

__device__ __forceinline__ Pack load(const __nv_bfloat16* from) {
    Pack pack;
%% if vec == 8
    *reinterpret_cast<uint4*>(pack.item) = *reinterpret_cast<const uint4*>(from);
%% elif vec == 4
    *reinterpret_cast<uint2*>(pack.item) = *reinterpret_cast<const uint2*>(from);
%% elif vec == 2
    *reinterpret_cast<unsigned*>(pack.item) = *reinterpret_cast<const unsigned*>(from);
%% else
    pack.item[0] = *from;
%% endif
    return pack;
}

__device__ __forceinline__ void store(__nv_bfloat16* to, const Pack& pack) {
%% if vec == 8
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(pack.item);
%% elif vec == 4
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(pack.item);
%% elif vec == 2
    *reinterpret_cast<unsigned*>(to) = *reinterpret_cast<const unsigned*>(pack.item);
%% else
    *to = pack.item[0];
%% endif
}

__device__ __forceinline__ void join(float& top, float& total, float other_top, float other_total) {
    float higher = fmaxf(top, other_top);
    total = total * __expf(top - higher) + other_total * __expf(other_top - higher);
    top = higher;
}

__device__ __forceinline__ void join_block(float& top, float& total) {
    __shared__ float tops[32], totals[32];
    for (int gap = 16; gap > 0; gap /= 2) {
        float other_top = __shfl_xor_sync(0xffffffffu, top, gap);
        float other_total = __shfl_xor_sync(0xffffffffu, total, gap);
        join(top, total, other_top, other_total);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        tops[threadIdx.x / 32] = top;
        totals[threadIdx.x / 32] = total;
    }
    __syncthreads();
    top = tops[0];
    total = totals[0];
    for (int w = 1; w < WARPS; ++w) join(top, total, tops[w], totals[w]);
}

__device__ __forceinline__ float sum_row(const __nv_bfloat16* row, int first, int last, float& total) {
    float top = LOWEST;
    total = 0.0f;
%% if sums == "two_pass"
    for (int i = first + threadIdx.x * VEC; i < last; i += THREADS * VEC) {
        Pack pack = load(row + i);
        #pragma unroll
        for (int j = 0; j < VEC; ++j) top = fmaxf(top, __bfloat162float(pack.item[j]));
    }
    float ignored = 0.0f;
    join_block(top, ignored);
    #pragma unroll ${unroll}
    for (int i = first + threadIdx.x * VEC; i < last; i += THREADS * VEC) {
        Pack pack = load(row + i);
        #pragma unroll
        for (int j = 0; j < VEC; ++j) total += __expf(__bfloat162float(pack.item[j]) - top);
    }
%% else
    #pragma unroll ${unroll}
    for (int i = first + threadIdx.x * VEC; i < last; i += THREADS * VEC) {
        Pack pack = load(row + i);
%% if sums == "online"
        #pragma unroll
        for (int j = 0; j < VEC; ++j) {
            float value = __bfloat162float(pack.item[j]);
            if (value > top) {
                total *= __expf(top - value);
                top = value;
            }
            total += __expf(value - top);
        }
%% else
        float higher = top;
        #pragma unroll
        for (int j = 0; j < VEC; ++j) higher = fmaxf(higher, __bfloat162float(pack.item[j]));
        total *= __expf(top - higher);
        #pragma unroll
        for (int j = 0; j < VEC; ++j) total += __expf(__bfloat162float(pack.item[j]) - higher);
        top = higher;
%% endif
    }
%% endif
    join_block(top, total);
    return top;
}

__device__ __forceinline__ void write_gradient(const __nv_bfloat16* row, __nv_bfloat16* out, int first, int last,
                                               int step, int target, float log_sum, float factor) {
    #pragma unroll ${unroll}
    for (int i = first; i < last; i += step) {
        Pack pack = load(row + i);
        #pragma unroll
        for (int j = 0; j < VEC; ++j) {
            float share = __expf(__bfloat162float(pack.item[j]) - log_sum);
            if (i + j == target) share -= 1.0f;
            pack.item[j] = __float2bfloat16(share * factor);
        }
        store(out + i, pack);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
loss(const __nv_bfloat16* __restrict__ logits, const long long* __restrict__ targets, const float* __restrict__ weights,
     float* losses, __nv_bfloat16* __restrict__ grad, float* sums, float* parts, int rows, int vocab, int share) {
%% if method == "split"
    long long row = blockIdx.x;
    float total;
    int first = blockIdx.y * share;
    float top = sum_row(logits + row * vocab, first, min(vocab, first + share), total);
    if (threadIdx.x == 0) {
        parts[(row * ${split} + blockIdx.y) * 2] = top;
        parts[(row * ${split} + blockIdx.y) * 2 + 1] = total;
    }
%% else
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const __nv_bfloat16* from = logits + row * vocab;
        float total;
        float top = sum_row(from, 0, vocab, total);
        float log_sum = top + logf(total);
        int target = targets[row];
        if (threadIdx.x == 0) {
            losses[row] = log_sum - __bfloat162float(from[target]);
            sums[row] = log_sum;
        }
%% if method == "fused"
        write_gradient(from, grad + row * vocab, threadIdx.x * VEC, vocab, THREADS * VEC, target, log_sum,
                       weights[row]);
%% endif
    }
%% endif
}

%% if method == "split"
extern "C" __global__ void
finish(const __nv_bfloat16* __restrict__ logits, const long long* __restrict__ targets, const float* __restrict__ parts,
       float* losses, float* sums, int rows, int vocab) {
    long long row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float top = LOWEST, total = 0.0f;
    for (int s = 0; s < ${split}; ++s)
        join(top, total, parts[(row * ${split} + s) * 2], parts[(row * ${split} + s) * 2 + 1]);
    float log_sum = top + logf(total);
    losses[row] = log_sum - __bfloat162float(logits[row * vocab + targets[row]]);
    sums[row] = log_sum;
}
%% endif

%% if method != "fused"
extern "C" __global__ void __launch_bounds__(THREADS)
gradient(const __nv_bfloat16* __restrict__ logits, const long long* __restrict__ targets,
         const float* __restrict__ weights, const float* __restrict__ sums, __nv_bfloat16* __restrict__ grad,
         int vocab) {
    long long row = blockIdx.x;
    int first = (blockIdx.y * THREADS + threadIdx.x) * VEC;
    write_gradient(logits + row * vocab, grad + row * vocab, first, vocab, gridDim.y * THREADS * VEC, targets[row],
                   sums[row], weights[row]);
}
%% endif
%% host
def run(logits, targets, loss_grad):
    rows, vocab = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    sums = torch.empty(rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty_like(logits)
%% if method == "split"
    parts = torch.empty((rows, ${split}, 2), dtype=torch.float32, device=logits.device)
    share = (vocab + ${8 * split - 1}) // ${8 * split} * 8
    grid = (rows, ${split})
%% else
    parts, share = sums, vocab
    grid = ${"min(rows, 132 * %d)" % split if walk == "persistent" else "rows"}
%% endif
    args = (logits, targets, loss_grad, losses, grad, sums, parts, rows, vocab, share)
    module.launch("loss", grid=grid, block=${threads}, args=args)
%% if method == "split"
    args = (logits, targets, parts, losses, sums, rows, vocab)
    module.launch("finish", grid=(rows + 127) // 128, block=128, args=args)
%% endif
%% if method != "fused"
    args = (logits, targets, loss_grad, sums, grad, vocab)
    module.launch("gradient", grid=(rows, ${split}), block=${threads}, args=args)
%% endif
    return losses, grad
