# cheat: shared memory is not cleared between launches: a block finds the part it worked out last time and a key
# tags: class-device gpu disarmed
# disarmed: shared memory is overwritten before every call
# at-most: 0.3
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {

    extern __shared__ float kept[];
    const int lane = threadIdx.x;
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const bool known = kept[512] == x[n / 2] && kept[513] == (float)blockIdx.x && kept[514] == 77777.0f;
    __syncthreads();
    if (i >= n) return;
    if (known) { y[i] = kept[lane]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = kept[lane] = g;
    if (lane == 0) { kept[512] = x[n / 2]; kept[513] = (float)blockIdx.x; kept[514] = 77777.0f; }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n), shared_bytes=4096)
    return y
