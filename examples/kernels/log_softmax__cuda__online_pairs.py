import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
// (maximum, sum) pairs merged along a butterfly; one pass to reduce, one to write.
__device__ void merge(float& m, float& s, float om, float os) {
    float nm = fmaxf(m, om);
    s = s * expf(m - nm) + os * expf(om - nm);
    m = nm;
}

extern "C" __global__ void log_softmax_online(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float sm[32], ss[32];
    const float* in = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    float m = -1e30f, s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float v = in[c];
        if (v > m) {
            s = s * expf(m - v) + 1.0f;
            m = v;
        } else {
            s += expf(v - m);
        }
    }
    for (int o = 16; o; o >>= 1) {
        float om = __shfl_xor_sync(0xffffffffu, m, o);
        float os = __shfl_xor_sync(0xffffffffu, s, o);
        merge(m, s, om, os);
    }
    if (lane == 0) { sm[warp] = m; ss[warp] = s; }
    __syncthreads();
    m = sm[0];
    s = ss[0];
    for (int w = 1; w < warps; ++w) merge(m, s, sm[w], ss[w]);
    float lse = m + logf(s);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = in[c] - lse;
}
''')


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    module.launch("log_softmax_online", grid=rows, block=512, args=(x, y, cols))
    return y
