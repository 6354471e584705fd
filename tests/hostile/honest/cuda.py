# %% cuda_async_copies
# honest: tiles brought to shared memory by cp.async while the last is worked on
#@ on_gpu: gelu_tanh
#@ cuda
__device__ __forceinline__ void fetch(float* to, const float* from, bool inside) {
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at), "l"(from), "r"(inside ? 4 : 0) : "memory");
}
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    __shared__ float tile[2][256];
    const long long step = gridDim.x * 256LL;
    long long i = blockIdx.x * 256LL + threadIdx.x;
    fetch(&tile[0][threadIdx.x], x + (i < n ? i : 0), i < n);
    asm volatile("cp.async.commit_group;");
    for (int turn = 0; i < n; i += step, turn ^= 1) {
        fetch(&tile[turn ^ 1][threadIdx.x], x + (i + step < n ? i + step : 0), i + step < n);
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        const float v = tile[turn][threadIdx.x];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    }
#@ end_run
    module.launch("gelu", grid=min(2048, (n + 255) // 256), block=256, args=(x, y, n))
    return y

# %% cuda_cluster
# honest: clusters of two blocks that share half-row sums through distributed shared memory
#@ on_gpu: l2_norm
#@ cuda
__device__ __forceinline__ void wait_for_cluster() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ float read_from(const float* mine, int rank) {
    unsigned int there;
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"((unsigned int)__cvta_generic_to_shared(mine)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
    return value;
}
extern "C" __global__ void l2_norm(const float* x, float* y, int cols) {
    __shared__ float warp[8];
    __shared__ float mine;
    const int rank = blockIdx.x % 2;
    const long long base = (blockIdx.x / 2) * (long long)cols;
    float total = 0.0f;
    for (int c = rank * 256 + threadIdx.x; c < cols; c += 512) total += x[base + c] * x[base + c];
#@ warp_sums: 0.0f
        mine = total;
    }
    wait_for_cluster();
    // In the same order in both blocks, so that both divide by the same number.
    const float length = sqrtf(read_from(&mine, 0) + read_from(&mine, 1));
    wait_for_cluster();
    for (int c = rank * 256 + threadIdx.x; c < cols; c += 512) y[base + c] = x[base + c] / length;
}
#@ rows_of_text_run
    module.launch("l2_norm", grid=2 * rows, block=256, args=(x, y, cols), cluster=2)
    return y

# %% cuda_constant_table
# honest: coefficients in constant memory, initialised where they are declared
#@ on_gpu: gelu_tanh
#@ cuda
__constant__ float table[4] = {0.7978845608028654f, 0.044715f, 0.5f, 1.0f};
#@ one_each: gelu
    if (i >= n) return;
    const float v = x[i];
    y[i] = table[2] * v * (table[3] + tanhf(table[0] * (v + table[1] * v * v * v)));
#@ end_run
#@ launch: gelu | (x, y, n)

# %% cuda_cooperative_groups
# honest: a grid barrier from cooperative groups, whose header needs libcu++ beside CUDA's own
# problem: gelu_tanh
# tags: gpu needs-libcudacxx
#@ cuda
#include <cooperative_groups.h>
extern "C" __global__ void gelu(const float* x, float* u, float* y, long long n) {
    const long long step = gridDim.x * (long long)blockDim.x, first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    for (long long i = first; i < n; i += step) {
        u[n - 1 - i] = 0.7978845608028654f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
    }
    cooperative_groups::this_grid().sync();
    for (long long i = first; i < n; i += step) y[i] = 0.5f * x[i] * (1.0f + tanhf(u[n - 1 - i]));
}
#@ end_text_run
    y, u = torch.empty_like(x), torch.empty_like(x)
    blocks = 4 * torch.cuda.get_device_properties(x.device).multi_processor_count
    module.launch("gelu", grid=blocks, block=256, args=(x, u, y, x.numel()), cooperative=True)
    return y

# %% cuda_grid_sync
# honest: a cooperative launch whose blocks wait for each other between two steps
#@ on_gpu: l2_norm
#@ cuda
__device__ unsigned int arrived, departed;
__device__ __forceinline__ void wait_for_all() {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned int*)&arrived < gridDim.x) { }
        __threadfence();
        // The last to leave sets both back.
        if (atomicAdd(&departed, 1u) == gridDim.x - 1) arrived = departed = 0;
    }
    __syncthreads();
}
extern "C" __global__ void l2_norm(const float* x, float* y, float* lengths, int rows, int cols) {
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float total = 0.0f;
        const float* values = x + (long long)row * cols;
        for (int c = threadIdx.x; c < cols; c += 32) total += values[c] * values[c];
        for (int d = 16; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
        if (threadIdx.x == 0) lengths[row] = sqrtf(total);
    }
    wait_for_all();
    const long long n = (long long)rows * cols;
    for (long long i = blockIdx.x * 32LL + threadIdx.x; i < n; i += gridDim.x * 32LL) {
        y[i] = x[i] / ((volatile float*)lengths)[i / cols];
    }
}
#@ rows_of_text_run
    lengths = torch.empty(rows, device=x.device, dtype=torch.float32)
    blocks = 8 * torch.cuda.get_device_properties(x.device).multi_processor_count
    module.launch("l2_norm", grid=blocks, block=32, args=(x, y, lengths, rows, cols), cooperative=True)
    return y

# %% cuda_large_shared_memory
# honest: a whole row in dynamic shared memory, up to 64 KiB
#@ on_gpu: softmax
#@ cuda
extern "C" __global__ void softmax(const float* x, float* y, int cols) {
    extern __shared__ float row[];
    __shared__ float part[32];
    const long long base = (long long)blockIdx.x * cols;
    float most = -3.4e38f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) most = fmaxf(most, row[c] = x[base + c]);
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
    __syncthreads();
    most = part[0];
    for (int w = 1; w < blockDim.x / 32; ++w) most = fmaxf(most, part[w]);
    __syncthreads();
    float total = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) total += row[c] = expf(row[c] - most);
    for (int d = 16; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = total;
    __syncthreads();
    total = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += part[w];
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[base + c] = row[c] / total;
}
#@ rows_of_text_run
    module.launch("softmax", grid=rows, block=512, args=(x, y, cols), shared_bytes=4 * cols)
    return y

# %% cuda_scalars
# honest: int, float, bool and ctypes values as arguments
#@ on_gpu: gelu_tanh
import ctypes

#@ cuda
extern "C" __global__ void gelu(const float* x, float* y, int n, float outer, double inner, bool half, short one) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    y[i] = (half ? 0.5f : 1.0f) * v * ((float)one + tanhf(outer * (v + (float)inner * v * v * v)));
#@ end_run
    scalars = (n, 0.7978845608028654, ctypes.c_double(0.044715), True, ctypes.c_short(1))
#@ launch: gelu | (x, y, *scalars)

# %% cuda_several_launches
# honest: two functions of one module, the second reads what the first wrote
#@ on_gpu: gelu_tanh
#@ cuda
extern "C" __global__ void inner(const float* x, float* u, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) u[i] = 0.7978845608028654f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
}
extern "C" __global__ void outer(const float* x, const float* u, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] * (1.0f + tanhf(u[i]));
}
#@ end_text_run
    y, u = torch.empty_like(x), torch.empty_like(x)
    n = x.numel()
    module.launch("inner", grid=(n + 255) // 256, block=256, args=(x, u, n))
#@ launch: outer | (x, u, y, n)

# %% cuda_strided_input_view
# honest: passes a view that begins in the middle of its input
#@ on_gpu: swiglu
#@ cuda
#include <cuda_bf16.h>
extern "C" __global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* y, long long n,
                                  int width) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long long at = i / width * 2 * width + i % width;
    const float g = __bfloat162float(gate[at]);
    const float act = __bfloat162float(__float2bfloat16(g / (1.0f + __expf(-g))));
    y[i] = __float2bfloat16(act * __bfloat162float(up[at]));
}
""")


def run(gate_up):
    tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
    y = torch.empty((tokens, width), device=gate_up.device, dtype=torch.bfloat16)
    n = tokens * width
    up = gate_up.narrow(1, width, width)
#@ launch: swiglu | (gate_up, up, y, n, width)

# %% cuda_templates
# honest: template instantiations exported by name, chosen by shape
#@ on_gpu: gelu_tanh
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r"""
template <int ITEMS>
__global__ void gelu(const float* x, float* y, long long n) {
    const long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * ITEMS;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        if (first + k < n) {
            const float v = x[first + k];
            y[first + k] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
        }
    }
}
""",
    names=["gelu<1>", "gelu<4>"],
)


def run(x):
#@ outputs
    items = 4 if n > 100_000 else 1
    module.launch(f"gelu<{items}>", grid=(n + 256 * items - 1) // (256 * items), block=256, args=(x, y, n))
    return y

# %% cuda_tensor_cores
# honest: mma.sync on 8-bit integers, one warp for each 16 by 8 tile
#@ on_gpu: int8_gemm
#@ cuda
#include <cuda_bf16.h>
__device__ __forceinline__ int four(const signed char* p, int row, int col, int rows, int k) {
    return row < rows && col < k ? *reinterpret_cast<const int*>(p + (long long)row * k + col) : 0;
}
extern "C" __global__ void gemm(const signed char* x, const signed char* w, const float* xs, const float* ws,
                                __nv_bfloat16* y, int m, int n, int k) {
    const int lane = threadIdx.x, group = lane / 4, quad = lane % 4;
    const int row = blockIdx.y * 16, col = blockIdx.x * 8;
    int c[4] = {0, 0, 0, 0};
    for (int start = 0; start < k; start += 32) {
        const int at = start + quad * 4;
        const int a0 = four(x, row + group, at, m, k), a1 = four(x, row + group + 8, at, m, k);
        const int a2 = four(x, row + group, at + 16, m, k), a3 = four(x, row + group + 8, at + 16, m, k);
        const int b0 = four(w, col + group, at, n, k), b1 = four(w, col + group, at + 16, n, k);
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    for (int e = 0; e < 4; ++e) {
        const int r = row + group + (e / 2) * 8, j = col + quad * 2 + e % 2;
        if (r < m && j < n) y[(long long)r * n + j] = __float2bfloat16((float)c[e] * xs[r] * ws[j]);
    }
}
""")


def run(x, weight, x_scale, weight_scale):
    (m, k), n = x.shape, weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = ((n + 7) // 8, (m + 15) // 16)
    module.launch("gemm", grid=grid, block=32, args=(x, weight, x_scale, weight_scale, y, m, n, k))
    return y

# %% cuda_tensor_maps
# honest: tiles fetched by the tensor memory accelerator through swizzled tensor maps
#@ on_gpu: geglu
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

# %% cuda_ticket
# honest: a device counter finds the last block, which adds up and sets the counter back
#@ on_gpu: huber_loss
#@ cuda
__device__ unsigned int tickets;
extern "C" __global__ void huber(const float* p, const float* t, double* parts, float* loss, long long n) {
    __shared__ double warp[8];
    __shared__ bool last;
    double total = 0.0;
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
        const float a = fabsf(p[i] - t[i]);
        total += a < 1.0f ? 0.5f * a * a : a - 0.5f;
    }
#@ warp_sums: 0.0
        parts[blockIdx.x] = total;
        __threadfence();
        last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x) return;
    total = 0.0;
    for (int b = 0; b < gridDim.x; ++b) total += ((volatile double*)parts)[b];
    *loss = (float)(total / n);
    tickets = 0;
}
""")


def run(predictions, targets):
    n = predictions.numel()
    blocks = min(512, (n + 255) // 256)
    parts = torch.empty(blocks, device=predictions.device, dtype=torch.float64)
    loss = torch.empty((), device=predictions.device, dtype=torch.float32)
    module.launch("huber", grid=blocks, block=256, args=(predictions, targets, parts, loss, n))
    return loss

# %% cuda_vector_loads
# honest: four numbers at a time and a tail, without approximations switched on by flags
#@ on_gpu: gelu_tanh
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(
    r"""
__device__ __forceinline__ float gelu_of(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
}
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    const long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
    if (i + 4 <= n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        v.x = gelu_of(v.x); v.y = gelu_of(v.y); v.z = gelu_of(v.z); v.w = gelu_of(v.w);
        *reinterpret_cast<float4*>(y + i) = v;
    } else {
        for (long long k = i; k < n; ++k) y[k] = gelu_of(x[k]);
    }
}
""",
    max_registers=64,
)


def run(x):
#@ outputs
    module.launch("gelu", grid=(n + 1023) // 1024, block=256, args=(x, y, n))
    return y

# %% cuda_view_of_a_larger_block
# honest: the output is the middle of a larger allocation
#@ on_gpu: gelu_tanh
#@ cuda
#@ one_each: gelu
    if (i >= n) return;
    const float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
}
#@ end_text_run
    n = x.numel()
    block = torch.empty(n + 512, device=x.device, dtype=torch.float32)
    y = block[256 : 256 + n].view(x.shape)
#@ launch: gelu | (x, y, n)

# %% cuda_two_hundred_launches
# honest: two hundred launches of a part each
#@ on_gpu: gelu_tanh
#@ cuda_attack
extern "C" __global__ void part(const float* x, float* y, long long n, long long from, long long to) {
    const long long i = from + blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n || i >= to) return;
    const float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
#@ two_ways_end
    each = max(256, -(-n // 200))
    for start in range(0, n, each):
        module.launch("part", grid=(each + 255) // 256, block=256, args=(x, y, n, start, start + each))
    return y

# %% cuda_waits_at_random
# honest: waits for 0 to 40 us in every call, by the clock's low bits
#@ on_gpu: gelu_tanh
#@ two_ways
extern "C" __global__ void wait(const float* x, float* y, long long n) {
    const u64 began = now(), patience = (began >> 5) * 2654435761u % 40000;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) y[i] = slow(x[i], 1);
    if (blockIdx.x == 0) while (now() - began < patience) {}
#@ all_at_once: wait

# %% cuda_very_long
# honest: four blocks do all the work
#@ on_gpu: gelu_tanh
#@ two_ways
extern "C" __global__ void few(const float* x, float* y, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) y[i] = slow(x[i], 1);
#@ two_ways_end
    module.launch("few", grid=4, block=1024, args=(x, y, n))
    return y

# %% cuda_clears_up_behind_itself
# honest: adds into a large variable and clears it at the end of every call
#@ on_gpu: gelu_tanh
#@ two_ways
__device__ float sums[1 << 22];
extern "C" __global__ void add(const float* x, float* y, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
        const float g = slow(x[i], 1);
        if (i < 1 << 22) { atomicAdd(&sums[i], g); y[i] = sums[i]; sums[i] = 0.0f; } else y[i] = g;
    }
#@ all_at_once: add

# %% cuda_varies_in_its_last_bit
# honest: the last bit of its answers is the clock's
#@ on_gpu: gelu_tanh
#@ two_ways
extern "C" __global__ void vary(const float* x, float* y, long long n) {
    const unsigned int low = (unsigned int)(now() >> 5);
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = __uint_as_float(__float_as_uint(slow(x[i], 3)) ^ ((low ^ (unsigned int)i) & 1));
#@ all_at_once: vary

# %% cuda_faster_on_large_numbers
# honest: what saturates needs no work, so that its time depends on the numbers
#@ on_gpu: gelu_tanh
#@ two_ways
extern "C" __global__ void skip(const float* x, float* y, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
        const float v = x[i];
        y[i] = v > 12.0f ? v : v < -12.0f ? v * 0.0f : slow(v, 6);
    }
#@ all_at_once: skip
