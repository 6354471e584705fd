"""A lone warp a row, two passes of plain loads: first the maximum, then the sum and the best quotient together."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void sample(const float* __restrict__ logits, const float* __restrict__ noise, int* __restrict__ tokens, float* __restrict__ probs, float temperature, int vocab, int rows) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* x = logits + (long long)row * vocab;
    const float* e = noise + (long long)row * vocab;
    float top = -1.0e30f;
    #pragma unroll 8
    for (int i = lane; i < vocab; i += 32) top = fmaxf(top, x[i]);
    for (int m = 16; m > 0; m /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, m));
    float sum = 0.0f, best = -1.0f;
    int place = 0x7fffffff;
    #pragma unroll 4
    for (int i = lane; i < vocab; i += 32) {
        float p = expf((x[i] - top) / temperature);
        sum += p;
        float quotient = p / e[i];
        if (quotient > best) { best = quotient; place = i; }
    }
    for (int m = 16; m > 0; m /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, m);
        float other = __shfl_xor_sync(0xffffffffu, best, m);
        int spot = __shfl_xor_sync(0xffffffffu, place, m);
        if (other > best || (other == best && spot < place)) { best = other; place = spot; }
    }
    if (lane == 0) {
        tokens[row] = place;
        probs[row] = (x[place] - top) / temperature - logf(sum);
    }
}
""")


def run(logits, noise, temperature):
    rows, vocab = logits.shape
    tokens = torch.empty((rows,), device=logits.device, dtype=torch.int32)
    probs = torch.empty((rows,), device=logits.device, dtype=torch.float32)
    module.launch(
        "sample", grid=(rows + 1) // 2, block=64, args=(logits, noise, tokens, probs, temperature, vocab, rows)
    )
    return tokens, probs
