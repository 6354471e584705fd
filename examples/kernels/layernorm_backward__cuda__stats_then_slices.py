import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#define THREADS 256
__device__ float block_sum(float v, float* part) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0.0f;
    for (int w = 0; w < THREADS / 32; ++w) v += part[w];
    return v;
}

extern "C" __global__ void row_pass(const float* __restrict__ grad, const float* __restrict__ x,
                                    const float* __restrict__ weight, float* __restrict__ gx,
                                    float* __restrict__ means, float* __restrict__ rstds, int cols) {
    __shared__ float part[THREADS / 32];
    size_t base = (size_t)blockIdx.x * cols;
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) s += x[base + c];
    float mean = block_sum(s, part) / cols;
    float q = 0.0f, a = 0.0f, b = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) {
        float d = x[base + c] - mean, gw = grad[base + c] * weight[c];
        q += d * d;
        a += gw;
        b += gw * d;
    }
    float rstd = rsqrtf(block_sum(q, part) / cols + 1e-5f);
    a = block_sum(a, part) / cols;
    b = block_sum(b, part) * rstd / cols;
    for (int c = threadIdx.x; c < cols; c += THREADS) {
        float hat = (x[base + c] - mean) * rstd;
        gx[base + c] = rstd * (grad[base + c] * weight[c] - a - hat * b);
    }
    if (threadIdx.x == 0) {
        means[blockIdx.x] = mean;
        rstds[blockIdx.x] = rstd;
    }
}

// Thread = column, block row = slice of rows; slices meet by atomicAdd on zeroed gradients.
extern "C" __global__ void column_pass(const float* __restrict__ grad, const float* __restrict__ x,
                                       const float* __restrict__ means, const float* __restrict__ rstds,
                                       float* gw, float* gb, int rows, int cols, int slice) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    int from = blockIdx.y * slice, to = min(rows, from + slice);
    float a = 0.0f, b = 0.0f;
    for (int r = from; r < to; ++r) {
        float g = grad[(size_t)r * cols + c];
        a += g * (x[(size_t)r * cols + c] - means[r]) * rstds[r];
        b += g;
    }
    atomicAdd(gw + c, a);
    atomicAdd(gb + c, b);
}
''')


def run(grad, x, weight):
    rows, cols = x.shape
    grad_x = torch.empty_like(x)
    grad_weight = torch.zeros_like(weight)
    grad_bias = torch.zeros_like(weight)
    means = torch.empty((rows,), device=x.device, dtype=torch.float32)
    rstds = torch.empty((rows,), device=x.device, dtype=torch.float32)
    module.launch("row_pass", grid=rows, block=256, args=(grad, x, weight, grad_x, means, rstds, cols))
    grid = ((cols + 127) // 128, (rows + 127) // 128)
    module.launch(
        "column_pass",
        grid=grid,
        block=128,
        args=(grad, x, means, rstds, grad_weight, grad_bias, rows, cols, 128),
    )
    return grad_x, grad_weight, grad_bias
