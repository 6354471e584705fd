import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#define THREADS 128
extern "C" __global__ void row_loss(const float* __restrict__ logits, const long long* __restrict__ targets,
                                    float* __restrict__ losses, int cols) {
    __shared__ float ms[THREADS], ss[THREADS];
    const float* z = logits + (size_t)blockIdx.x * cols;
    int t = threadIdx.x;
    float m = -1e30f, s = 0.0f;
    for (int c = t; c < cols; c += THREADS) {
        float v = z[c];
        float n = fmaxf(m, v);
        s = s * __expf(m - n) + __expf(v - n);
        m = n;
    }
    ms[t] = m;
    ss[t] = s;
    __syncthreads();
    for (int half = THREADS / 2; half; half >>= 1) {
        if (t < half) {
            float n = fmaxf(ms[t], ms[t + half]);
            ss[t] = ss[t] * __expf(ms[t] - n) + ss[t + half] * __expf(ms[t + half] - n);
            ms[t] = n;
        }
        __syncthreads();
    }
    if (t == 0) losses[blockIdx.x] = ms[0] + logf(ss[0]) - z[targets[blockIdx.x]];
}

extern "C" __global__ void mean_all(const float* __restrict__ v, float* __restrict__ out, int n) {
    __shared__ float tree[1024];
    float s = 0.0f;
    for (int i = threadIdx.x; i < n; i += 1024) s += v[i];
    tree[threadIdx.x] = s;
    __syncthreads();
    for (int half = 512; half; half >>= 1) {
        if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = tree[0] / n;
}
''')


def run(logits, targets):
    rows, cols = logits.shape
    losses = torch.empty((rows,), device=logits.device, dtype=torch.float32)
    out = torch.empty((), device=logits.device, dtype=torch.float32)
    module.launch("row_loss", grid=rows, block=128, args=(logits, targets, losses, cols))
    module.launch("mean_all", grid=1, block=1024, args=(losses, out, rows))
    return out
