# honest: a device counter finds the last block, which adds up and sets the counter back
# problem: huber_loss
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ unsigned int tickets;
extern "C" __global__ void huber(const float* p, const float* t, double* parts, float* loss, long long n) {
    __shared__ double warp[8];
    __shared__ bool last;
    double total = 0.0;
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
        const float a = fabsf(p[i] - t[i]);
        total += a < 1.0f ? 0.5f * a * a : a - 0.5f;
    }
    for (int d = 16; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        total = 0.0;
        for (int w = 0; w < 8; ++w) total += warp[w];
        parts[blockIdx.x] = total;
        __threadfence();
        last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x) return;
    total = 0.0;
    for (int b = 0; b < gridDim.x; ++b) total += ((volatile double*)parts)[b];
    *loss = (float)(total / n);
    tickets = 0;
}
""")


def run(predictions, targets):
    n = predictions.numel()
    blocks = min(512, (n + 255) // 256)
    parts = torch.empty(blocks, device=predictions.device, dtype=torch.float64)
    loss = torch.empty((), device=predictions.device, dtype=torch.float32)
    module.launch("huber", grid=blocks, block=256, args=(predictions, targets, parts, loss, n))
    return loss
