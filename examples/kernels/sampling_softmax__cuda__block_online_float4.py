"""A block a row in one pass of 16-byte loads; each thread has its own running softmax and best candidate."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define LOW -1.0e30f
#define THREADS 512
struct State { float top, sum, best; int place; };
__device__ __forceinline__ void take(State& s, float x, float noise, int at) {
    float score = x - logf(noise);
    if (score > s.best) { s.best = score; s.place = at; }
    if (x > s.top) { s.sum = s.sum * __expf(s.top - x) + 1.0f; s.top = x; }
    else s.sum += __expf(x - s.top);
}
__device__ __forceinline__ void join(State& s, float top, float sum, float best, int place) {
    float larger = fmaxf(s.top, top);
    s.sum = s.sum * __expf(s.top - larger) + sum * __expf(top - larger);
    s.top = larger;
    if (best > s.best || (best == s.best && place < s.place)) { s.best = best; s.place = place; }
}
extern "C" __global__ void __launch_bounds__(THREADS) sample(const float* __restrict__ logits, const float* __restrict__ noise, int* __restrict__ tokens, float* __restrict__ probs, float inverse, int vocab) {
    __shared__ float tops[THREADS / 32];
    __shared__ float sums[THREADS / 32];
    __shared__ float bests[THREADS / 32];
    __shared__ int places[THREADS / 32];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const float* x = logits + (long long)blockIdx.x * vocab;
    const float* e = noise + (long long)blockIdx.x * vocab;
    State s = {LOW, 0.0f, LOW, 0x7fffffff};
    if (vocab % 4 == 0) {
        #pragma unroll 2
        for (int i = tid; i < vocab / 4; i += THREADS) {
            float4 a = __ldcs((const float4*)x + i), b = __ldcs((const float4*)e + i);
            take(s, a.x * inverse, b.x, 4 * i);
            take(s, a.y * inverse, b.y, 4 * i + 1);
            take(s, a.z * inverse, b.z, 4 * i + 2);
            take(s, a.w * inverse, b.w, 4 * i + 3);
        }
    } else {
        for (int i = tid; i < vocab; i += THREADS) take(s, x[i] * inverse, e[i], i);
    }
    for (int m = 16; m > 0; m /= 2) {
        float top = __shfl_xor_sync(0xffffffffu, s.top, m), sum = __shfl_xor_sync(0xffffffffu, s.sum, m);
        float best = __shfl_xor_sync(0xffffffffu, s.best, m);
        int place = __shfl_xor_sync(0xffffffffu, s.place, m);
        join(s, top, sum, best, place);
    }
    if (lane == 0) { tops[warp] = s.top; sums[warp] = s.sum; bests[warp] = s.best; places[warp] = s.place; }
    __syncthreads();
    if (tid > 0) return;
    for (int w = 1; w < THREADS / 32; ++w) join(s, tops[w], sums[w], bests[w], places[w]);
    tokens[blockIdx.x] = s.place;
    probs[blockIdx.x] = x[s.place] * inverse - s.top - logf(s.sum);
}
""")


def run(logits, noise, temperature):
    rows, vocab = logits.shape
    tokens = torch.empty((rows,), device=logits.device, dtype=torch.int32)
    probs = torch.empty((rows,), device=logits.device, dtype=torch.float32)
    module.launch("sample", grid=rows, block=512, args=(logits, noise, tokens, probs, 1.0 / temperature, vocab))
    return tokens, probs
