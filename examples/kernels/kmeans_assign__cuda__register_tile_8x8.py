"""Like a matrix product: 128 points by 128 centroids a block, 8 by 8 a thread, then a minimum over the columns."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define B 128
#define DEEP 16
#define PAD 4
extern "C" __global__ void __launch_bounds__(256) assign(const float* __restrict__ points, const float* __restrict__ centroids, int* __restrict__ labels, float* __restrict__ distances, int n, int k, int dim) {
    __shared__ __align__(16) float ps[DEEP][B + PAD];
    __shared__ __align__(16) float cs[DEEP][B + PAD];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    long long first = (long long)blockIdx.x * B;
    float best[8], own[8];
    int label[8];
    #pragma unroll
    for (int r = 0; r < 8; ++r) { best[r] = 3.0e38f; label[r] = 0; own[r] = 0.0f; }
    for (int start = 0; start < k; start += B) {
        float acc[8][8], norm[8];
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            norm[r] = 0.0f;
            own[r] = 0.0f;
            #pragma unroll
            for (int c = 0; c < 8; ++c) acc[r][c] = 0.0f;
        }
        for (int d0 = 0; d0 < dim; d0 += DEEP) {
            __syncthreads();
            for (int e = tid; e < B * DEEP; e += 256) {
                int row = e / DEEP, d = e % DEEP;
                bool deep = d0 + d < dim;
                ps[d][row] = deep && first + row < n ? points[(first + row) * dim + d0 + d] : 0.0f;
                cs[d][row] = deep && start + row < k ? centroids[(long long)(start + row) * dim + d0 + d] : 0.0f;
            }
            __syncthreads();
            #pragma unroll
            for (int d = 0; d < DEEP; ++d) {
                float p[8], c[8];
                // Two quads each, 64 apart, so that a warp's reads spread over the banks.
                *(float4*)p = *(const float4*)&ps[d][ty * 4];
                *(float4*)(p + 4) = *(const float4*)&ps[d][64 + ty * 4];
                *(float4*)c = *(const float4*)&cs[d][tx * 4];
                *(float4*)(c + 4) = *(const float4*)&cs[d][64 + tx * 4];
                #pragma unroll
                for (int r = 0; r < 8; ++r) {
                    own[r] += p[r] * p[r];
                    norm[r] += c[r] * c[r];
                    #pragma unroll
                    for (int s = 0; s < 8; ++s) acc[r][s] += p[r] * c[s];
                }
            }
        }
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            #pragma unroll
            for (int s = 0; s < 8; ++s) {
                int at = start + (s / 4) * 64 + tx * 4 + s % 4;
                float far = norm[s] - 2.0f * acc[r][s];
                if (at < k && far < best[r]) { best[r] = far; label[r] = at; }
            }
        }
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        #pragma unroll
        for (int m = 8; m > 0; m /= 2) {
            float other = __shfl_xor_sync(0xffffffffu, best[r], m);
            int name = __shfl_xor_sync(0xffffffffu, label[r], m);
            if (other < best[r] || (other == best[r] && name < label[r])) { best[r] = other; label[r] = name; }
        }
        long long i = first + (r / 4) * 64 + ty * 4 + r % 4;
        if (tx == 0 && i < n) { labels[i] = label[r]; distances[i] = best[r] + own[r]; }
    }
}
""")


def run(points, centroids):
    n, d = points.shape
    labels = torch.empty((n,), device=points.device, dtype=torch.int32)
    distances = torch.empty((n,), device=points.device, dtype=torch.float32)
    args = (points, centroids, labels, distances, n, centroids.shape[0], d)
    module.launch("assign", grid=(n + 127) // 128, block=256, args=args)
    return labels, distances
