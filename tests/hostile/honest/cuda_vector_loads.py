# honest: four numbers at a time and a tail, without approximations switched on by flags
# problem: gelu_tanh
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r"""
__device__ __forceinline__ float gelu_of(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
}
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    const long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
    if (i + 4 <= n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        v.x = gelu_of(v.x); v.y = gelu_of(v.y); v.z = gelu_of(v.z); v.w = gelu_of(v.w);
        *reinterpret_cast<float4*>(y + i) = v;
    } else {
        for (long long k = i; k < n; ++k) y[k] = gelu_of(x[k]);
    }
}
""",
    max_registers=64,
)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("gelu", grid=(n + 1023) // 1024, block=256, args=(x, y, n))
    return y
