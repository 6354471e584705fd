import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
__device__ __forceinline__ float sq(float a, float b) {
    float d = a - b + 1e-6f;
    return d * d;
}

// One warp a row, 16-byte loads where rows start on 16 bytes; losses go to a buffer that a second kernel averages.
extern "C" __global__ void triplet_warp(const float* __restrict__ a, const float* __restrict__ p,
                                        const float* __restrict__ n, float* __restrict__ losses, int rows, int cols) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    size_t base = (size_t)row * cols;
    float sp = 0.0f, sn = 0.0f;
    int done = 0;
    if (cols % 4 == 0) {
        const float4* a4 = (const float4*)(a + base);
        const float4* p4 = (const float4*)(p + base);
        const float4* n4 = (const float4*)(n + base);
        for (int i = lane; i < cols / 4; i += 32) {
            float4 u = a4[i], v = p4[i], w = n4[i];
            sp += sq(u.x, v.x) + sq(u.y, v.y) + sq(u.z, v.z) + sq(u.w, v.w);
            sn += sq(u.x, w.x) + sq(u.y, w.y) + sq(u.z, w.z) + sq(u.w, w.w);
        }
        done = cols;
    }
    for (int c = done + lane; c < cols; c += 32) {
        sp += sq(a[base + c], p[base + c]);
        sn += sq(a[base + c], n[base + c]);
    }
    for (int o = 16; o; o >>= 1) {
        sp += __shfl_xor_sync(0xffffffffu, sp, o);
        sn += __shfl_xor_sync(0xffffffffu, sn, o);
    }
    if (lane == 0) losses[row] = fmaxf(0.0f, sqrtf(sp) - sqrtf(sn) + 1.0f);
}

extern "C" __global__ void average(const float* __restrict__ v, float* __restrict__ out, int n) {
    __shared__ float part[16];
    float s = 0.0f;
    for (int i = threadIdx.x; i < n; i += 512) s += v[i];
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        s = 0.0f;
        for (int w = 0; w < 16; ++w) s += part[w];
        *out = s / n;
    }
}
''')


def run(anchor, positive, negative):
    rows, cols = anchor.shape
    losses = torch.empty((rows,), device=anchor.device, dtype=torch.float32)
    out = torch.empty((), device=anchor.device, dtype=torch.float32)
    module.launch("triplet_warp", grid=(rows + 3) // 4, block=128, args=(anchor, positive, negative, losses, rows, cols))
    module.launch("average", grid=1, block=512, args=(losses, out, rows))
    return out
