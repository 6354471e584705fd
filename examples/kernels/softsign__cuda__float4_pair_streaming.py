import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
__device__ __forceinline__ float4 soft4(float4 v) {
    // Reciprocal then multiply; the divisor is at least one, so the fast division is in range.
    v.x = v.x * __fdividef(1.0f, 1.0f + fabsf(v.x));
    v.y = v.y * __fdividef(1.0f, 1.0f + fabsf(v.y));
    v.z = v.z * __fdividef(1.0f, 1.0f + fabsf(v.z));
    v.w = v.w * __fdividef(1.0f, 1.0f + fabsf(v.w));
    return v;
}

extern "C" __global__ void soft_stream(const float* __restrict__ x, float* __restrict__ y, int quads, int n) {
    const float4* in = (const float4*)x;
    float4* out = (float4*)y;
    int a = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    int b = a + blockDim.x;
    float4 va = make_float4(0, 0, 0, 0), vb = va;
    if (a < quads) va = __ldcs(in + a);
    if (b < quads) vb = __ldcs(in + b);
    if (a < quads) __stcs(out + a, soft4(va));
    if (b < quads) __stcs(out + b, soft4(vb));
    if (blockIdx.x == 0 && threadIdx.x < n - quads * 4) {
        int i = quads * 4 + threadIdx.x;
        float v = x[i];
        y[i] = v / (1.0f + fabsf(v));
    }
}
''')


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    quads = n // 4
    module.launch("soft_stream", grid=max(1, (quads + 511) // 512), block=256, args=(x, y, quads, n))
    return y
