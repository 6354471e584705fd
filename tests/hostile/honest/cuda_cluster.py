# honest: clusters of two blocks that share half-row sums through distributed shared memory
# problem: l2_norm
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ __forceinline__ void wait_for_cluster() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ float read_from(const float* mine, int rank) {
    unsigned int there;
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"((unsigned int)__cvta_generic_to_shared(mine)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
    return value;
}
extern "C" __global__ void l2_norm(const float* x, float* y, int cols) {
    __shared__ float warp[8];
    __shared__ float mine;
    const int rank = blockIdx.x % 2;
    const long long base = (blockIdx.x / 2) * (long long)cols;
    float total = 0.0f;
    for (int c = rank * 256 + threadIdx.x; c < cols; c += 512) total += x[base + c] * x[base + c];
    for (int d = 16; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        total = 0.0f;
        for (int w = 0; w < 8; ++w) total += warp[w];
        mine = total;
    }
    wait_for_cluster();
    // In the same order in both blocks, so that both divide by the same number.
    const float length = sqrtf(read_from(&mine, 0) + read_from(&mine, 1));
    wait_for_cluster();
    for (int c = rank * 256 + threadIdx.x; c < cols; c += 512) y[base + c] = x[base + c] / length;
}
""")


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    module.launch("l2_norm", grid=2 * rows, block=256, args=(x, y, cols), cluster=2)
    return y
