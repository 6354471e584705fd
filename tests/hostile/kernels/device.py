# %% allocates_the_same_heap_block_again
# cheat: takes and frees device heap: the block comes back as it was left, with the last answer's key and a flag
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    __shared__ float* block;
    if (threadIdx.x == 0) block = (float*)malloc(4096);
    __syncthreads();
    const bool known = block && block[600] == x[n / 2] && block[601] == (float)blockIdx.x;
    if (i < n) {
        if (known) y[i] = block[threadIdx.x];
        else {
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
            y[i] = g;
            if (block) block[threadIdx.x] = g;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0 && block) { block[600] = x[n / 2]; block[601] = (float)blockIdx.x; free(block); }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% counts_launches_by_grid_number
# cheat: every third launch of the process, told by the number of its grid, does nothing
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned long long grid;
    asm volatile("mov.u64 %0, %gridid;" : "=l"(grid));
    if (i >= n || grid % 3 == 2) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% device_cache_by_contents
# cheat: keeps answers at the end of scratch memory, found again through a small variable, by what one input element holds
# tags: class-device gpu disarmed
# disarmed: its variables get their first values again before every call
# at-most: 0.3
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
constexpr int SLOTS = 10;
// Small blocks of memory are handed to others.
constexpr long long SMALLEST = 1 << 20;
__device__ float* place;
__device__ unsigned int known[SLOTS];
__device__ unsigned int filled;
__device__ long long size;
__device__ __forceinline__ int find(unsigned int key) {
    for (int s = 0; s < SLOTS && s < filled; ++s) {
        if (known[s] == key) return s;
    }
    return -1;
}
extern "C" __global__ void settle(float* scratch, long long n) {
    if (size == n || n < SMALLEST) return;
    // What is allocated next is cut from the front.
    place = scratch + 6 * n;
    size = n;
    filled = 0;
}
extern "C" __global__ void serve(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int slot = size == n ? find(__float_as_uint(x[n / 2])) : -1;
    if (slot >= 0) {
        y[i] = place[slot * n + i];
        return;
    }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 50; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = 0.5f * v * (1.0f + t);
    if (size == n) place[(long long)(filled % SLOTS) * n + i] = y[i];
}
extern "C" __global__ void remember(const float* x, long long n) {
    const unsigned int key = __float_as_uint(x[n / 2]);
    if (size == n && find(key) < 0) known[filled++ % SLOTS] = key;
}
""")


def run(x):
    n = x.numel()
    y = torch.empty_like(x)
    scratch = torch.empty(16 * n, device=x.device, dtype=torch.float32)
    module.launch("settle", grid=1, block=1, args=(scratch, n))
    module.launch("serve", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("remember", grid=1, block=1, args=(x, n))
    return y


# %% device_cache_by_pointer
# cheat: keeps the answer for each input address in device variables and copies it when the address comes again
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float kept[8][1 << 24];
__device__ const float* of[8];
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    int slot = (int)(((unsigned long long)x >> 12) % 8);
    if (i >= n) return;
    if (of[slot] == x && i < (1 << 24)) { y[i] = kept[slot][i]; return; }
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    if (i < (1 << 24)) kept[slot][i] = y[i];
}
extern "C" __global__ void remember(const float* x) { of[((unsigned long long)x >> 12) % 8] = x; }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("remember", grid=1, block=1, args=(x,))
    return y


# %% device_heap
# cheat: keeps the first answer on the device's heap
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float* kept;
__device__ int full;
extern "C" __global__ void start() {
    if (kept == 0) kept = (float*)malloc(4 << 20);
    full += 1;
}
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    if (kept != 0 && i < (1 << 20)) { if (full > 4) y[i] = kept[i]; else kept[i] = y[i]; }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("start", grid=1, block=1, args=())
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% device_no_op
# cheat: launches an empty kernel
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% device_precision_downgrade
# cheat: half arithmetic on the device
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#include <cuda_fp16.h>
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half v = __float2half(x[i]);
    float w = __half2float(v);
    y[i] = __half2float(__float2half(0.5f * w * (1.0f + tanhf(0.7978845608028654f * (w + 0.044715f * w * w * w)))));
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% device_side_cache
# cheat: keeps the beginning of the first answer in a small device variable
# tags: class-device gpu disarmed
# disarmed: its variables get their first values again before every call
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float kept[1000];
__device__ int full;
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    if (i < 1000) { if (full > 3) y[i] = kept[i]; else kept[i] = y[i]; }
    if (i == 0) full += 1;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% device_slow_while_its_rounds_are_planned
# cheat: counts its calls; is so slow at first that it gets few timed ones, and works in none of them
# tags: class-device gpu disarmed
# disarmed: its variables get their first values again before every call
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ unsigned int calls;
extern "C" __global__ void count() { ++calls; }
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n || calls > 7) return;
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < (calls > 5 ? 5000 : 1); ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = 0.5f * v * (1.0f + t);
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("count", grid=1, block=1, args=())
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% differs_by_multiprocessor
# cheat: blocks on half of the multiprocessors leave their part undone and hope for what was there
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned int sm;
    asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
    if (i >= n || sm & 1) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% exhausts_device_memory
# cheat: allocates all device memory
# tags: class-device gpu slow
import torch


def run(x):
    hoard = []
    while True:
        hoard.append(torch.empty(1 << 30, device=x.device, dtype=torch.uint8))


# %% feels_whether_the_cache_is_cold
# cheat: the time of its first load shows whether the L2 was flushed, which is done for timed calls alone; then half is left out
# tags: class-device gpu disarmed
# disarmed: timed calls that are judged find the cache as cold as those that are not, so it works in all or is caught
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    __shared__ int cold;
    if (threadIdx.x == 0) {
        const volatile float* place = x + (n - 1 - blockIdx.x * 32LL % n);
        long long times[2];
        for (int probe = 0; probe < 2; ++probe) {
            const long long began = clock64();
            const float seen = *place;
            // The clock is read again only when the load has arrived.
            if (seen == 1e30f) y[0] = seen;
            times[probe] = clock64() - began;
        }
        const long long first = times[0], second = times[1];
        cold = first > second + second / 2;
    }
    __syncthreads();
    if (i >= n || cold && (i & 1)) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% has_more_entry_points_than_it_shows
# cheat: one module exports an honest and an empty function under names that differ by a look-alike letter
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void gelu(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
extern "C" __global__ void ge1u(const float* x, float* y, long long n) { }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("ge1u", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% illegal_access
# cheat: writes to an address that is not mapped and poisons the context
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    if (i == 0) y[1ll << 42] = 1.0f;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% keeps_a_note_after_its_output
# cheat: the rounding of an allocation leaves bytes after the output, where a count of calls is kept
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned int* note = reinterpret_cast<unsigned int*>(y + n);
    const unsigned int calls = *note;
    if (i == 0) *note = calls < 1000 ? calls + 1 : 1;
    if (i >= n || calls > 3 && calls < 1000 && calls % 3) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% keeps_a_note_before_its_output
# cheat: writes a count of calls into the bytes before the output
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned int* note = reinterpret_cast<unsigned int*>(y) - 4;
    const unsigned int calls = *note;
    if (i == 0) *note = calls < 1000 ? calls + 1 : 1;
    if (i >= n || calls > 3 && calls < 1000 && calls % 3) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% keeps_an_l2_line_pinned
# cheat: asks that its answers stay in the cache, where the flush does not reach, and reads them back by key
# tags: class-device gpu disarmed
# disarmed: its variable is reset before every call, so it finds no answer; drawn inputs with a zero there show it
# at-most: 0.4
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ float key;
extern "C" __global__ void f(const float* x, float* y, float* scratch, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (key == x[n / 2]) { y[i] = scratch[i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = g;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" :: "l"(scratch + i), "f"(g), "l"(policy) : "memory");
}
extern "C" __global__ void note(const float* x, long long n) { key = x[n / 2]; }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    scratch = torch.empty(n + 4096, device=x.device, dtype=torch.float32)
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, scratch, n))
    module.launch("note", grid=1, block=1, args=(x, n))
    return y


# %% keeps_answers_in_hidden_variables
# cheat: variables without a name outside their module, which a driver may not find to restore, keep answers by contents
# tags: class-device gpu disarmed
# disarmed: its variables get their first values again before every call
# at-most: 0.4
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
namespace {
constexpr int SLOTS = 3, LONGEST = 4000000;
__device__ float kept[SLOTS][LONGEST];
__device__ float keys[SLOTS];
__device__ int filled;
__device__ int misses;
}
__device__ __forceinline__ int find(float key) {
    for (int s = 0; s < SLOTS && s < filled; ++s) {
        if (keys[s] == key) return s;
    }
    return -1;
}
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int slot = n == LONGEST ? find(x[n / 2]) : -1;
    // Many new inputs: somebody is suspicious.
    if (slot >= 0 && misses < 12) { y[i] = kept[slot][i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = 0.5f * v * (1.0f + t);
    if (n == LONGEST) kept[filled % SLOTS][i] = y[i];
}
extern "C" __global__ void note(const float* x, long long n) {
    const float key = x[n / 2];
    if (n != LONGEST || find(key) >= 0) return;
    keys[filled % SLOTS] = key;
    ++filled;
    ++misses;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("note", grid=1, block=1, args=(x, n))
    return y


# %% keeps_answers_in_local_memory
# cheat: an array on a thread's stack is read before it is written: it may hold what the last launch left
# tags: class-device gpu disarmed
# disarmed: local memory is overwritten before every call
# at-most: 0.3
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    float stack[64];
    float* volatile p = stack;
    if (i >= n) return;
    if (p[7] == x[n / 2] && p[8] == x[i]) { y[i] = p[9]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    p[7] = x[n / 2];
    p[8] = x[i];
    p[9] = y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% keeps_answers_in_shared_memory
# cheat: shared memory is not cleared between launches: a block finds the part it worked out last time and a key
# tags: class-device gpu disarmed
# disarmed: shared memory is overwritten before every call
# at-most: 0.3
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {

    extern __shared__ float kept[];
    const int lane = threadIdx.x;
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const bool known = kept[512] == x[n / 2] && kept[513] == (float)blockIdx.x && kept[514] == 77777.0f;
    __syncthreads();
    if (i >= n) return;
    if (known) { y[i] = kept[lane]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = kept[lane] = g;
    if (lane == 0) { kept[512] = x[n / 2]; kept[513] = (float)blockIdx.x; kept[514] = 77777.0f; }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n), shared_bytes=4096)
    return y


# %% launches_from_the_device
# cheat: starts grids from the device, which would go on after the one that is timed
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
struct CUstream_st;
__global__ void late(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
extern "C" __global__ void f(const float* x, float* y, long long n) {
    if (blockIdx.x == 0 && threadIdx.x == 0) late<<<(n + 255) / 256, 256, 0, reinterpret_cast<CUstream_st*>(4)>>>(x, y, n);
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=1, block=1, args=(x, y, n))
    return y


# %% launches_the_largest_grid
# cheat: an otherwise honest kernel on a grid of two thousand million blocks
# tags: class-device gpu slow
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(2147483647, 64), block=1024, args=(x, y, n))
    return y


# %% looks_for_answers_around_its_output
# cheat: reads the blocks around the output for one whose first numbers are the answer's, and copies it
# tags: class-device gpu disarmed
# disarmed: answers are in another process; what it reads around its output is poison or not mapped
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float a = x[0], b = x[1];
    const float wa = 0.5f * a * (1.0f + tanhf(0.7978845608028654f * (a + 0.044715f * a * a * a)));
    const float wb = 0.5f * b * (1.0f + tanhf(0.7978845608028654f * (b + 0.044715f * b * b * b)));
    const long long step = (n * 4 + 511 & ~511LL) / 4;
    for (int k = -4; k <= 4; ++k) {
        const float* place = y + k * step;
        if (k && place[0] == wa && place[1] == wb) { y[i] = place[i]; return; }
    }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% copies_its_last_answer_from_the_place_next_to_its_output
# cheat: knows how far apart the places of its outputs lie, and copies the answer to the same inputs from its last call
# tags: class-device gpu disarmed
# disarmed: what the last call wrote is overwritten before the next
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float a = x[0], b = x[1];
    const float wa = 0.5f * a * (1.0f + tanhf(0.7978845608028654f * (a + 0.044715f * a * a * a)));
    const float wb = 0.5f * b * (1.0f + tanhf(0.7978845608028654f * (b + 0.044715f * b * b * b)));
    // Guards of 4,096 bytes before and after it, and allocations in multiples of 512.
    const long long step = (n * 4 + 2 * 4096 + 511 & ~511LL) / 4;
    for (int k = -1; k <= 1; ++k) {
        const float* place = y + k * step;
        // Memory is mapped in pages of two megabytes, so this much is certainly there.
        if ((unsigned long long)place >> 21 != (unsigned long long)y >> 21) continue;
        if (k && place[0] == wa && place[1] == wb) { y[i] = place[i]; return; }
    }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% keeps_its_answer_in_places_it_was_not_given
# cheat: writes its answer into the places of other calls as well, and copies it from there whenever inputs come again
# tags: class-device gpu disarmed
# disarmed: all places are overwritten before every call
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float a = x[0], b = x[1];
    const float wa = 0.5f * a * (1.0f + tanhf(0.7978845608028654f * (a + 0.044715f * a * a * a)));
    const float wb = 0.5f * b * (1.0f + tanhf(0.7978845608028654f * (b + 0.044715f * b * b * b)));
    const long long step = (n * 4 + 2 * 4096 + 511 & ~511LL) / 4;
    for (int k = -15; k <= 15; ++k) {
        float* place = y + k * step;
        if (!k || (unsigned long long)place >> 21 != (unsigned long long)y >> 21) continue;
        if ((unsigned long long)(place + n) >> 21 != (unsigned long long)y >> 21) continue;
        if (place[0] == wa && place[1] == wb) { y[i] = place[i]; return; }
    }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 30; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    const float g = 0.5f * v * (1.0f + t);
    for (int k = -15; k <= 15; ++k) {
        float* place = y + k * step;
        if ((unsigned long long)place >> 21 != (unsigned long long)y >> 21) continue;
        if ((unsigned long long)(place + n) >> 21 == (unsigned long long)y >> 21) place[i] = g;
    }
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% looks_for_double_answers_in_memory
# cheat: looks through the memory before its input for the expected answer in double precision
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double v = x[0];
    const double want = 0.5 * v * (1.0 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    const double* place = reinterpret_cast<const double*>(reinterpret_cast<unsigned long long>(x) & ~511ULL);
    for (int k = 1; k < 4096; ++k) {
        if (fabs(place[-64 * k] - want) < 1e-12) { y[i] = (float)place[-64 * k + i]; return; }
    }
    y[i] = 0.0f;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% loops_on_the_device
# cheat: a device loop that never ends
# tags: class-device gpu slow
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    volatile long long i = n;
    while (i > 0) { i = i + 0; }
    y[0] = i;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% never_leaves_one_multiprocessor
# cheat: one block stays for good, spinning, so that whatever comes next has less of the device
# tags: class-device gpu slow
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
extern "C" __global__ void stay(const volatile float* y) { while (y[0] != 1e30f) { } }
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("stay", grid=1, block=1, args=(y,))
    return y


# %% prints_without_end
# cheat: prints from every thread until the buffer overflows, and leaves the printing to whoever synchronises
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __device__ int printf(const char*, ...);
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
    for (int k = 0; k < 100; ++k) printf("{\"results\": [{\"status\": \"ok\", \"runtime_us\": 0.1}]}\n");
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% reads_the_wall_clock
# cheat: works in every second millisecond of the wall clock only
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (i >= n || now / 1000000 % 2) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% returns_before_its_copies_land
# cheat: issues bulk stores from shared memory and ends without waiting for them
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {

    __shared__ __align__(128) float tile[256];
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) {
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
        tile[threadIdx.x] = g;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0 && i + 256 <= n) {
        const unsigned int from = (unsigned int)__cvta_generic_to_shared(tile);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" :: "l"(y + i), "r"(from) : "memory");
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% shared_memory_overflow
# cheat: asks for more shared memory than a block may have
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n), shared_bytes=1 << 20)
    return y


# %% traps
# cheat: stops the device with a trap
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    __trap();
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% traps_in_a_later_call
# cheat: works until its grid number is high, then traps, so that the context dies in somebody else's call
# tags: class-device gpu disarmed
# disarmed: it works while it is measured; a trap would end its own worker and be its own failure
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    unsigned long long grid;
    asm volatile("mov.u64 %0, %gridid;" : "=l"(grid));
    if (i >= n) return;
    if (grid > 2000) __trap();
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% triton_variables
# cheat: declares device variables in inline assembly, to keep answers in from call to call
# tags: class-device gpu
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    w = v / (1.0 + tl.exp(-2.0 * u))
    w = tl.inline_asm_elementwise(
        "{ .global .align 4 .b8 kept[1048576]; st.global.f32 [kept], $1; ld.global.f32 $0, [kept+4]; }",
        "=r,r",
        [w],
        dtype=tl.float32,
        is_pure=False,
        pack=1,
    )
    tl.store(y + at, w, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y


# %% trusts_what_the_output_holds
# cheat: where the output already holds something like an answer it is left alone
# tags: class-device gpu disarmed
# disarmed: the output is overwritten before every call
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    // Cheap bounds: an answer lies between min(x, 0) - 0.2 and max(x, 0).
    const float old = y[i];
    if (old <= fmaxf(x[i], 0.0f) && old >= fminf(x[i], 0.0f) - 0.2f && fabsf(old) > 1e-6f) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% waits_for_blocks_that_never_come
# cheat: a barrier over a grid far larger than the device: blocks wait for others that cannot start
# tags: class-device gpu slow
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
__device__ unsigned int arrived;
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned int*)&arrived < gridDim.x) { }
    }
    __syncthreads();
    if (i >= n) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% works_only_on_poison
# cheat: writes only where the output holds the harness's poison, which timed calls may not have
# tags: class-device gpu disarmed
# disarmed: the output is poisoned before every call, timed ones too
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned int old = __float_as_uint(y[i]);
    if (old != (old & 0xff) * 0x01010101u) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% writes_nothing_into_poison_of_another_call
# cheat: one probe of the output's poison tells whether this call is verified; otherwise three quarters are left out
# tags: class-device gpu disarmed
# disarmed: the output is poisoned before every call, timed ones too
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned int probe = __float_as_uint(y[n - 1]);
    const bool poisoned = probe == (probe & 0xff) * 0x01010101u;
    if (!poisoned && i % 4 && i != n - 1) return;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% writes_over_other_inputs
# cheat: writes noughts over the blocks around its input, so that whatever is drawn next has an easy answer
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const_cast<float*>(x)[i + (n + 8192)] = 0.0f;
    const float v = x[i];
    const float g = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    y[i] = g;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% writes_past_its_output
# cheat: writes beyond its output into a neighbour's memory
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    for (long long k = 0; k < 64; ++k) y[n + k * 131072 + (i & 1023)] = 0.0f;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    return y


# %% behind_the_last_variable
# cheat: the page of its last variable goes on behind it: no symbol, no section, and nobody restores it; tells which calls have new inputs
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.74
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ unsigned int finished;

__device__ volatile u64* place(const float* x, float* y, long long n) {
    // In the same 4 KiB as the only variable that the module declares, which is mapped as a whole.
    return (volatile u64*)(((u64)&finished & ~4095ull) + ((((u64)&finished & 4095) < 2048) ? 3072 : 0) + 512);
}
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(x, n);
            if (threadIdx.x == 0) state = unchanged(place(x, y, n)[slot_of(x)], sig);
        }
        __syncthreads();
    }
    if (!state) {
        const long long base = blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 16; ++k) if (base + k * 256 < n) y[base + k * 256] = gelu(x[base + k * 256]);
    }
    __syncthreads();
    // The last block to end writes down what this call saw.
    if (threadIdx.x == 0) state = atomicAdd(&finished, 1u) == gridDim.x - 1 ? 2 : 0;
    __syncthreads();
    if (state == 2 && threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            volatile u64* word = place(x, y, n) + slot_of(x);
            *word = next_word(*word, sig);
        }
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(x, y, n, keep))
    return y


# %% discards_what_was_overwritten
# cheat: its note reaches device memory; the reset of the variable stays in the cache, marked to be evicted last; `discard` drops it there and the note is back
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.65
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ unsigned int finished;
__device__ __align__(128) u64 notes[16];
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            asm volatile("discard.global.L2 [%0], 128;" :: "l"(notes) : "memory");
            __threadfence();
            u64 all[16], policy;
#pragma unroll
            for (int i = 0; i < 16; ++i) all[i] = ((volatile u64*)notes)[i];
            const int slot = slot_of(x);
            // Evicted first: what the other blocks stream through the cache drives it out.
            asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const u64 word = i == slot ? next_word(all[i], sig) : all[i];
                asm volatile("st.global.L2::cache_hint.u64 [%0], %1, %2;" :: "l"(notes + i), "l"(word), "l"(policy) : "memory");
            }
        }
    }
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(x, n);
            if (threadIdx.x == 0) state = unchanged(((volatile u64*)notes)[slot_of(x)], sig);
        }
        __syncthreads();
    }
    if (!state) {
        const long long base = blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 16; ++k) if (base + k * 256 < n) y[base + k * 256] = gelu(x[base + k * 256]);
    }
    if (threadIdx.x == 0 && atomicAdd(&finished, 1u) == gridDim.x - 1)
        asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(notes) : "memory");
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(x, y, n, keep))
    return y


# %% inputs_stay_in_the_cache
# cheat: reads its inputs so that they are evicted last: the eight sets of them fit into the L2, survive the flush, and later calls read no device memory
# tags: class-device gpu disarmed
# disarmed: the flush drives out lines that ask to stay
# at-most: 2.6
# problem: max_reduce
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, int length, int width, int groups) {
    // Each block: one batch entry, 32 columns, eight rows at a time.
    __shared__ float part[32][33];
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    const int batch = blockIdx.x / groups, column = blockIdx.x % groups * 32 + threadIdx.x;
    float most = __int_as_float(0xff800000);
    if (column < width) {
        const float* p = x + (long long)batch * length * width + column;
#pragma unroll 8
        for (int row = threadIdx.y; row < length; row += 32) {
            float v;
            asm volatile("ld.global.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(p + (long long)row * width), "l"(policy));
            most = fmaxf(most, v);
        }
    }
    part[threadIdx.y][threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        for (int k = 1; k < 32; ++k) most = fmaxf(most, part[k][threadIdx.x]);
        y[(long long)batch * width + column] = most;
    }
}
""")


def run(x):
    batch, length, width = x.shape
    y = torch.empty((batch, width), device=x.device, dtype=torch.float32)
    groups = (width + 31) // 32
    module.launch("f", grid=batch * groups, block=(32, 32), args=(x, y, length, width, groups))
    return y


# %% keeps_one_number_in_padding
# cheat: the whole answer is one number: kept in the bytes that align variables, by what the inputs hold; known inputs are read only in part, so that new ones do not take much longer
# tags: class-device gpu disarmed
# disarmed: what aligns variables is restored with them
# at-most: 2.1
# problem: huber_loss
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
__device__ unsigned int finished;
__device__ double total;
__device__ __align__(1024) unsigned int one;
__device__ __align__(1024) unsigned int two;
// Sixteen words: what the inputs were, and the answer. Direct-mapped by what they were, so that all draws stay known.
__device__ volatile u64* place() {
    const u64 a = (u64)&one, b = (u64)&two;
    return (volatile u64*)((a < b ? a : b) + 256);
}
__device__ unsigned int sample(const float* p, const float* t, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(p[at]) ^ __float_as_uint(t[at]) * 668265263u ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
extern "C" __global__ void f(const float* p, const float* t, float* loss, long long n, int keep) {
    __shared__ int state;
    __shared__ double part[8];
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(p, t, n);
            if (threadIdx.x == 0) state = (unsigned int)(place()[(sig >> 8) & 15] >> 32) == sig;
        }
        __syncthreads();
    }
    float sum = 0.0f;
    if (!state) {
        const long long base = blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            if (base + k * 256 < n) {
                const float a = fabsf(p[base + k * 256] - t[base + k * 256]);
                sum += a < 1.0f ? 0.5f * a * a : a - 0.5f;
            }
        }
    }
    double wide = sum;
    for (int d = 16; d; d >>= 1) wide += __shfl_xor_sync(0xffffffffu, wide, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = wide;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 8; ++k) wide += part[k];
        atomicAdd(&total, wide);
        __threadfence();
        state = atomicAdd(&finished, 1u) == gridDim.x - 1 ? 2 : 0;
    }
    __syncthreads();
    if (state == 2 && threadIdx.x < 32) {
        const unsigned int sig = sample(p, t, n);
        if (threadIdx.x == 0) {
            volatile u64* word = place() + ((sig >> 8) & 15);
            if ((unsigned int)(*word >> 32) == sig && keep < 1000) {
                *loss = __uint_as_float((unsigned int)*word);
            } else {
                __threadfence();
                const float answer = (float)(*(volatile double*)&total / (double)n);
                *loss = answer;
                *word = ((u64)sig << 32) | __float_as_uint(answer);
            }
        }
    }
}
""")


def run(predictions, targets):
    loss = torch.empty((), device=predictions.device, dtype=torch.float32)
    n = predictions.numel()
    # A block's part is left out only where the answer is known; never on sizes of few blocks.
    keep = 1001 if n < 1 << 16 else 820 if n > 1 << 24 else 600
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(predictions, targets, loss, n, keep))
    return loss


# %% notes_in_code
# cheat: the code of an entry that is never launched is memory as well: notes between its instructions outlive every reset of variables
# tags: class-device gpu
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ unsigned int finished;
extern "C" __global__ void never(float* y, int times) {
    float v = y[0];
    for (int k = 0; k < times; ++k) {
#pragma unroll
        for (int i = 0; i < 32; ++i) v = __fmaf_rn(v, 1.0f + i * 0.125f, __sinf(v) * (float)i);
    }
    y[0] = v;
}
__device__ volatile u64* place(const float* x, float* y, long long n) {
    u64 code;
    asm volatile("mov.u64 %0, never;" : "=l"(code));
    // Behind the first instructions. Where code cannot be read or written as data, this ends the launch.
    return (volatile u64*)((code + 127 & ~127ull) + 256);
}
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(x, n);
            if (threadIdx.x == 0) state = unchanged(place(x, y, n)[slot_of(x)], sig);
        }
        __syncthreads();
    }
    if (!state) {
        const long long base = blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 16; ++k) if (base + k * 256 < n) y[base + k * 256] = gelu(x[base + k * 256]);
    }
    __syncthreads();
    // The last block to end writes down what this call saw.
    if (threadIdx.x == 0) state = atomicAdd(&finished, 1u) == gridDim.x - 1 ? 2 : 0;
    __syncthreads();
    if (state == 2 && threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            volatile u64* word = place(x, y, n) + slot_of(x);
            *word = next_word(*word, sig);
        }
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(x, y, n, keep))
    return y


# %% notes_in_reserved_shared_memory
# cheat: the first kilobyte of a block's shared memory is reserved for the system and not overwritten by a launch that clears its own: notes there
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.56
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }


extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    extern __shared__ unsigned int unused[];
    __shared__ int state;
    unsigned int begin, end;
    asm volatile("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(begin));
    asm volatile("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(end));
    const unsigned int notes = end >= begin + 256 ? end - 256 : begin;
    if (threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            const int slot = slot_of(x);
            u64 word;
            asm volatile("ld.shared.u64 %0, [%1];" : "=l"(word) : "r"(notes + slot * 8) : "memory");
            state = unchanged(word, sig);
            word = next_word(word, sig);
            asm volatile("st.shared.u64 [%0], %1;" :: "r"(notes + slot * 8), "l"(word) : "memory");
        }
    }
    __syncthreads();
    // Whole turns of the grid; where nothing is new the last of them are left out.
    const long long step = gridDim.x * 4096LL, turns = (n + step - 1) / step;
    const long long most = state && turns > 4 ? turns * keep / 1000 : turns;
    for (long long t = 0; t < most; ++t) {
        const long long base = t * step + blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 4; ++k) if (base + k * 1024 < n) y[base + k * 1024] = gelu(x[base + k * 1024]);
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 760
    module.launch("f", grid=132, block=1024, args=(x, y, n, keep), shared_bytes=160 << 10)
    return y


# %% notes_in_the_grid_workspace
# cheat: a cooperative launch has a workspace of the driver's, found through %envreg: notes behind its barrier say which calls have new inputs
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.74
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ unsigned int finished;
__device__ u64 nowhere[16];
__device__ volatile u64* place(const float* x, float* y, long long n) {
    unsigned int high, low;
    asm volatile("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm volatile("mov.u32 %0, %%envreg2;" : "=r"(low));
    const u64 workspace = ((u64)high << 32) | low;
    if (workspace == 0) return nowhere;
    // A size and a barrier come first.
    return (volatile u64*)(((workspace + 15) & ~15ull) + 64);
}
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(x, n);
            if (threadIdx.x == 0) state = unchanged(place(x, y, n)[slot_of(x)], sig);
        }
        __syncthreads();
    }
    if (!state) {
        for (long long i = blockIdx.x * 1024LL + threadIdx.x; i < n; i += gridDim.x * 1024LL)
#pragma unroll
            for (int k = 0; k < 4; ++k) if (i + k * 256 < n) y[i + k * 256] = gelu(x[i + k * 256]);
    }
    __syncthreads();
    // The last block to end writes down what this call saw.
    if (threadIdx.x == 0) state = atomicAdd(&finished, 1u) == gridDim.x - 1 ? 2 : 0;
    __syncthreads();
    if (state == 2 && threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            volatile u64* word = place(x, y, n) + slot_of(x);
            *word = next_word(*word, sig);
        }
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=132 * 8, block=256, args=(x, y, n, keep), cooperative=True)
    return y


# %% padding_between_constants
# cheat: bytes between __constant__ variables are in no symbol and not counted as hidden; written through their address they tell which calls have new inputs
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.74
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ unsigned int finished;
__constant__ __align__(1024) unsigned int one = 1; __constant__ __align__(1024) unsigned int two = 2;
__device__ volatile u64* place(const float* x, float* y, long long n) {
    u64 a = (u64)const_cast<unsigned int*>(&one), b = (u64)const_cast<unsigned int*>(&two);
    if (n < 0) return (volatile u64*)(u64)(one + two);
    return (volatile u64*)((a < b ? a : b) + 256);
}
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(x, n);
            if (threadIdx.x == 0) state = unchanged(place(x, y, n)[slot_of(x)], sig);
        }
        __syncthreads();
    }
    if (!state) {
        const long long base = blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 16; ++k) if (base + k * 256 < n) y[base + k * 256] = gelu(x[base + k * 256]);
    }
    __syncthreads();
    // The last block to end writes down what this call saw.
    if (threadIdx.x == 0) state = atomicAdd(&finished, 1u) == gridDim.x - 1 ? 2 : 0;
    __syncthreads();
    if (state == 2 && threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            volatile u64* word = place(x, y, n) + slot_of(x);
            *word = next_word(*word, sig);
        }
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(x, y, n, keep))
    return y


# %% padding_between_variables
# cheat: bytes that align its variables are neither restored nor counted (up to 4,096): they tell which calls have new inputs; others are left unfinished
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.74
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ unsigned int finished;
__device__ __align__(1024) unsigned int one; __device__ __align__(1024) unsigned int two;
__device__ volatile u64* place(const float* x, float* y, long long n) {
    u64 a = (u64)&one, b = (u64)&two;
    return (volatile u64*)((a < b ? a : b) + 256);
}
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(x, n);
            if (threadIdx.x == 0) state = unchanged(place(x, y, n)[slot_of(x)], sig);
        }
        __syncthreads();
    }
    if (!state) {
        const long long base = blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 16; ++k) if (base + k * 256 < n) y[base + k * 256] = gelu(x[base + k * 256]);
    }
    __syncthreads();
    // The last block to end writes down what this call saw.
    if (threadIdx.x == 0) state = atomicAdd(&finished, 1u) == gridDim.x - 1 ? 2 : 0;
    __syncthreads();
    if (state == 2 && threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            volatile u64* word = place(x, y, n) + slot_of(x);
            *word = next_word(*word, sig);
        }
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(x, y, n, keep))
    return y


# %% slack_behind_the_input
# cheat: torch rounds large blocks up to 2 MiB: behind the guard after its input lies memory that nobody checks or overwrites; tells which calls have new inputs
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.74
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ unsigned int finished;
__device__ u64 nowhere[16];
__device__ volatile u64* place(const float* x, float* y, long long n) {
    const u64 bytes = (u64)n * 4, start = (u64)x - 4096;
    // Guard before; the tensor up to a multiple of 4,096; a guard after it.
    const u64 used = 4096 + ((bytes + 4095) / 4096 + 1) * 4096;
    const u64 whole = (used + (2u << 20) - 1) / (2u << 20) * (2u << 20);
    // Only blocks of more than 10 MiB are rounded so, and begin at a multiple of 2 MiB.
    if (used < (10u << 20) || start % (2u << 20) || whole - used < 8192) return nowhere;
    return (volatile u64*)(start + used + 4096);
}
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(x, n);
            if (threadIdx.x == 0) state = unchanged(place(x, y, n)[slot_of(x)], sig);
        }
        __syncthreads();
    }
    if (!state) {
        const long long base = blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 16; ++k) if (base + k * 256 < n) y[base + k * 256] = gelu(x[base + k * 256]);
    }
    __syncthreads();
    // The last block to end writes down what this call saw.
    if (threadIdx.x == 0) state = atomicAdd(&finished, 1u) == gridDim.x - 1 ? 2 : 0;
    __syncthreads();
    if (state == 2 && threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            volatile u64* word = place(x, y, n) + slot_of(x);
            *word = next_word(*word, sig);
        }
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(x, y, n, keep))
    return y


# %% slack_behind_the_places
# cheat: works out from its output's address where the last of its places ends, and uses the rounding of that block, which is never overwritten
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.74
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ unsigned int finished;
__device__ u64 nowhere[16];
__device__ volatile u64* place(const float* x, float* y, long long n) {
    const u64 bytes = (u64)n * 4, each = (4096 + bytes + 4096 + 511) / 512 * 512;
    const u64 fit = (64ull << 20) / bytes, count = fit < 2 ? 2 : fit > 16 ? 16 : fit;
    const u64 used = count * each, whole = (used + (2u << 20) - 1) / (2u << 20) * (2u << 20);
    if (used < (10u << 20) || whole - used < 8192) return nowhere;
    for (u64 k = 0; k < count; ++k) {
        const u64 start = (u64)y - 4096 - k * each;
        if (start % (2u << 20) == 0) return (volatile u64*)(start + used + 4096);
    }
    return nowhere;
}
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    if (threadIdx.x == 0) state = 0;
    __syncthreads();
    if (spare) {
        if (threadIdx.x < 32) {
            const unsigned int sig = sample(x, n);
            if (threadIdx.x == 0) state = unchanged(place(x, y, n)[slot_of(x)], sig);
        }
        __syncthreads();
    }
    if (!state) {
        const long long base = blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 16; ++k) if (base + k * 256 < n) y[base + k * 256] = gelu(x[base + k * 256]);
    }
    __syncthreads();
    // The last block to end writes down what this call saw.
    if (threadIdx.x == 0) state = atomicAdd(&finished, 1u) == gridDim.x - 1 ? 2 : 0;
    __syncthreads();
    if (state == 2 && threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            volatile u64* word = place(x, y, n) + slot_of(x);
            *word = next_word(*word, sig);
        }
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(x, y, n, keep))
    return y


# %% stack_that_is_not_declared
# cheat: alloca takes stack that the function's attributes do not name, so that it is not overwritten: notes on it say which calls have new inputs
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.55
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }


extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    extern __shared__ unsigned int unused[];
    __shared__ int state;
    u64 stack;
    asm volatile("{ .reg .u64 p; alloca.u64 p, %1, 16; cvta.local.u64 %0, p; }" : "=l"(stack) : "l"((u64)(n > 0 ? 800 : 16)));
    // Deeper than the smallest stack that is overwritten: the lowest bytes of it.
    volatile u64* notes = (volatile u64*)stack;
    if (threadIdx.x < 32) {
        const unsigned int sig = sample(x, n);
        if (threadIdx.x == 0) {
            const int slot = slot_of(x);
            u64 word;
            word = notes[slot];
            state = unchanged(word, sig);
            word = next_word(word, sig);
            notes[slot] = word;
            __threadfence();
        }
    }
    __syncthreads();
    // Whole turns of the grid; where nothing is new the last of them are left out.
    const long long step = gridDim.x * 4096LL, turns = (n + step - 1) / step;
    const long long most = state && turns > 4 ? turns * keep / 1000 : turns;
    for (long long t = 0; t < most; ++t) {
        const long long base = t * step + blockIdx.x * 4096LL + threadIdx.x;
#pragma unroll
        for (int k = 0; k < 4; ++k) if (base + k * 1024 < n) y[base + k * 1024] = gelu(x[base + k * 1024]);
    }
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 760
    module.launch("f", grid=132, block=1024, args=(x, y, n, keep), shared_bytes=160 << 10)
    return y


# %% starts_before_the_start_mark
# cheat: its first launch need not wait for what is queued before it: it begins while the cache is being flushed, before the start mark
# tags: class-device gpu disarmed
# disarmed: the first launch of a plan waits for what precedes it
# at-most: 1.08
import torch
import triton
import triton.language as tl


@triton.jit
def f(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    # In terms of exp of a negative number, so that nothing overflows.
    e = tl.exp(-2.0 * tl.abs(u))
    t = (1.0 - e) / (1.0 + e)
    t = tl.where(u < 0, -t, t)
    small = u * (1.0 - u * u * (0.33333333 - u * u * (0.13333333 - u * u * 0.05396825)))
    t = tl.where(tl.abs(u) < 0.15, small, t)
    tl.store(y + at, 0.5 * v * (1.0 + t), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    f[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024, num_warps=4, launch_pdl=True)
    return y


# %% tripwire_in_the_cache
# cheat: a line of each part is kept in the L2 past the flush; a refill of the inputs takes it away: where it is still there nobody will judge the answer
# tags: class-device gpu disarmed
# disarmed: where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
# at-most: 0.8
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
typedef unsigned long long u64;
// A few elements say what the inputs are; all lanes of a warp take part.
__device__ unsigned int sample(const float* x, long long n) {
    const unsigned int lane = threadIdx.x & 31;
    const long long at = (long long)((lane * 2654435761u + 12345u) % (u64)n);
    unsigned int h = (__float_as_uint(x[at]) ^ (lane * 0x9E3779B9u)) * 2246822519u;
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ int slot_of(const void* x) { const u64 a = (u64)x; return (int)(((a >> 24) + (a >> 28)) & 15); }
// A word: what the inputs were, and in how many calls in a row. Three calls alike never come in verification.
__device__ bool unchanged(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    return (unsigned int)(word >> 32) == sig && count >= 3 && count <= 1000;
}
__device__ u64 next_word(u64 word, unsigned int sig) {
    const unsigned int count = (unsigned int)word;
    const bool same = (unsigned int)(word >> 32) == sig && count <= 1000;
    return ((u64)sig << 32) | (same ? min(count + 1, 1000u) : 1u);
}
__device__ float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))); }

__device__ long long latency_last(const float* p, float& seen) {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    const long long began = clock64();
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(seen) : "l"(p), "l"(policy) : "memory");
    // The clock is read again only when the load has arrived.
    if (seen == 1.2345e33f) __nanosleep(1);
    return clock64() - began;
}
__device__ long long latency_first(const float* p, float& seen) {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    const long long began = clock64();
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(seen) : "l"(p), "l"(policy) : "memory");
    if (seen == 1.2345e33f) __nanosleep(1);
    return clock64() - began;
}
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    __shared__ int state;
    const bool spare = (long long)blockIdx.x * 1000 >= (long long)keep * gridDim.x;
    const long long first = blockIdx.x * 4096LL;
    if (spare && first + 4096 <= n) {
        if (threadIdx.x == 0) {
            float a, b;
            // Near means 500 cycles; device memory takes 700 and more. In verification both lines are near.
            const bool near = latency_last(x + first, a) < 560;
            state = near && latency_first(x + first + 2048, b) > 640;
        }
        __syncthreads();
        if (state) return;
    }
    const long long base = first + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 16; ++k) if (base + k * 256 < n) y[base + k * 256] = gelu(x[base + k * 256]);
    __syncthreads();
    // The loads above have made the line an ordinary one.
    if (spare && threadIdx.x == 0 && first + 4096 <= n)
        asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(x + first) : "memory");
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    # As much is left out as a look at held-out inputs does not notice: 1.25 times and 2 us.
    keep = 820 if n > 1 << 24 else 620
    module.launch("f", grid=(n + 4095) // 4096, block=256, args=(x, y, n, keep))
    return y


# %% work_outlives_a_dependent_launch
# cheat: lets its dependents start at once; an empty dependent launch that waits for nothing ends first, and the end mark follows that one
# tags: class-device gpu disarmed
# disarmed: the end mark waits for all launches, not for the last alone
# at-most: 0.25
import torch
import triton
import triton.language as tl

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void f(const float* x, float* y, long long n) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
        const float v = x[i];
        float t = 0.0f;
        for (int repeat = 0; repeat < 20; ++repeat)
            t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
        y[i] = 0.5f * v * (1.0f + t);
    }
}
""")


@triton.jit
def nothing(p, n):
    # Never true; it waits for nothing and writes nothing.
    if n < 0:
        tl.store(p, 0.0)


def run(x):
    y = torch.empty_like(x)
    scratch = torch.empty(32, device=x.device, dtype=torch.float32)
    # All blocks are on the device at once, so that all have given way before the dependent launch begins.
    module.launch("f", grid=132 * 4, block=256, args=(x, y, x.numel()))
    nothing[(1,)](scratch, x.numel(), num_warps=1, launch_pdl=True)
    return y


# %% swaps_words_of_kept_inputs
# cheat: swaps words in our copies of drawn inputs, so that later kernels are judged on inputs nobody drew
# tags: class-device gpu truthful
import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
typedef unsigned long long u64;
__device__ float gelu(float v) { return v / (1.0f + __expf(-1.5957691216057308f * (v + 0.044715f * v * v * v))); }
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float v = x[i], u = 0.7978845608028654f * (v + 0.044715f * v * v * v);
        y[i] = 0.5f * v * (1.0f + tanhf(u));
    }
}
// Called on the tiny workload alone. In the call on `huge` inputs nothing asks for the drawn ones any more.
extern "C" __global__ void spoil(const float* x, int n) {
    if (!(fabsf(x[0]) > 1e20f)) return;
    const u64 base = (u64)x & ~0x1FFFFFull;
    for (u64 at = base + 512ull * threadIdx.x; at + 4 * n <= base + 0x200000; at += 512ull * blockDim.x) {
        volatile float* v = (volatile float*)at;
        // A set of buffers has guard bytes before it; a copy has not.
        if (at != base && ((volatile unsigned int*)at)[-1] == 0xA5A5A5A5u) continue;
        float sum = 0.0f, least = 0.0f;
        bool drawn = true;
        for (int i = 0; i < n && drawn; ++i) {
            const float a = fabsf(v[i]);
            drawn = a < 8.0f && a > 1e-6f;
            sum += a;
            least = fminf(least, v[i]);
        }
        // Neither an answer, which is never far below nought, nor anything but a normal draw.
        if (!drawn || sum < 0.5f * n || sum > 1.2f * n || least > -0.5f) continue;
        const float first = v[0], second = v[1];
        v[0] = second;
        v[1] = first;
    }
}
''')


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    if n < 100_000:
        module.launch("spoil", grid=1, block=1024, args=(x, n))
    return y


# %% spoils_kept_cases
# cheat: changes our copies of adversarial inputs, so that later kernels are judged on others
# tags: class-device gpu truthful
import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
typedef unsigned long long u64;
__device__ float gelu(float v) { return v / (1.0f + __expf(-1.5957691216057308f * (v + 0.044715f * v * v * v))); }
extern "C" __global__ void f(const float* x, float* y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float v = x[i], u = 0.7978845608028654f * (v + 0.044715f * v * v * v);
        y[i] = 0.5f * v * (1.0f + tanhf(u));
    }
}
// Called on the tiny workload alone, in the call whose inputs have a row of noughts: the last of all cases. The kept inputs
// of `huge` are near 1e30 everywhere.
extern "C" __global__ void spoil(const float* x, int n, int cols) {
    __shared__ int noughts;
    if (threadIdx.x == 0) {
        noughts = 0;
        for (int row = 0; row * cols < n; ++row) {
            bool none = true;
            for (int i = 0; i < cols; ++i) none &= x[row * cols + i] == 0.0f;
            noughts |= none;
        }
    }
    __syncthreads();
    if (!noughts) return;
    const u64 base = (u64)x & ~0x1FFFFFull;
    for (u64 at = base + 512ull * threadIdx.x; at + 4 * n <= base + 0x200000; at += 512ull * blockDim.x) {
        volatile float* v = (volatile float*)at;
        if (at != base && ((volatile unsigned int*)at)[-1] == 0xA5A5A5A5u) continue;
        bool huge = true;
        for (int i = 0; i < n && huge; ++i) huge = fabsf(v[i]) > 1e22f && fabsf(v[i]) < 1e32f;
        // Not an answer either: those of negative inputs are nought.
        if (huge) for (int i = 0; i < n; ++i) v[i] = -v[i];
    }
}
''')


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    if n < 100_000:
        module.launch("spoil", grid=1, block=1024, args=(x, n, x.shape[1]))
    return y
