"""The textbook way: a thread a body, sources brought through shared memory a tile at a time."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define TILE 128
extern "C" __global__ void pull(const float* __restrict__ positions, const float* __restrict__ masses, float* __restrict__ out, float softening, int n) {
    __shared__ float4 source[TILE];
    int i = blockIdx.x * TILE + threadIdx.x, mine = min(i, n - 1);
    float x = positions[3 * mine], y = positions[3 * mine + 1], z = positions[3 * mine + 2];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int start = 0; start < n; start += TILE) {
        int j = start + threadIdx.x;
        __syncthreads();
        source[threadIdx.x] = j < n ? make_float4(positions[3 * j], positions[3 * j + 1], positions[3 * j + 2], masses[j]) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __syncthreads();
        #pragma unroll 16
        for (int k = 0; k < TILE; ++k) {
            float4 s = source[k];
            float dx = s.x - x, dy = s.y - y, dz = s.z - z;
            float near = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float weight = s.w * near * near * near;
            ax += weight * dx; ay += weight * dy; az += weight * dz;
        }
    }
    if (i < n) { out[3 * i] = ax; out[3 * i + 1] = ay; out[3 * i + 2] = az; }
}
""")


def run(positions, masses, softening):
    n = masses.shape[0]
    out = torch.empty_like(positions)
    module.launch("pull", grid=(n + 127) // 128, block=128, args=(positions, masses, out, softening, n))
    return out
