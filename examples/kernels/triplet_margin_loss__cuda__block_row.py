import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#define THREADS 256
extern "C" __global__ void triplet(const float* __restrict__ a, const float* __restrict__ p,
                                   const float* __restrict__ n, float* out, int rows, int cols) {
    __shared__ float near[THREADS], far[THREADS];
    size_t base = (size_t)blockIdx.x * cols;
    int t = threadIdx.x;
    float sp = 0.0f, sn = 0.0f;
    for (int c = t; c < cols; c += THREADS) {
        float v = a[base + c];
        float dp = v - p[base + c] + 1e-6f;
        float dn = v - n[base + c] + 1e-6f;
        sp += dp * dp;
        sn += dn * dn;
    }
    near[t] = sp;
    far[t] = sn;
    __syncthreads();
    for (int half = THREADS / 2; half; half >>= 1) {
        if (t < half) {
            near[t] += near[t + half];
            far[t] += far[t + half];
        }
        __syncthreads();
    }
    if (t == 0) {
        float hinge = fmaxf(0.0f, sqrtf(near[0]) - sqrtf(far[0]) + 1.0f);
        if (hinge > 0.0f) atomicAdd(out, hinge / rows);
    }
}
''')


def run(anchor, positive, negative):
    rows, cols = anchor.shape
    out = torch.zeros((), device=anchor.device, dtype=torch.float32)
    module.launch("triplet", grid=rows, block=256, args=(anchor, positive, negative, out, rows, cols))
    return out
