import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
// x * Phi(x) with the library's own normal distribution function, two elements per thread, grid-stride.
extern "C" __global__ void gelu_cdf(const float* __restrict__ x, float* __restrict__ y, int pairs, int n) {
    const float2* x2 = (const float2*)x;
    float2* y2 = (float2*)y;
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = tid; p < pairs; p += gridDim.x * blockDim.x) {
        float2 v = x2[p];
        y2[p] = make_float2(v.x * normcdff(v.x), v.y * normcdff(v.y));
    }
    if (tid == 0 && (n & 1)) y[n - 1] = x[n - 1] * normcdff(x[n - 1]);
}
''')


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    pairs = n // 2
    blocks = max(1, min((pairs + 255) // 256, 132 * 8))
    module.launch("gelu_cdf", grid=blocks, block=256, args=(x, y, pairs, n))
    return y
