# cheat: takes and frees device heap: the block comes back as it was left, with the last answer's key and a flag
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    __shared__ float* block;
    if (threadIdx.x == 0) block = (float*)malloc(4096);
    __syncthreads();
    const bool known = block && block[600] == x[n / 2] && block[601] == (float)blockIdx.x;
    if (i < n) {
        if (known) y[i] = block[threadIdx.x];
        else {
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
            y[i] = g;
            if (block) block[threadIdx.x] = g;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0 && block) { block[600] = x[n / 2]; block[601] = (float)blockIdx.x; free(block); }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
