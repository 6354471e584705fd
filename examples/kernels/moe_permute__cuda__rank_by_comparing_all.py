"""No sort: each pair counts who comes before it among all others; a token's row is read once and written k times."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define TILE 1024
extern "C" __global__ void rank(const int* __restrict__ experts, int* __restrict__ places, int* __restrict__ tokens, int* __restrict__ counts, int n, int k) {
    __shared__ int other[TILE];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int mine = i < n ? experts[i] : -1, before = 0;
    for (int start = 0; start < n; start += TILE) {
        __syncthreads();
        for (int j = threadIdx.x; j < TILE; j += blockDim.x) other[j] = start + j < n ? experts[start + j] : 0x7fffffff;
        __syncthreads();
        // Equal experts earlier in the list come first: the bound moves by one at i.
        int own = min(max(i - start, 0), TILE);
        #pragma unroll 8
        for (int j = 0; j < own; ++j) before += other[j] <= mine;
        #pragma unroll 8
        for (int j = own; j < TILE; ++j) before += other[j] < mine;
    }
    if (i < n) {
        places[i] = before;
        tokens[before] = i / k;
        atomicAdd(counts + mine, 1);
    }
}
extern "C" __global__ void spread(const uint4* __restrict__ x, const int* __restrict__ places, uint4* __restrict__ out, int pieces, int k) {
    long long token = blockIdx.x;
    for (int i = threadIdx.x; i < pieces; i += blockDim.x) {
        uint4 row = x[token * pieces + i];
        for (int c = 0; c < k; ++c) out[(long long)places[token * k + c] * pieces + i] = row;
    }
}
""")


def run(x, experts, num_experts):
    tokens_in, k = experts.shape
    hidden = x.shape[1]
    n = experts.numel()
    out = torch.empty((n, hidden), device=x.device, dtype=x.dtype)
    tokens = torch.empty((n,), device=x.device, dtype=torch.int32)
    places = torch.empty((n,), device=x.device, dtype=torch.int32)
    counts = torch.zeros((num_experts,), device=x.device, dtype=torch.int32)
    module.launch("rank", grid=(n + 127) // 128, block=128, args=(experts, places, tokens, counts, n, k))
    module.launch("spread", grid=tokens_in, block=256, args=(x, places, out, hidden * x.element_size() // 16, k))
    return out, tokens, counts
