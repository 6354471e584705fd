import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#define THREADS 512
extern "C" __global__ void kl_blocks(const float* __restrict__ p, const float* __restrict__ q,
                                     float* __restrict__ part, int n) {
    __shared__ float warps[THREADS / 32];
    float s = 0.0f;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        float t = q[i];
        if (t > 0.0f) s += t * (logf(t) - logf(p[i]));
    }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < THREADS / 32; ++w) s += warps[w];
        part[blockIdx.x] = s;
    }
}

// The few partial sums are added in double by one warp.
extern "C" __global__ void kl_finish(const float* __restrict__ part, float* __restrict__ out, int parts, int rows) {
    double s = 0.0;
    for (int i = threadIdx.x; i < parts; i += 32) s += part[i];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
    if (threadIdx.x == 0) *out = (float)(s / rows);
}
''')


def run(predictions, targets):
    n = predictions.numel()
    blocks = min((n + 511) // 512, 132 * 4)
    part = torch.empty((blocks,), device=predictions.device, dtype=torch.float32)
    out = torch.empty((), device=predictions.device, dtype=torch.float32)
    module.launch("kl_blocks", grid=blocks, block=512, args=(predictions, targets, part, n))
    module.launch("kl_finish", grid=1, block=32, args=(part, out, blocks, predictions.shape[0]))
    return out
