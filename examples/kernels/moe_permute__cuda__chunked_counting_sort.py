"""A stable counting sort in chunks: count, scan, rank by warp matches, then a row copy in 16-byte pieces."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define CHUNK 256
extern "C" __global__ void tally(const int* __restrict__ experts, int* __restrict__ table, int n, int kinds) {
    extern __shared__ int bins[];
    for (int e = threadIdx.x; e < kinds; e += CHUNK) bins[e] = 0;
    __syncthreads();
    int i = blockIdx.x * CHUNK + threadIdx.x;
    if (i < n) atomicAdd(bins + experts[i], 1);
    __syncthreads();
    for (int e = threadIdx.x; e < kinds; e += CHUNK) table[(long long)blockIdx.x * kinds + e] = bins[e];
}
// Turns the table of counts into the first position of each expert in each chunk.
extern "C" __global__ void offsets(int* __restrict__ table, int* __restrict__ counts, int chunks, int kinds) {
    extern __shared__ int first[];
    for (int e = threadIdx.x; e < kinds; e += blockDim.x) {
        int sum = 0;
        for (int c = 0; c < chunks; ++c) sum += table[(long long)c * kinds + e];
        counts[e] = sum;
        first[e] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int e = 0; e < kinds; ++e) { int here = first[e]; first[e] = sum; sum += here; }
    }
    __syncthreads();
    for (int e = threadIdx.x; e < kinds; e += blockDim.x) {
        int at = first[e];
        for (int c = 0; c < chunks; ++c) {
            int here = table[(long long)c * kinds + e];
            table[(long long)c * kinds + e] = at;
            at += here;
        }
    }
}
extern "C" __global__ void place(const int* __restrict__ experts, const int* __restrict__ table, int* __restrict__ tokens, int n, int kinds, int k) {
    extern __shared__ int seen[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int e = threadIdx.x; e < kinds * (CHUNK / 32); e += CHUNK) seen[e] = 0;
    __syncthreads();
    int i = blockIdx.x * CHUNK + threadIdx.x;
    int mine = i < n ? experts[i] : -1;
    unsigned alike = __match_any_sync(0xffffffffu, mine);
    int rank = __popc(alike & ((1u << lane) - 1u));
    if (mine >= 0 && rank == 0) seen[warp * kinds + mine] = __popc(alike);
    __syncthreads();
    if (mine >= 0) {
        int at = table[(long long)blockIdx.x * kinds + mine] + rank;
        for (int w = 0; w < warp; ++w) at += seen[w * kinds + mine];
        tokens[at] = i / k;
    }
}
extern "C" __global__ void gather(const uint4* __restrict__ x, const int* __restrict__ tokens, uint4* __restrict__ out, int pieces) {
    long long from = (long long)tokens[blockIdx.x] * pieces, to = (long long)blockIdx.x * pieces;
    for (int i = threadIdx.x; i < pieces; i += blockDim.x) __stcs(out + to + i, __ldg(x + from + i));
}
""")


def run(x, experts, num_experts):
    k, hidden = experts.shape[1], x.shape[1]
    n = experts.numel()
    chunks = (n + 255) // 256
    out = torch.empty((n, hidden), device=x.device, dtype=x.dtype)
    tokens = torch.empty((n,), device=x.device, dtype=torch.int32)
    counts = torch.empty((num_experts,), device=x.device, dtype=torch.int32)
    table = torch.empty((chunks, num_experts), device=x.device, dtype=torch.int32)
    module.launch("tally", grid=chunks, block=256, args=(experts, table, n, num_experts), shared_bytes=4 * num_experts)
    module.launch("offsets", grid=1, block=256, args=(table, counts, chunks, num_experts), shared_bytes=4 * num_experts)
    module.launch(
        "place", grid=chunks, block=256, args=(experts, table, tokens, n, num_experts, k), shared_bytes=32 * num_experts
    )
    module.launch("gather", grid=n, block=256, args=(x, tokens, out, hidden * x.element_size() // 16))
    return out, tokens, counts
