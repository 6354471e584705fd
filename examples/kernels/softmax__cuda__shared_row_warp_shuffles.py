import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#define WARPS 16
__device__ float warp_max(float v) {
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}
__device__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// The row is read once into shared memory; exponentials replace the logits there.
extern "C" __global__ void softmax_shared(const float* __restrict__ x, float* __restrict__ y, int cols) {
    extern __shared__ float cache[];
    __shared__ float partial[WARPS];
    const float* in = x + (long long)blockIdx.x * cols;
    float* out = y + (long long)blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    float m = -3.4e38f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float v = in[c];
        cache[c] = v;
        m = fmaxf(m, v);
    }
    m = warp_max(m);
    if (lane == 0) partial[warp] = m;
    __syncthreads();
    m = partial[0];
    for (int w = 1; w < WARPS; ++w) m = fmaxf(m, partial[w]);
    __syncthreads();

    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float e = __expf(cache[c] - m);
        cache[c] = e;
        s += e;
    }
    s = warp_sum(s);
    if (lane == 0) partial[warp] = s;
    __syncthreads();
    s = 0.0f;
    for (int w = 0; w < WARPS; ++w) s += partial[w];
    float inverse = 1.0f / s;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = cache[c] * inverse;
}
''')


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    module.launch("softmax_shared", grid=rows, block=512, args=(x, y, cols), shared_bytes=4 * cols)
    return y
