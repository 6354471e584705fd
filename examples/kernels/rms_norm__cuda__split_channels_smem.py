import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#define PIXELS 32
#define PARTS 8
// A warp-wide strip of 32 pixels; eight warps share the channels and keep the strip in shared memory.
extern "C" __global__ void rms_strip(const float* __restrict__ x, float* __restrict__ y, int channels, int plane) {
    extern __shared__ float strip[];
    __shared__ float partial[PARTS][PIXELS];
    int lane = threadIdx.x, part = threadIdx.y;
    int p = blockIdx.x * PIXELS + lane;
    bool live = p < plane;
    size_t base = (size_t)blockIdx.y * channels * plane + p;
    float sum = 0.0f;
    for (int c = part; c < channels; c += PARTS) {
        float v = live ? x[base + (size_t)c * plane] : 0.0f;
        strip[c * PIXELS + lane] = v;
        sum += v * v;
    }
    partial[part][lane] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int k = 0; k < PARTS; ++k) sum += partial[k][lane];
    float root = sqrtf(sum / (float)channels + 1e-5f);
    float inv = 1.0f / root;
    if (live)
        for (int c = part; c < channels; c += PARTS) y[base + (size_t)c * plane] = strip[c * PIXELS + lane] * inv;
}
''')


def run(x):
    n, channels, height, width = x.shape
    plane = height * width
    y = torch.empty_like(x)
    module.launch(
        "rms_strip",
        grid=((plane + 31) // 32, n),
        block=(32, 8),
        args=(x, y, channels, plane),
        shared_bytes=channels * 32 * 4,
    )
    return y
