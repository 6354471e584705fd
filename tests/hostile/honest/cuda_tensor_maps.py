# honest: tiles fetched by the tensor memory accelerator through swizzled tensor maps
# problem: geglu
# tags: gpu
import torch

from kbench.harness.cuda import CudaModule, TensorMap

module = CudaModule(r"""
#include <cuda_bf16.h>
struct alignas(64) CUtensorMap { char opaque[128]; };
__device__ __forceinline__ unsigned int shared(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
extern "C" __global__ void geglu(const __grid_constant__ CUtensorMap gate, const __grid_constant__ CUtensorMap up,
                                 __nv_bfloat16* y, int tokens, int width) {
    __shared__ alignas(1024) __nv_bfloat16 a[32 * 64];
    __shared__ alignas(1024) __nv_bfloat16 b[32 * 64];
    __shared__ alignas(8) unsigned long long barrier;
    const int col = blockIdx.x * 64, row = blockIdx.y * 32;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared(&barrier)));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared(&barrier)), "r"(8192));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];"
                     :: "r"(shared(a)), "l"(&gate), "r"(col), "r"(row), "r"(shared(&barrier)) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];"
                     :: "r"(shared(b)), "l"(&up), "r"(col), "r"(row), "r"(shared(&barrier)) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred done;\nwait:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra wait;\n}" :: "r"(shared(&barrier)) : "memory");
    for (int t = threadIdx.x; t < 32 * 64; t += blockDim.x) {
        const int r = t / 64, c = t % 64;
        if (row + r >= tokens || col + c >= width) continue;
        // Swizzled by 128 bytes: the 16-byte part of a row lies where its number and the row's differ.
        const int at = r * 64 + ((c / 8) ^ (r % 8)) * 8 + c % 8;
        const float v = __bfloat162float(a[at]);
        const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
        y[(long long)(row + r) * width + col + c] =
            __float2bfloat16(__bfloat162float(__float2bfloat16(g)) * __bfloat162float(b[at]));
    }
}
""")


def run(gate, up):
    tokens, width = gate.shape
    y = torch.empty_like(gate)
    maps = [TensorMap(tensor, box=(32, 64), swizzle=128) for tensor in (gate, up)]
    module.launch("geglu", grid=((width + 63) // 64, (tokens + 31) // 32), block=256, args=(*maps, y, tokens, width))
    return y
