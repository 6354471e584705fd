# honest: a cooperative launch whose blocks wait for each other between two steps
# problem: l2_norm
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ unsigned int arrived, departed;
__device__ __forceinline__ void wait_for_all() {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned int*)&arrived < gridDim.x) { }
        __threadfence();
        // The last to leave sets both back.
        if (atomicAdd(&departed, 1u) == gridDim.x - 1) arrived = departed = 0;
    }
    __syncthreads();
}
extern "C" __global__ void l2_norm(const float* x, float* y, float* lengths, int rows, int cols) {
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float total = 0.0f;
        const float* values = x + (long long)row * cols;
        for (int c = threadIdx.x; c < cols; c += 32) total += values[c] * values[c];
        for (int d = 16; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
        if (threadIdx.x == 0) lengths[row] = sqrtf(total);
    }
    wait_for_all();
    const long long n = (long long)rows * cols;
    for (long long i = blockIdx.x * 32LL + threadIdx.x; i < n; i += gridDim.x * 32LL) {
        y[i] = x[i] / ((volatile float*)lengths)[i / cols];
    }
}
""")


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    lengths = torch.empty(rows, device=x.device, dtype=torch.float32)
    blocks = 8 * torch.cuda.get_device_properties(x.device).multi_processor_count
    module.launch("l2_norm", grid=blocks, block=32, args=(x, y, lengths, rows, cols), cooperative=True)
    return y
