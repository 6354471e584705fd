# honest: tiles brought to shared memory by cp.async while the last is worked on
# problem: gelu_tanh
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ __forceinline__ void fetch(float* to, const float* from, bool inside) {
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at), "l"(from), "r"(inside ? 4 : 0) : "memory");
}
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    __shared__ float tile[2][256];
    const long long step = gridDim.x * 256LL;
    long long i = blockIdx.x * 256LL + threadIdx.x;
    fetch(&tile[0][threadIdx.x], x + (i < n ? i : 0), i < n);
    asm volatile("cp.async.commit_group;");
    for (int turn = 0; i < n; i += step, turn ^= 1) {
        fetch(&tile[turn ^ 1][threadIdx.x], x + (i + step < n ? i + step : 0), i + step < n);
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        const float v = tile[turn][threadIdx.x];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("gelu", grid=min(2048, (n + 255) // 256), block=256, args=(x, y, n))
    return y
