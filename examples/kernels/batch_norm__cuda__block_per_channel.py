"""One block does a whole channel in three passes: mean, then squared deviations, then the result."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float total(float v, float* scratch) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    float s = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) s += scratch[w];
    return s;
}
extern "C" __global__ void channel_norm(const float* x, const float* weight, const float* bias, float* y,
                                        int batch, int channels, int area) {
    __shared__ float scratch[32];
    int c = blockIdx.x;
    float s = 0.0f;
    for (int b = 0; b < batch; ++b) {
        const float* plane = x + ((long long)b * channels + c) * area;
        float piece = 0.0f;
        for (int i = threadIdx.x; i < area; i += blockDim.x) piece += plane[i];
        s += piece;
    }
    float mean = total(s, scratch) / batch / area;
    float q = 0.0f;
    for (int b = 0; b < batch; ++b) {
        const float* plane = x + ((long long)b * channels + c) * area;
        float piece = 0.0f;
        for (int i = threadIdx.x; i < area; i += blockDim.x) { float d = plane[i] - mean; piece += d * d; }
        q += piece;
    }
    float scale = weight[c] / sqrtf(total(q, scratch) / batch / area + 1e-5f), add = bias[c];
    for (int b = 0; b < batch; ++b) {
        long long base = ((long long)b * channels + c) * area;
        for (int i = threadIdx.x; i < area; i += blockDim.x) y[base + i] = (x[base + i] - mean) * scale + add;
    }
}
""")


def run(x, weight, bias):
    batch, channels, height, width = x.shape
    y = torch.empty_like(x)
    args = (x, weight, bias, y, batch, channels, height * width)
    module.launch("channel_norm", grid=channels, block=1024, args=args)
    return y
