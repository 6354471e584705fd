"""A warp a token: logits in shared memory, k rounds of a shuffle argmax."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define LOWEST __int_as_float(0xff800000)
extern "C" __global__ void route(const float* logits, float* weights, int* experts, int tokens, int e, int k) {
    extern __shared__ float rows[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int token = blockIdx.x * (blockDim.x / 32) + warp;
    if (token >= tokens) return;
    float* row = rows + warp * (e + k);
    float* kept = row + e;
    for (int i = lane; i < e; i += 32) row[i] = logits[(long long)token * e + i];
    __syncwarp();
    float first = 0.0f, total = 0.0f;
    for (int round = 0; round < k; ++round) {
        float best = LOWEST;
        int at = e;
        for (int i = lane; i < e; i += 32)
            if (row[i] > best) { best = row[i]; at = i; }
        for (int d = 16; d > 0; d /= 2) {
            float other = __shfl_xor_sync(0xffffffffu, best, d);
            int there = __shfl_xor_sync(0xffffffffu, at, d);
            if (other > best || (other == best && there < at)) { best = other; at = there; }
        }
        if (round == 0) first = best;
        float p = expf(best - first);
        total += p;
        if (lane == 0) {
            kept[round] = p;
            experts[(long long)token * k + round] = at;
            row[at] = LOWEST;
        }
        __syncwarp();
    }
    for (int i = lane; i < k; i += 32) weights[(long long)token * k + i] = kept[i] / total;
}
""")


def run(logits, k):
    tokens, experts = logits.shape
    weights = torch.empty((tokens, k), device=logits.device, dtype=torch.float32)
    chosen = torch.empty((tokens, k), device=logits.device, dtype=torch.int32)
    shared = 4 * 4 * (experts + k)
    module.launch(
        "route",
        grid=(tokens + 3) // 4,
        block=128,
        args=(logits, weights, chosen, tokens, experts, k),
        shared_bytes=shared,
    )
    return weights, chosen
