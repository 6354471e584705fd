import torch
from kbench.harness.cuda import CudaModule

# Works on the integer view: a set sign bit means the word becomes zero. No floating point at all.
module = CudaModule(r'''
extern "C" __global__ void relu_bits(const int* __restrict__ x, int* __restrict__ y, int n) {
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        int bits = __ldcs(x + i);
        __stcs(y + i, bits & ~(bits >> 31));
    }
}
''')


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    blocks = min((n + 511) // 512, 132 * 4)
    module.launch("relu_bits", grid=blocks, block=512, args=(x, y, n))
    return y
