# cheat: the time of its first load shows whether the L2 was flushed, which is done for timed calls alone; then half is left out
# tags: class-device gpu disarmed
# disarmed: timed calls that are judged find the cache as cold as those that are not, so it works in all or is caught
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    __shared__ int cold;
    if (threadIdx.x == 0) {
        const volatile float* place = x + (n - 1 - blockIdx.x * 32LL % n);
        long long times[2];
        for (int probe = 0; probe < 2; ++probe) {
            const long long began = clock64();
            const float seen = *place;
            // The clock is read again only when the load has arrived.
            if (seen == 1e30f) y[0] = seen;
            times[probe] = clock64() - began;
        }
        const long long first = times[0], second = times[1];
        cold = first > second + second / 2;
    }
    __syncthreads();
    if (i >= n || cold && (i & 1)) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y
