import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
// Every warp normalises its own row; no block barrier anywhere.
extern "C" __global__ void l2_warp(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float a = 0.0f, b = 0.0f;
    int c = lane;
    for (; c + 32 < cols; c += 64) {
        float u = in[c], v = in[c + 32];
        a += u * u;
        b += v * v;
    }
    if (c < cols) a += in[c] * in[c];
    a += b;
    for (int o = 16; o > 0; o >>= 1) a += __shfl_xor_sync(0xffffffffu, a, o);
    float inv = 1.0f / sqrtf(a);
    for (c = lane; c < cols; c += 32) out[c] = in[c] * inv;
}
''')


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    module.launch("l2_warp", grid=(rows + 3) // 4, block=128, args=(x, y, rows, cols))
    return y
