"""A block a row: self-sorting radix-2 passes between two buffers in shared memory, twiddles computed on the spot."""

import math

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void transform(const float* __restrict__ real, const float* __restrict__ imag, float* __restrict__ out_real, float* __restrict__ out_imag, float scale, int n) {
    extern __shared__ float room[];
    float* ar = room;
    float* ai = room + n;
    float* br = room + 2 * n;
    float* bi = room + 3 * n;
    long long base = (long long)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) { ar[i] = real[base + i]; ai[i] = imag[base + i]; }
    __syncthreads();
    for (int span = 1; span < n; span *= 2) {
        for (int t = threadIdx.x; t < n / 2; t += blockDim.x) {
            int k = t & (span - 1), to = 2 * (t - k) + k;
            float sn, cs;
            sincospif(-(float)k / (float)span, &sn, &cs);
            float r = ar[t + n / 2], s = ai[t + n / 2];
            float wr = r * cs - s * sn, wi = r * sn + s * cs;
            br[to] = ar[t] + wr;
            bi[to] = ai[t] + wi;
            br[to + span] = ar[t] - wr;
            bi[to + span] = ai[t] - wi;
        }
        __syncthreads();
        float* swap = ar; ar = br; br = swap;
        swap = ai; ai = bi; bi = swap;
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out_real[base + i] = ar[i] * scale;
        out_imag[base + i] = ai[i] * scale;
    }
}
""")


def run(real, imag):
    rows, n = real.shape
    out_real = torch.empty_like(real)
    out_imag = torch.empty_like(imag)
    args = (real, imag, out_real, out_imag, 1.0 / math.sqrt(n), n)
    module.launch("transform", grid=rows, block=max(32, min(512, n // 2)), args=args, shared_bytes=16 * n)
    return out_real, out_imag
