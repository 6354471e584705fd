"""A thread a point with its coordinates in registers; centroids pass by in shared memory."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define TILE 64
template <int DIM>
__device__ __forceinline__ void nearest(const float* __restrict__ points, const float* __restrict__ centroids, int* __restrict__ labels, float* __restrict__ distances, int n, int k) {
    __shared__ __align__(16) float c[TILE * DIM];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 p[DIM / 4];
    #pragma unroll
    for (int d = 0; d < DIM / 4; ++d) p[d] = i < n ? ((const float4*)(points + (long long)i * DIM))[d] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float best = 3.0e38f;
    int label = 0;
    for (int start = 0; start < k; start += TILE) {
        int count = min(TILE, k - start);
        __syncthreads();
        for (int j = threadIdx.x; j < count * DIM; j += blockDim.x) c[j] = centroids[(long long)start * DIM + j];
        __syncthreads();
        for (int j = 0; j < count; ++j) {
            const float4* q = (const float4*)(c + j * DIM);
            float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
            #pragma unroll
            for (int d = 0; d < DIM / 4; ++d) {
                float4 v = q[d];
                float a = p[d].x - v.x, b = p[d].y - v.y, e = p[d].z - v.z, f = p[d].w - v.w;
                s0 += a * a; s1 += b * b; s2 += e * e; s3 += f * f;
            }
            float far = (s0 + s1) + (s2 + s3);
            if (far < best) { best = far; label = start + j; }
        }
    }
    if (i < n) { labels[i] = label; distances[i] = best; }
}
extern "C" __global__ void assign_16(const float* __restrict__ points, const float* __restrict__ centroids, int* __restrict__ labels, float* __restrict__ distances, int n, int k) { nearest<16>(points, centroids, labels, distances, n, k); }
extern "C" __global__ void assign_32(const float* __restrict__ points, const float* __restrict__ centroids, int* __restrict__ labels, float* __restrict__ distances, int n, int k) { nearest<32>(points, centroids, labels, distances, n, k); }
extern "C" __global__ void assign_64(const float* __restrict__ points, const float* __restrict__ centroids, int* __restrict__ labels, float* __restrict__ distances, int n, int k) { nearest<64>(points, centroids, labels, distances, n, k); }
extern "C" __global__ void assign_128(const float* __restrict__ points, const float* __restrict__ centroids, int* __restrict__ labels, float* __restrict__ distances, int n, int k) { nearest<128>(points, centroids, labels, distances, n, k); }
""")


def run(points, centroids):
    n, d = points.shape
    labels = torch.empty((n,), device=points.device, dtype=torch.int32)
    distances = torch.empty((n,), device=points.device, dtype=torch.float32)
    args = (points, centroids, labels, distances, n, centroids.shape[0])
    module.launch(f"assign_{d}", grid=(n + 127) // 128, block=128, args=args)
    return labels, distances
