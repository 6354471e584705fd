"""Direct: every thread clips its window to the volume and adds what is left."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void direct(const float* __restrict__ x, float* __restrict__ y, int d, int h, int w, int od, int oh, int ow, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int col = i % ow, row = i / ow % oh, slice = i / (ow * oh) % od, plane = i / (ow * oh * od);
    int d0 = max(2 * slice - 1, 0), d1 = min(2 * slice + 2, d);
    int h0 = max(2 * row - 1, 0), h1 = min(2 * row + 2, h);
    int w0 = max(2 * col - 1, 0), w1 = min(2 * col + 2, w);
    const float* p = x + (long long)plane * d * h * w;
    float sum = 0.0f;
    for (int a = d0; a < d1; ++a)
        for (int b = h0; b < h1; ++b)
            for (int c = w0; c < w1; ++c) sum += p[(a * h + b) * w + c];
    y[i] = sum / 27.0f;
}
""")


def run(x):
    n, c, d, h, w = x.shape
    od, oh, ow = (d - 1) // 2 + 1, (h - 1) // 2 + 1, (w - 1) // 2 + 1
    y = torch.empty((n, c, od, oh, ow), device=x.device, dtype=torch.float32)
    total = y.numel()
    module.launch("direct", grid=(total + 255) // 256, block=256, args=(x, y, d, h, w, od, oh, ow, total))
    return y
