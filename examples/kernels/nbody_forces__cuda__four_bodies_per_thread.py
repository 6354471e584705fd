"""Four bodies in a thread's registers share each source read; stretches of sources add up by atomics."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define THREADS 128
#define PER 4
#define SPAN 128
extern "C" __global__ void __launch_bounds__(THREADS) pull(const float* __restrict__ positions, const float* __restrict__ masses, float* __restrict__ out, float softening, int n) {
    __shared__ float4 source[SPAN];
    int j = blockIdx.y * SPAN + threadIdx.x;
    source[threadIdx.x] = j < n ? make_float4(positions[3 * j], positions[3 * j + 1], positions[3 * j + 2], masses[j]) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float x[PER], y[PER], z[PER], ax[PER], ay[PER], az[PER];
    #pragma unroll
    for (int r = 0; r < PER; ++r) {
        int i = min((int)(blockIdx.x * PER + r) * THREADS + (int)threadIdx.x, n - 1);
        x[r] = positions[3 * i]; y[r] = positions[3 * i + 1]; z[r] = positions[3 * i + 2];
        ax[r] = 0.0f; ay[r] = 0.0f; az[r] = 0.0f;
    }
    __syncthreads();
    #pragma unroll 4
    for (int k = 0; k < SPAN; ++k) {
        float4 s = source[k];
        #pragma unroll
        for (int r = 0; r < PER; ++r) {
            float dx = s.x - x[r], dy = s.y - y[r], dz = s.z - z[r];
            float near = rsqrtf(fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, softening))));
            float weight = s.w * near * (near * near);
            ax[r] = fmaf(weight, dx, ax[r]); ay[r] = fmaf(weight, dy, ay[r]); az[r] = fmaf(weight, dz, az[r]);
        }
    }
    #pragma unroll
    for (int r = 0; r < PER; ++r) {
        int i = (blockIdx.x * PER + r) * THREADS + threadIdx.x;
        if (i < n) { atomicAdd(out + 3 * i, ax[r]); atomicAdd(out + 3 * i + 1, ay[r]); atomicAdd(out + 3 * i + 2, az[r]); }
    }
}
""")


def run(positions, masses, softening):
    n = masses.shape[0]
    out = torch.zeros_like(positions)
    module.launch(
        "pull", grid=((n + 511) // 512, (n + 127) // 128), block=128, args=(positions, masses, out, softening, n)
    )
    return out
