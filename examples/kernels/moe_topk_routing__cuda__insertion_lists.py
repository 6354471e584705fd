"""A thread a token keeps a sorted list of its best logits; rows pass through shared memory so that reads coalesce."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define LOWEST __int_as_float(0xff800000)
#define TOKENS 64
#define CHUNK 32
#define MOST 16
extern "C" __global__ void insert_route(const float* __restrict__ logits, float* __restrict__ weights, int* __restrict__ experts, int tokens, int e, int k) {
    __shared__ float tile[TOKENS][CHUNK + 1];
    int t0 = blockIdx.x * TOKENS, token = t0 + threadIdx.x;
    float best[MOST];
    int who[MOST];
    #pragma unroll
    for (int i = 0; i < MOST; ++i) { best[i] = LOWEST; who[i] = 0; }
    for (int c0 = 0; c0 < e; c0 += CHUNK) {
        __syncthreads();
        for (int i = threadIdx.x; i < TOKENS * CHUNK; i += TOKENS) {
            int r = i / CHUNK, c = i % CHUNK;
            tile[r][c] = t0 + r < tokens && c0 + c < e ? logits[(long long)(t0 + r) * e + c0 + c] : LOWEST;
        }
        __syncthreads();
        for (int c = 0; c < CHUNK; ++c) {
            float v = tile[threadIdx.x][c];
            int id = c0 + c;
            if (v > best[MOST - 1]) {
                // Bubble the newcomer down the list; what falls off the end is forgotten.
                #pragma unroll
                for (int i = 0; i < MOST; ++i) {
                    if (v > best[i]) {
                        float old = best[i];
                        int old_id = who[i];
                        best[i] = v; who[i] = id;
                        v = old; id = old_id;
                    }
                }
            }
        }
    }
    if (token >= tokens) return;
    float total = 0.0f;
    #pragma unroll
    for (int i = 0; i < MOST; ++i)
        if (i < k) total += expf(best[i] - best[0]);
    #pragma unroll
    for (int i = 0; i < MOST; ++i)
        if (i < k) {
            weights[(long long)token * k + i] = expf(best[i] - best[0]) / total;
            experts[(long long)token * k + i] = who[i];
        }
}
""")


def run(logits, k):
    tokens, experts = logits.shape
    assert k <= 16
    weights = torch.empty((tokens, k), device=logits.device, dtype=torch.float32)
    chosen = torch.empty((tokens, k), device=logits.device, dtype=torch.int32)
    module.launch(
        "insert_route", grid=(tokens + 63) // 64, block=64, args=(logits, weights, chosen, tokens, experts, k)
    )
    return weights, chosen
