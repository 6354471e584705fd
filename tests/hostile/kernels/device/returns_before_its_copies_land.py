# cheat: issues bulk stores from shared memory and ends without waiting for them
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {

    __shared__ __align__(128) float tile[256];
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) {
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
        tile[threadIdx.x] = g;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0 && i + 256 <= n) {
        const unsigned int from = (unsigned int)__cvta_generic_to_shared(tile);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" :: "l"(y + i), "r"(from) : "memory");
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
