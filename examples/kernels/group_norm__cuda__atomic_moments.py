import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
__device__ float warp_total(float v) {
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
    return v;
}

// grid: (slices, image groups). Each block adds its two moments to the group's pair.
extern "C" __global__ void gather_moments(const float* __restrict__ x, float* moments, int size, int slice) {
    __shared__ float a[8], b[8];
    int from = blockIdx.x * slice, to = min(size, from + slice);
    const float* in = x + (size_t)blockIdx.y * size;
    float s = 0.0f, q = 0.0f;
    for (int i = from + threadIdx.x; i < to; i += 256) {
        float v = in[i];
        s += v;
        q += v * v;
    }
    s = warp_total(s);
    q = warp_total(q);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) { a[warp] = s; b[warp] = q; }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) { s += a[w]; q += b[w]; }
        atomicAdd(moments + 2 * blockIdx.y, s);
        atomicAdd(moments + 2 * blockIdx.y + 1, q);
    }
}

extern "C" __global__ void normalise(const float* __restrict__ x, const float* __restrict__ moments,
                                     const float* __restrict__ weight, const float* __restrict__ bias,
                                     float* __restrict__ y, int channels, int plane, int per_group, int size) {
    int channel = blockIdx.y % channels;
    int group = blockIdx.y / per_group;
    float mean = moments[2 * group] / size;
    float var = moments[2 * group + 1] / size - mean * mean;
    float k = weight[channel] * rsqrtf(var + 1e-5f);
    float d = bias[channel] - mean * k;
    size_t base = (size_t)blockIdx.y * plane;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < plane; i += gridDim.x * blockDim.x)
        y[base + i] = fmaf(x[base + i], k, d);
}
''')


def run(x, weight, bias):
    n, channels, height, width = x.shape
    plane = height * width
    per_group = channels // 8
    size = per_group * plane
    y = torch.empty_like(x)
    moments = torch.zeros((n * 8, 2), device=x.device, dtype=torch.float32)
    slices = (size + 8191) // 8192
    module.launch("gather_moments", grid=(slices, n * 8), block=256, args=(x, moments, size, 8192))
    module.launch(
        "normalise",
        grid=(min((plane + 255) // 256, 32), n * channels),
        block=256,
        args=(x, moments, weight, bias, y, channels, plane, per_group, size),
    )
    return y
