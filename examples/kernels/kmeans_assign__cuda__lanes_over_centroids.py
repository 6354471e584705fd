"""A warp a point: lanes share out the centroids, which lie transposed in shared memory for the whole block."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define GROUP 4
extern "C" __global__ void assign(const float* __restrict__ points, const float* __restrict__ centroids, int* __restrict__ labels, float* __restrict__ distances, int n, int k, int dim, int per_block) {
    extern __shared__ float across[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, wide = k + 1;
    float* mine = across + dim * wide + warp * dim;
    for (int e = threadIdx.x; e < k * dim; e += blockDim.x) across[e % dim * wide + e / dim] = centroids[e];
    __syncthreads();
    int stop = min(n, (int)(blockIdx.x + 1) * per_block);
    for (int i = blockIdx.x * per_block + warp; i < stop; i += warps) {
        for (int d = lane; d < dim; d += 32) mine[d] = points[(long long)i * dim + d];
        __syncwarp();
        float best = 3.0e38f;
        int label = 0x7fffffff;
        for (int start = lane; start < k; start += 32 * GROUP) {
            float far[GROUP];
            for (int g = 0; g < GROUP; ++g) far[g] = 0.0f;
            for (int d = 0; d < dim; ++d) {
                float p = mine[d];
                #pragma unroll
                for (int g = 0; g < GROUP; ++g) {
                    int at = min(start + 32 * g, k - 1);
                    float gap = p - across[d * wide + at];
                    far[g] += gap * gap;
                }
            }
            for (int g = 0; g < GROUP; ++g) {
                if (start + 32 * g < k && far[g] < best) { best = far[g]; label = start + 32 * g; }
            }
        }
        for (int m = 16; m > 0; m /= 2) {
            float other = __shfl_xor_sync(0xffffffffu, best, m);
            int name = __shfl_xor_sync(0xffffffffu, label, m);
            if (other < best || (other == best && name < label)) { best = other; label = name; }
        }
        if (lane == 0) { labels[i] = label; distances[i] = best; }
        __syncwarp();
    }
}
""")


def run(points, centroids):
    n, d = points.shape
    k = centroids.shape[0]
    labels = torch.empty((n,), device=points.device, dtype=torch.int32)
    distances = torch.empty((n,), device=points.device, dtype=torch.float32)
    args = (points, centroids, labels, distances, n, k, d, 256)
    shared = 4 * (d * (k + 1) + 16 * d)
    module.launch("assign", grid=(n + 255) // 256, block=512, args=args, shared_bytes=shared)
    return labels, distances
