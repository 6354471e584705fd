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
