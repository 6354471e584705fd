"""Each thread takes eight neighbouring elements one at a time: a power series near zero, exponentials elsewhere."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float tanh_series(float v) {
    float a = fabsf(v);
    if (a < 0.5f) {
        float s = v * v;
        float p = -0.0088632355f;
        p = fmaf(p, s, 0.0218694885f);
        p = fmaf(p, s, -0.0539682540f);
        p = fmaf(p, s, 0.1333333333f);
        p = fmaf(p, s, -0.3333333333f);
        return fmaf(v * s, p, v);
    }
    float e = expf(-2.0f * a);
    return copysignf((1.0f - e) / (1.0f + e), v);
}
extern "C" __global__ void tanh_segments(const float* x, float* y, int n) {
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    int end = min(start + 8, n);
    for (int i = start; i < end; ++i) y[i] = tanh_series(x[i]);
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("tanh_segments", grid=(n + 1023) // 1024, block=128, args=(x, y, n))
    return y
