"""One launch, one block an expert: it counts what precedes it, compacts its pairs by ballots, and copies its rows."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define THREADS 1024
extern "C" __global__ void __launch_bounds__(THREADS) collect(const int* __restrict__ experts, const unsigned* __restrict__ x, unsigned* __restrict__ out, int* __restrict__ tokens, int* __restrict__ counts, int n, int k, int words) {
    __shared__ int smaller[32];
    __shared__ int equal[32];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, mine = blockIdx.x;
    int less = 0, same = 0;
    for (int i = tid; i < n; i += THREADS) { int e = experts[i]; less += e < mine; same += e == mine; }
    for (int s = 16; s > 0; s /= 2) { less += __shfl_xor_sync(0xffffffffu, less, s); same += __shfl_xor_sync(0xffffffffu, same, s); }
    if (lane == 0) { smaller[warp] = less; equal[warp] = same; }
    __syncthreads();
    int first = 0, total = 0;
    for (int w = 0; w < 32; ++w) { first += smaller[w]; total += equal[w]; }
    if (tid == 0) counts[mine] = total;
    int at = first;
    for (int start = 0; start < n; start += THREADS) {
        int i = start + tid;
        bool hit = i < n && experts[i] == mine;
        unsigned mask = __ballot_sync(0xffffffffu, hit);
        __syncthreads();
        if (lane == 0) equal[warp] = __popc(mask);
        __syncthreads();
        int before = 0, all = 0;
        for (int w = 0; w < 32; ++w) { before += w < warp ? equal[w] : 0; all += equal[w]; }
        if (hit) tokens[at + before + __popc(mask & ((1u << lane) - 1u))] = i / k;
        at += all;
    }
    __syncthreads();
    // A warp a row.
    for (int r = warp; r < total; r += 32) {
        long long from = (long long)tokens[first + r] * words, to = (long long)(first + r) * words;
        #pragma unroll 8
        for (int c = lane; c < words; c += 32) out[to + c] = x[from + c];
    }
}
""")


def run(x, experts, num_experts):
    hidden = x.shape[1]
    n = experts.numel()
    out = torch.empty((n, hidden), device=x.device, dtype=x.dtype)
    tokens = torch.empty((n,), device=x.device, dtype=torch.int32)
    counts = torch.empty((num_experts,), device=x.device, dtype=torch.int32)
    args = (experts, x, out, tokens, counts, n, experts.shape[1], hidden * x.element_size() // 4)
    module.launch("collect", grid=num_experts, block=1024, args=args)
    return out, tokens, counts
