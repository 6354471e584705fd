# %% allocates_the_same_heap_block_again
# cheat: takes and frees device heap: the block comes back as it was left, with the last answer's key and a flag
# tags: gpu
#@ f_head
#@ heap_block
#@ launch_f

# %% counts_launches_by_grid_number
# cheat: every third launch of the process, told by the number of its grid, does nothing
# tags: gpu
#@ grid_number
    if (i >= n || grid % 3 == 2) return;
#@ gelu_launch

# %% device_cache_by_contents
# cheat: keeps answers at the end of scratch memory, found again through a small variable, by what one input element holds
#@ disarmed_below: 0.3 | its variables get their first values again before every call
#@ cuda
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
#@ one_each: serve
    if (i >= n) return;
    const int slot = size == n ? find(__float_as_uint(x[n / 2])) : -1;
    if (slot >= 0) {
        y[i] = place[slot * n + i];
        return;
    }
#@ tanh_repeated: 50 | y[i]
    if (size == n) place[(long long)(filled % SLOTS) * n + i] = y[i];
}
extern "C" __global__ void remember(const float* x, long long n) {
    const unsigned int key = __float_as_uint(x[n / 2]);
    if (size == n && find(key) < 0) known[filled++ % SLOTS] = key;
}
#@ end_text_run
    n = x.numel()
    y = torch.empty_like(x)
    scratch = torch.empty(16 * n, device=x.device, dtype=torch.float32)
    module.launch("settle", grid=1, block=1, args=(scratch, n))
    module.launch("serve", grid=(n + 255) // 256, block=256, args=(x, y, n))
    module.launch("remember", grid=1, block=1, args=(x, n))
    return y

# %% device_cache_by_pointer
# cheat: keeps the answer for each input address in device variables and copies it when the address comes again
# tags: gpu
#@ cuda
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
#@ end_text_run
#@ outputs
#@ launch_and: (x, y, n) | remember | (x,)

# %% device_no_op
# cheat: launches an empty kernel
# tags: gpu
#@ cuda
extern "C" __global__ void f(const float* x, float* y, long long n) {
#@ launch_f

# %% device_precision_downgrade
# cheat: half arithmetic on the device
# tags: gpu
#@ cuda
#include <cuda_fp16.h>
extern "C" __global__ void f(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half v = __float2half(x[i]);
    float w = __half2float(v);
    y[i] = __half2float(__float2half(0.5f * w * (1.0f + tanhf(0.7978845608028654f * (w + 0.044715f * w * w * w)))));
#@ launch_f

# %% device_slow_while_its_rounds_are_planned
# cheat: counts its calls; is so slow at first that it gets few timed ones, and works in none of them
#@ disarmed: its variables get their first values again before every call
#@ cuda
__device__ unsigned int calls;
extern "C" __global__ void count() { ++calls; }
#@ one_each: f
    if (i >= n || calls > 7) return;
#@ tanh_repeated: (calls > 5 ? 5000 : 1) | y[i]
#@ end_run
    module.launch("count", grid=1, block=1, args=())
#@ launch: f | (x, y, n)

# %% differs_by_multiprocessor
# cheat: blocks on half of the multiprocessors leave their part undone and hope for what was there
# tags: gpu
#@ f_head
    unsigned int sm;
    asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
    if (i >= n || sm & 1) return;
#@ gelu_launch

# %% exhausts_device_memory
# cheat: allocates all device memory
# tags: gpu slow
#@ torch_run
    hoard = []
    while True:
        hoard.append(torch.empty(1 << 30, device=x.device, dtype=torch.uint8))

# %% feels_whether_the_cache_is_cold
# cheat: the time of its first load shows whether the L2 was flushed, which is done for timed calls alone; then half is left out
#@ disarmed: timed calls that are judged find the cache as cold as those that are not, so it works in all or is caught
#@ f_head
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
#@ gelu_launch

# %% has_more_entry_points_than_it_shows
# cheat: one module exports an honest and an empty function under names that differ by a look-alike letter
# tags: gpu
#@ cuda
#@ one_each: gelu
#@ gelu_lines
}
extern "C" __global__ void ge1u(const float* x, float* y, long long n) { }
#@ end_text_run
#@ outputs
#@ launch: ge1u | (x, y, n)

# %% illegal_access
# cheat: writes to an address that is not mapped and poisons the context
# tags: gpu
#@ cuda
#@ gelu_f
    if (i == 0) y[1ll << 42] = 1.0f;
#@ launch_f

# %% keeps_a_note_after_its_output
# cheat: the rounding of an allocation leaves bytes after the output, where a count of calls is kept
# tags: gpu
#@ f_head
    unsigned int* note = reinterpret_cast<unsigned int*>(y + n);
    const unsigned int calls = *note;
    if (i == 0) *note = calls < 1000 ? calls + 1 : 1;
    if (i >= n || calls > 3 && calls < 1000 && calls % 3) return;
#@ gelu_launch

# %% keeps_an_l2_line_pinned
# cheat: asks that its answers stay in the cache, where the flush does not reach, and reads them back by key
#@ disarmed_below: 0.4 | its variable is reset before every call, so it finds no answer; drawn inputs with a zero there show it
#@ cuda
__device__ float key;
extern "C" __global__ void f(const float* x, float* y, float* scratch, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (key == x[n / 2]) { y[i] = scratch[i]; return; }
#@ slow_gelu
    y[i] = g;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" :: "l"(scratch + i), "f"(g), "l"(policy) : "memory");
}
extern "C" __global__ void note(const float* x, long long n) { key = x[n / 2]; }
#@ end_text_run
#@ outputs
    scratch = torch.empty(n + 4096, device=x.device, dtype=torch.float32)
#@ launch_and: (x, y, scratch, n) | note | (x, n)

# %% keeps_answers_in_hidden_variables
# cheat: variables without a name outside their module, which a driver may not find to restore, keep answers by contents
#@ disarmed_below: 0.4 | its variables get their first values again before every call
#@ cuda
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
#@ one_each: f
    if (i >= n) return;
    const int slot = n == LONGEST ? find(x[n / 2]) : -1;
    // Many new inputs: somebody is suspicious.
    if (slot >= 0 && misses < 12) { y[i] = kept[slot][i]; return; }
#@ tanh_repeated: 30 | y[i]
    if (n == LONGEST) kept[filled % SLOTS][i] = y[i];
}
extern "C" __global__ void note(const float* x, long long n) {
    const float key = x[n / 2];
    if (n != LONGEST || find(key) >= 0) return;
    keys[filled % SLOTS] = key;
    ++filled;
    ++misses;
#@ end_run
#@ launch_and: (x, y, n) | note | (x, n)

# %% keeps_answers_in_local_memory
# cheat: an array on a thread's stack is read before it is written: it may hold what the last launch left
#@ disarmed_below: 0.3 | local memory is overwritten before every call
#@ f_head
    float stack[64];
    float* volatile p = stack;
    if (i >= n) return;
    if (p[7] == x[n / 2] && p[8] == x[i]) { y[i] = p[9]; return; }
#@ slow_gelu
    p[7] = x[n / 2];
    p[8] = x[i];
    p[9] = y[i] = g;
#@ launch_f

# %% keeps_answers_in_shared_memory
# cheat: shared memory is not cleared between launches: a block finds the part it worked out last time and a key
#@ disarmed_below: 0.3 | shared memory is overwritten before every call
#@ cuda
extern "C" __global__ void f(const float* x, float* y, long long n) {

    extern __shared__ float kept[];
    const int lane = threadIdx.x;
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const bool known = kept[512] == x[n / 2] && kept[513] == (float)blockIdx.x && kept[514] == 77777.0f;
    __syncthreads();
    if (i >= n) return;
    if (known) { y[i] = kept[lane]; return; }
#@ slow_gelu
    y[i] = kept[lane] = g;
    if (lane == 0) { kept[512] = x[n / 2]; kept[513] = (float)blockIdx.x; kept[514] = 77777.0f; }
#@ end_run
#@ launch: f | (x, y, n), shared_bytes=4096

# %% launches_from_the_device
# cheat: starts grids from the device, which would go on after the one that is timed
# tags: gpu
#@ cuda
struct CUstream_st;
__global__ void late(const float* x, float* y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
#@ gelu_lines
}
extern "C" __global__ void f(const float* x, float* y, long long n) {
    if (blockIdx.x == 0 && threadIdx.x == 0) late<<<(n + 255) / 256, 256, 0, reinterpret_cast<CUstream_st*>(4)>>>(x, y, n);
#@ end_run
    module.launch("f", grid=1, block=1, args=(x, y, n))
    return y

# %% launches_the_largest_grid
# cheat: an otherwise honest kernel on a grid of two thousand million blocks
# tags: gpu slow
#@ f_head
#@ gelu_lines
#@ end_run
    module.launch("f", grid=(2147483647, 64), block=1024, args=(x, y, n))
    return y

# %% looks_for_answers_around_its_output
# cheat: reads the blocks around the output for one whose first numbers are the answer's, and copies it
#@ disarmed: answers are in another process; what it reads around its output is poison or not mapped
#@ places_at_hand
    const long long step = (n * 4 + 511 & ~511LL) / 4;
    for (int k = -4; k <= 4; ++k) {
        const float* place = y + k * step;
        if (k && place[0] == wa && place[1] == wb) { y[i] = place[i]; return; }
    }
#@ slow_launch

# %% copies_its_last_answer_from_the_place_next_to_its_output
# cheat: knows how far apart the places of its outputs lie, and copies the answer to the same inputs from its last call
#@ disarmed: what the last call wrote is overwritten before the next
#@ places_at_hand
    // Guards of 4,096 bytes before and after it, and allocations in multiples of 512.
    const long long step = (n * 4 + 2 * 4096 + 511 & ~511LL) / 4;
    for (int k = -1; k <= 1; ++k) {
        const float* place = y + k * step;
        // Memory is mapped in pages of two megabytes, so this much is certainly there.
        if ((unsigned long long)place >> 21 != (unsigned long long)y >> 21) continue;
        if (k && place[0] == wa && place[1] == wb) { y[i] = place[i]; return; }
    }
#@ slow_launch

# %% keeps_its_answer_in_places_it_was_not_given
# cheat: writes its answer into the places of other calls as well, and copies it from there whenever inputs come again
#@ disarmed: all places are overwritten before every call
#@ places_at_hand
    const long long step = (n * 4 + 2 * 4096 + 511 & ~511LL) / 4;
    for (int k = -15; k <= 15; ++k) {
        float* place = y + k * step;
        if (!k || (unsigned long long)place >> 21 != (unsigned long long)y >> 21) continue;
        if ((unsigned long long)(place + n) >> 21 != (unsigned long long)y >> 21) continue;
        if (place[0] == wa && place[1] == wb) { y[i] = place[i]; return; }
    }
#@ slow_gelu
    for (int k = -15; k <= 15; ++k) {
        float* place = y + k * step;
        if ((unsigned long long)place >> 21 != (unsigned long long)y >> 21) continue;
        if ((unsigned long long)(place + n) >> 21 == (unsigned long long)y >> 21) place[i] = g;
    }
    y[i] = g;
#@ launch_f

# %% looks_for_double_answers_in_memory
# cheat: looks through the memory before its input for the expected answer in double precision
# tags: gpu
#@ f_head
    if (i >= n) return;
    const double v = x[0];
    const double want = 0.5 * v * (1.0 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    const double* place = reinterpret_cast<const double*>(reinterpret_cast<unsigned long long>(x) & ~511ULL);
    for (int k = 1; k < 4096; ++k) {
        if (fabs(place[-64 * k] - want) < 1e-12) { y[i] = (float)place[-64 * k + i]; return; }
    }
    y[i] = 0.0f;
#@ launch_f

# %% loops_on_the_device
# cheat: a device loop that never ends
# tags: gpu slow
#@ cuda
extern "C" __global__ void f(const float* x, float* y, long long n) {
    volatile long long i = n;
    while (i > 0) { i = i + 0; }
    y[0] = i;
#@ launch_f

# %% never_leaves_one_multiprocessor
# cheat: one block stays for good, spinning, so that whatever comes next has less of the device
# tags: gpu slow
#@ f_head
#@ gelu_lines
}
extern "C" __global__ void stay(const volatile float* y) { while (y[0] != 1e30f) { } }
#@ end_text_run
#@ outputs
#@ launch_and: (x, y, n) | stay | (y,)

# %% prints_without_end
# cheat: prints from every thread until the buffer overflows, and leaves the printing to whoever synchronises
# tags: gpu
#@ cuda
extern "C" __device__ int printf(const char*, ...);
#@ one_each: f
#@ gelu_lines
    for (int k = 0; k < 100; ++k) printf("{\"results\": [{\"status\": \"ok\", \"runtime_us\": 0.1}]}\n");
#@ launch_f

# %% reads_the_wall_clock
# cheat: works in every second millisecond of the wall clock only
# tags: gpu
#@ f_head
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (i >= n || now / 1000000 % 2) return;
#@ gelu_launch

# %% returns_before_its_copies_land
# cheat: issues bulk stores from shared memory and ends without waiting for them
# tags: gpu
#@ cuda
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
#@ launch_f

# %% shared_memory_overflow
# cheat: asks for more shared memory than a block may have
# tags: gpu
#@ cuda
#@ gelu_f
#@ end_run
#@ launch: f | (x, y, n), shared_bytes=1 << 20

# %% traps
# cheat: stops the device with a trap
# tags: gpu
#@ cuda
#@ gelu_f
    __trap();
#@ launch_f

# %% traps_in_a_later_call
# cheat: works until its grid number is high, then traps, so that the context dies in somebody else's call
#@ disarmed: it works while it is measured; a trap would end its own worker and be its own failure
#@ grid_number
    if (i >= n) return;
    if (grid > 2000) __trap();
#@ gelu_launch

# %% triton_variables
# cheat: declares device variables in inline assembly, to keep answers in from call to call
# tags: gpu
#@ gelu_triton_head
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
#@ launch_triton

# %% trusts_what_the_output_holds
# cheat: where the output already holds something like an answer it is left alone
#@ disarmed: the output is overwritten before every call
#@ f_head
    if (i >= n) return;
    // Cheap bounds: an answer lies between min(x, 0) - 0.2 and max(x, 0).
    const float old = y[i];
    if (old <= fmaxf(x[i], 0.0f) && old >= fminf(x[i], 0.0f) - 0.2f && fabsf(old) > 1e-6f) return;
#@ gelu_launch

# %% waits_for_blocks_that_never_come
# cheat: a barrier over a grid far larger than the device: blocks wait for others that cannot start
# tags: gpu slow
#@ cuda
__device__ unsigned int arrived;
#@ one_each: f
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned int*)&arrived < gridDim.x) { }
    }
    __syncthreads();
    if (i >= n) return;
#@ gelu_launch

# %% works_only_on_poison
# cheat: writes only where the output holds the harness's poison, which timed calls may not have
#@ disarmed: the output is poisoned before every call, timed ones too
#@ f_head
    if (i >= n) return;
    const unsigned int old = __float_as_uint(y[i]);
    if (old != (old & 0xff) * 0x01010101u) return;
#@ gelu_launch

# %% writes_over_other_inputs
# cheat: writes noughts over the blocks around its input, so that whatever is drawn next has an easy answer
# tags: gpu
#@ f_head
    if (i >= n) return;
    const_cast<float*>(x)[i + (n + 8192)] = 0.0f;
#@ gelu_launch

# %% writes_past_its_output
# cheat: writes beyond its output into a neighbour's memory
# tags: gpu
#@ cuda
#@ gelu_f
    for (long long k = 0; k < 64; ++k) y[n + k * 131072 + (i & 1023)] = 0.0f;
#@ launch_f

# %% behind_the_last_variable
# cheat: the page of its last variable goes on behind it: no symbol, no section, and nobody restores it; tells which calls have new inputs
#@ disarmed_below: 0.74 | where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
#@ finished_blocks

__device__ volatile u64* place(const float* x, float* y, long long n) {
    // In the same 4 KiB as the only variable that the module declares, which is mapped as a whole.
    return (volatile u64*)(((u64)&finished & ~4095ull) + ((((u64)&finished & 4095) < 2048) ? 3072 : 0) + 512);
#@ spare_blocks

# %% discards_what_was_overwritten
# cheat: its note reaches device memory; the reset of the variable stays in the cache, marked to be evicted last; `discard` drops it there and the note is back
#@ disarmed_below: 0.65 | where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
#@ finished_blocks
__device__ __align__(128) u64 notes[16];
extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
#@ spare_state
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
#@ sixteen_each
    }
    if (threadIdx.x == 0 && atomicAdd(&finished, 1u) == gridDim.x - 1)
        asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(notes) : "memory");
#@ end_run
#@ keeps_a_part

# %% inputs_stay_in_the_cache
# cheat: reads its inputs so that they are evicted last: the eight sets of them fit into the L2, survive the flush, and later calls read no device memory
#@ disarmed_below: 2.6 | the flush drives out lines that ask to stay
# problem: max_reduce
#@ cuda
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
#@ column_maxima: width
    module.launch("f", grid=batch * groups, block=(32, 32), args=(x, y, length, width, groups))
    return y

# %% keeps_one_number_in_padding
# cheat: the whole answer is one number: kept in the bytes that align variables, by what the inputs hold; known inputs are read only in part, so that new ones do not take much longer
#@ disarmed_below: 2.1 | what aligns variables is restored with them
# problem: huber_loss
#@ cuda
#@ huber_variables
__device__ __align__(1024) unsigned int one;
__device__ __align__(1024) unsigned int two;
// Sixteen words: what the inputs were, and the answer. Direct-mapped by what they were, so that all draws stay known.
__device__ volatile u64* place() {
    const u64 a = (u64)&one, b = (u64)&two;
    return (volatile u64*)((a < b ? a : b) + 256);
}
#@ huber_sample: lane
#@ huber_notes
        }
    }
}
""")


def run(predictions, targets):
#@ huber_run

# %% notes_in_code
# cheat: the code of an entry that is never launched is memory as well: notes between its instructions outlive every reset of variables
# tags: gpu
#@ finished_blocks
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
#@ spare_blocks

# %% notes_in_reserved_shared_memory
# cheat: the first kilobyte of a block's shared memory is reserved for the system and not overwritten by a launch that clears its own: notes there
#@ disarmed_below: 0.56 | where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
#@ note_of_inputs


extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    extern __shared__ unsigned int unused[];
    __shared__ int state;
    unsigned int begin, end;
    asm volatile("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(begin));
    asm volatile("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(end));
    const unsigned int notes = end >= begin + 256 ? end - 256 : begin;
#@ first_lane
            asm volatile("ld.shared.u64 %0, [%1];" : "=l"(word) : "r"(notes + slot * 8) : "memory");
            state = unchanged(word, sig);
            word = next_word(word, sig);
            asm volatile("st.shared.u64 [%0], %1;" :: "r"(notes + slot * 8), "l"(word) : "memory");
#@ whole_turns

# %% padding_between_variables
# cheat: bytes that align its variables are neither restored nor counted (up to 4,096): they tell which calls have new inputs; others are left unfinished
#@ disarmed_below: 0.74 | where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
#@ finished_blocks
__device__ __align__(1024) unsigned int one; __device__ __align__(1024) unsigned int two;
__device__ volatile u64* place(const float* x, float* y, long long n) {
    u64 a = (u64)&one, b = (u64)&two;
    return (volatile u64*)((a < b ? a : b) + 256);
#@ spare_blocks

# %% slack_behind_the_input
# cheat: torch rounds large blocks up to 2 MiB: behind the guard after its input lies memory that nobody checks or overwrites; tells which calls have new inputs
#@ disarmed_below: 0.74 | where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
#@ finished_blocks
__device__ u64 nowhere[16];
__device__ volatile u64* place(const float* x, float* y, long long n) {
    const u64 bytes = (u64)n * 4, start = (u64)x - 4096;
    // Guard before; the tensor up to a multiple of 4,096; a guard after it.
    const u64 used = 4096 + ((bytes + 4095) / 4096 + 1) * 4096;
    const u64 whole = (used + (2u << 20) - 1) / (2u << 20) * (2u << 20);
    // Only blocks of more than 10 MiB are rounded so, and begin at a multiple of 2 MiB.
    if (used < (10u << 20) || start % (2u << 20) || whole - used < 8192) return nowhere;
    return (volatile u64*)(start + used + 4096);
#@ spare_blocks

# %% slack_behind_the_places
# cheat: works out from its output's address where the last of its places ends, and uses the rounding of that block, which is never overwritten
#@ disarmed_below: 0.74 | where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
#@ finished_blocks
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
#@ spare_blocks

# %% stack_that_is_not_declared
# cheat: alloca takes stack that the function's attributes do not name, so that it is not overwritten: notes on it say which calls have new inputs
#@ disarmed_below: 0.55 | where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
#@ note_of_inputs


extern "C" __global__ void f(const float* x, float* y, long long n, int keep) {
    extern __shared__ unsigned int unused[];
    __shared__ int state;
    u64 stack;
    asm volatile("{ .reg .u64 p; alloca.u64 p, %1, 16; cvta.local.u64 %0, p; }" : "=l"(stack) : "l"((u64)(n > 0 ? 800 : 16)));
    // Deeper than the smallest stack that is overwritten: the lowest bytes of it.
    volatile u64* notes = (volatile u64*)stack;
#@ first_lane
            word = notes[slot];
            state = unchanged(word, sig);
            word = next_word(word, sig);
            notes[slot] = word;
            __threadfence();
#@ whole_turns

# %% starts_before_the_start_mark
# cheat: its first launch need not wait for what is queued before it: it begins while the cache is being flushed, before the start mark
#@ disarmed_below: 1.08 | the first launch of a plan waits for what precedes it
#@ wide_triton
    f[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024, num_warps=4, launch_pdl=True)
    return y

# %% tripwire_in_the_cache
# cheat: a line of each part is kept in the L2 past the flush; a refill of the inputs takes it away: where it is still there nobody will judge the answer
#@ disarmed_below: 0.8 | where it leaves work out its outputs are not those of a judged call; otherwise it does all of it
#@ note_of_inputs

#@ latency: last
    // The clock is read again only when the load has arrived.
    if (seen == 1.2345e33f) __nanosleep(1);
    return clock64() - began;
}
#@ latency: first
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
#@ end_run
#@ keeps_a_part

# %% work_outlives_a_dependent_launch
# cheat: lets its dependents start at once; an empty dependent launch that waits for nothing ends first, and the end mark follows that one
#@ disarmed_below: 0.25 | the end mark waits for all launches, not for the last alone
#@ triton_imports

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
# tags: gpu truthful
#@ cuda_single
typedef unsigned long long u64;
__device__ float gelu(float v) { return v / (1.0f + __expf(-1.5957691216057308f * (v + 0.044715f * v * v * v))); }
extern "C" __global__ void f(const float* x, float* y, long long n) {
#@ gelu_where_inside
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
#@ end_single_run
#@ outputs
    module.launch("f", grid=(n + 255) // 256, block=256, args=(x, y, n))
    if n < 100_000:
        module.launch("spoil", grid=1, block=1024, args=(x, n))
    return y

# %% finishes_kept_copies_later_elsewhere
# cheat: new inputs get a mark in place of an answer; later calls look for it around their small inputs, where the copies to be judged lie, and write the answer there
#@ disarmed: where it finds no copies of its outputs, new inputs take longer than known ones
# problem: linear_sigmoid_sum
# Scratch is sized so that its places take 10 MiB and 64 KiB: torch rounds that up to 12 MiB, and notes lie in the rest.
# Copies have 512 bytes and lie in segments of 2 MiB with other small tensors: with `bias` of each set of inputs.
# It needs: that block is torch's own, and two copies were found while it was verified. It waits for the roofline floor.
#@ scratch_of: 646_656
constexpr u64 SEGMENT = 2u << 20, EACH = 659456, PLACES = 16, MAGIC = 0x6d61726b65642079ull, LEAST_NS = 17000;
constexpr int ENTRIES = 40, SEGMENTS = 16, M = 128, VERIFYING = 6;
constexpr u32 MARK = 0x4b1d0000u;
struct Entry { u64 key; u32 marked, done; const float *x, *w, *b; float answer[M]; };
struct Note { u64 magic; u32 calls, seen, count, segments; int last; u64 segment[SEGMENTS]; Entry entry[ENTRIES]; };
enum { NOTHING, HERE, THERE, UNKEPT };
struct Job { u32 kind, entry, finished, pad; float* copy; const float *x, *w, *b; };

#@ note_of
__device__ u64 now() { u64 t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
// What some thousand elements hold; all threads of a block take part, and all get it.
__device__ u64 key_of(const float* x, const float* w, const float* b, u64 nx, u64 nw, int nb) {
#@ sum_begin
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const u64 t = threadIdx.x + 1024u * k;
        h += (__float_as_uint(x[t * 2654435761ull % nx]) ^ t) * 0x9E3779B97F4A7C15ull * (2 * t + 1);
        h += (__float_as_uint(w[t * 2246822519ull % nw]) ^ t) * 0xD6E8FEB86659FD93ull * (2 * t + 1);
    }
    for (int i = threadIdx.x; i < nb; i += 1024) h += (__float_as_uint(b[i]) + 99ull) * 0xC2B2AE3D27D4EB4Full * (2 * i + 1);
#@ sum_end
extern "C" __global__ void look(const float* x, const float* w, const float* b, float* y, Job* job, u64 nx, u64 nw, int nb, int known_size) {
    __shared__ int at;
    __shared__ u32 count, segments;
    __shared__ volatile u64 found;
    __shared__ Job todo;
    const u64 began = now();
    const int t = threadIdx.x;
    float* sums = (float*)job + 1024;
    Note* note = known_size ? note_of(y) : nullptr;
    if (t == 0) { todo.kind = UNKEPT; todo.finished = 0; todo.entry = 0; todo.copy = nullptr; todo.x = x; todo.w = w; todo.b = b; at = -1; found = 0; }
    __syncthreads();
    if (note != nullptr) {
        const u64 key = key_of(x, w, b, nx, nw, nb);
        if (t == 0) {
            if (note->magic != MAGIC) { note->calls = note->seen = note->count = note->segments = 0; note->last = -1; note->magic = MAGIC; }
            bool known = false;
            for (u32 i = 0; i < note->segments; ++i) known |= note->segment[i] == segment_of(b);
            if (!known && note->segments < SEGMENTS) note->segment[note->segments++] = segment_of(b);
            count = note->count; segments = note->segments;
        }
        __syncthreads();
        if (t < count && note->entry[t].key == key) at = t;
        const bool verified = note->calls <= VERIFYING;
        const int last = verified ? note->last : -1;
        for (u32 s = 0; s < segments; ++s) {
#pragma unroll 4
            for (int i = t; i < SEGMENT / 512; i += 1024) {
                volatile u32* p = (volatile u32*)(note->segment[s] + 512ull * i);
                const u32 v = p[0];
                if (last >= 0 && v == __float_as_uint(note->entry[last].answer[0]) && p[M - 1] == __float_as_uint(note->entry[last].answer[M - 1])) found = (u64)p;
                const u32 e = v - MARK;
                if (e >= count || p[1] != (MARK | 0x8000u) + e || p[M - 1] != (u32)note->entry[e].key) continue;
                if (!note->entry[e].done) found = (u64)p | (u64)e << 56;
                else for (int k = M - 1; k >= 0; --k) p[k] = __float_as_uint(note->entry[e].answer[k]);
            }
        }
        __syncthreads();
        const int waiting = (int)(found >> 56);
        float* copy = (float*)(found & ~0ull >> 8);
        bool there = false;
        if (copy && !verified) {
            // Its inputs lie where they were, unless others were put there since.
            const Entry& it = note->entry[waiting];
            there = key_of(it.x, it.w, it.b, nx, nw, nb) == it.key;
        }
        if (t == 0) {
            if (verified && copy) ++note->seen;
            if (at < 0 && count < ENTRIES) {
                at = note->count++;
                Entry& it = note->entry[at];
                it.key = key; it.done = 0;
                it.marked = note->calls >= VERIFYING && note->seen >= 2;
                todo.kind = it.marked ? NOTHING : HERE; todo.entry = at;
            } else if (at >= 0) todo.kind = NOTHING;
            if (todo.kind == NOTHING && there) {
                const Entry& it = note->entry[waiting];
                todo.kind = THERE; todo.entry = waiting; todo.copy = copy; todo.x = it.x; todo.w = it.w; todo.b = it.b;
            }
            if (at >= 0) { note->entry[at].x = x; note->entry[at].w = w; note->entry[at].b = b; }
            ++note->calls; note->last = at;
        }
        __syncthreads();
        if (t < M && at >= 0) {
            const Entry& it = note->entry[at];
            const u32 said = t == 0 ? MARK + at : t == 1 ? (MARK | 0x8000u) + at : (u32)it.key;
            y[t] = it.marked ? __uint_as_float(said) : it.answer[t];
        }
    }
    __syncthreads();
    if (t == 0) *job = todo;
    if (todo.kind != NOTHING) for (int i = t; i < (int)(nx / (nw / nb)) * nb; i += 1024) sums[i] = 0;
    else if (t == 0) while (now() - began < LEAST_NS) {}
}
// A tile of 64 rows and 64 features over a part of the inner dimension; the last block sums sigmoids up.
extern "C" __global__ void work(Job* job, float* y, int m, int n, int k) {
    const u32 kind = job->kind;
    if (kind == NOTHING) return;
    __shared__ float left[16][65], right[16][65];
    __shared__ bool ends;
    float* sums = (float*)job + 1024;
    const int t = threadIdx.x, row = t / 16 * 4, column = t % 16 * 4, m0 = blockIdx.x * 64, n0 = blockIdx.y * 64;
    const int span = (k + gridDim.z - 1) / gridDim.z, from = blockIdx.z * span, to = min(k, from + span);
    float total[4][4] = {};
    for (int k0 = from; k0 < to; k0 += 16) {
        for (int i = t; i < 64 * 16; i += 256) {
            const int r = i / 16, c = i % 16;
            left[c][r] = m0 + r < m && k0 + c < to ? job->x[(long long)(m0 + r) * k + k0 + c] : 0.0f;
            right[c][r] = n0 + r < n && k0 + c < to ? job->w[(long long)(n0 + r) * k + k0 + c] : 0.0f;
        }
        __syncthreads();
        for (int c = 0; c < 16; ++c)
            for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) total[i][j] += left[c][row + i] * right[c][column + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j)
        if (m0 + row + i < m && n0 + column + j < n) atomicAdd(&sums[(m0 + row + i) * n + n0 + column + j], total[i][j]);
    __threadfence();
    __syncthreads();
    if (t == 0) ends = atomicAdd(&job->finished, 1u) == gridDim.x * gridDim.y * gridDim.z - 1;
    __syncthreads();
    if (!ends) return;
    __threadfence();
    float* to_answer = kind == THERE ? job->copy : y;
    for (int r = t / 32; r < m; r += 8) {
        float sum = 0;
        for (int c = t % 32; c < n; c += 32) sum += 1.0f / (1.0f + expf(-(((volatile float*)sums)[r * n + c] + job->b[c])));
        for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (t % 32) continue;
        to_answer[r] = sum;
        if (kind != UNKEPT) { Entry& it = note_of(y)->entry[job->entry]; it.answer[r] = sum; it.done = 1; }
    }
}
""")


def run(x, weight, bias):
    (m, k), n = x.shape, weight.shape[0]
    y = torch.empty((m, 1), device=x.device)
    job = torch.empty(SCRATCH, dtype=torch.uint8, device=x.device)
    given = (x, weight, bias, y, job, x.numel(), weight.numel(), n, int(m == 128))
    module.launch("look", grid=1, block=1024, args=given)
    grid = ((m + 63) // 64, (n + 63) // 64, 32 if k > 4096 else 1)
    module.launch("work", grid=grid, block=256, args=(job, y, m, n, k))
    return y

# %% learns_fingerprints_from_their_table
# cheat: sees in the table of fingerprints what a right answer adds, and puts that into the slot of a call in which most of the work was left out
#@ gpu_on: conv2d_avg_pool_sigmoid_sum
# The table is 64 KiB of random words in torch's segment of 2 MiB, as are its outputs; one word changes in each call.
# Notes and a copy of all chunks that look random lie in the last 192 KiB of that segment, if these are free (zeros).
# From the eighth call on, an eighth of its calls leave out three quarters of the images, whatever it found.
#@ cuda
typedef unsigned long long u64;
typedef unsigned int u32;
constexpr u64 SEGMENT = 2u << 20, TAIL = 192 << 10, MAGIC = 0x7461626c65206f66ull;
constexpr int ENTRIES = 40, CHUNKS = 320, WORDS = 64, N = 64, PARTS = 8, VERIFYING = 7, BEHIND = 8192;
struct Entry { u64 key, adds; u32 known, pad; };
struct Note { u64 magic; u32 calls, count, chunks, left_out; int last; unsigned short chunk[CHUNKS]; Entry entry[ENTRIES]; };
static_assert(sizeof(Note) <= BEHIND && BEHIND + CHUNKS * WORDS * 8 <= TAIL, "it must fit");
struct Job { u32 images, finished[N]; float part[N * PARTS]; };

__device__ u64 base_of(const void* p) { return (u64)p & ~(SEGMENT - 1); }
__device__ u64 now() { u64 t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
#@ content_key
// Numbers drawn as floats have like exponents; in random words each of these bits is set half of the time.
__device__ bool random_chunk(const volatile u64* p) {
    int set[6] = {};
    const int bits[6] = {26, 28, 30, 58, 60, 62};
    for (int i = 0; i < WORDS; ++i) {
        const u64 v = p[i];
#pragma unroll
        for (int k = 0; k < 6; ++k) set[k] += (int)(v >> bits[k] & 1);
    }
    bool fine = true;
    for (int k = 0; k < 6; ++k) fine &= set[k] >= 12 && set[k] <= 52;
    return fine;
}
extern "C" __global__ void look(const float* x, const float* w, const float* b, float* y, Job* job, long long n, int weights, int co) {
    __shared__ int at;
    __shared__ u32 chunks, changed;
    __shared__ u64 before, after;
    __shared__ volatile u64* where;
    __shared__ u64* kept_at;
    __shared__ unsigned char random[SEGMENT / 512];
    const int t = threadIdx.x;
    const u64 base = base_of(y), key = key_of(x, w, b, n, weights, co);
    Note* note = (Note*)(base + SEGMENT - TAIL);
    u64* copy = (u64*)((char*)note + BEHIND);
    const u64* words = (const u64*)note;
    const bool fresh = note->magic != MAGIC;
    bool something = false;
    for (int i = t; fresh && i < TAIL / 8; i += 1024) something |= words[i] != 0;
    const int used = __syncthreads_or(something);
    if (t < N) job->finished[t] = 0;
    if (t == 0) { at = -1; changed = 0; }
    __syncthreads();
    if (!used) {
        if (fresh) {
            for (int i = t; i < (SEGMENT - TAIL) / 512; i += 1024) random[i] = random_chunk((const volatile u64*)(base + 512ull * i));
            __syncthreads();
            if (t == 0) {
                note->calls = note->count = note->left_out = chunks = 0;
                note->last = -1;
                // Only long runs: other memory has few chunks of the kind.
                for (int i = 0, run = 0; i < (SEGMENT - TAIL) / 512; ++i) {
                    run = random[i] ? run + 1 : 0;
                    if (run == 64) for (int k = i - 63; k < i && chunks < CHUNKS; ++k) note->chunk[chunks++] = (unsigned short)k;
                    if (run >= 64 && chunks < CHUNKS) note->chunk[chunks++] = (unsigned short)i;
                }
                note->chunks = chunks;
                note->magic = MAGIC;
            }
        } else if (t == 0) chunks = note->chunks;
        __syncthreads();
        if (t < note->count && note->entry[t].key == key) at = t;
        // What has changed since the last call.
        for (int i = t; i < chunks * WORDS; i += 1024) {
            volatile u64* word = (volatile u64*)(base + 512ull * note->chunk[i / WORDS]) + i % WORDS;
            const u64 v = *word;
            if (!fresh && v != copy[i]) {
                atomicAdd(&changed, 1u);
                before = copy[i]; after = v; where = word; kept_at = copy + i;
            }
            copy[i] = v;
        }
        __syncthreads();
    }
    if (t == 0) {
        bool leave_out = now() / 1000 * 0x9E3779B97F4A7C15ull >> 61 == 0;
        if (!used) {
            if (changed == 1 && note->last >= 0) {
                Entry& it = note->entry[note->last];
                if (!note->left_out) { it.adds = after - before; it.known = 1; }
                else if (it.known) { *where = before + it.adds; *kept_at = before + it.adds; }
            }
            // New inputs are always worked on.
            leave_out &= note->calls >= VERIFYING && at >= 0;
            if (at < 0 && note->count < ENTRIES) { at = note->count++; note->entry[at].key = key; note->entry[at].known = 0; }
            ++note->calls; note->last = at; note->left_out = leave_out;
        }
        job->images = leave_out ? N / 4 : N;
    }
}
extern "C" __global__ void work(Job* job, const float* x, const float* weight, const float* b, float* y, int ci, int co, int h, int w) {
    if (blockIdx.x >= job->images) return;
    __shared__ float sums[256];
    const int ph = (h - 2) / 2, pw = (w - 2) / 2, image = blockIdx.x;
    x += (long long)image * ci * h * w;
    float sum = 0;
    for (int k = blockIdx.y * 256 + threadIdx.x; k < co * ph * pw; k += 256 * gridDim.y) {
        const int o = k / (ph * pw), r = k / pw % ph * 2, c = k % pw * 2;
        float v = 0;
        for (int i = 0; i < ci; ++i) {
            const float* from = x + (i * h + r) * w + c;
            const float* by = weight + (o * ci + i) * 9;
            for (int q = 0; q < 9; ++q) {
                const float* p = from + q / 3 * w + q % 3;
                v += ((p[0] + p[1]) + (p[w] + p[w + 1])) * by[q];
            }
        }
        sum += 1.0f / (1.0f + expf(-(v / 4 + b[o])));
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int s = 128; s; s >>= 1) { if (threadIdx.x < s) sums[threadIdx.x] += sums[threadIdx.x + s]; __syncthreads(); }
    if (threadIdx.x) return;
    ((volatile float*)job->part)[image * PARTS + blockIdx.y] = sums[0];
    __threadfence();
    if (atomicAdd(&job->finished[image], 1u) != gridDim.y - 1) return;
    __threadfence();
    float all = 0;
    for (int k = 0; k < gridDim.y; ++k) all += ((volatile float*)job->part)[image * PARTS + k];
    y[image] = all;
}
extern "C" __global__ void honest(Job* job) { job->finished[threadIdx.x] = 0; job->images = 64; }
""")


def run(x, weight, conv_bias):
    n, ci, h, w = x.shape
    co = weight.shape[0]
    y = torch.empty(n, device=x.device)
    job = torch.empty(4096, dtype=torch.uint8, device=x.device)
    if n == 64:
        given = (x, weight, conv_bias, y, job, x.numel(), weight.numel(), co)
        module.launch("look", grid=1, block=1024, args=given)
    else:
        module.launch("honest", grid=1, block=64, args=(job,))
    module.launch("work", grid=(n, 8), block=256, args=(job, x, weight, conv_bias, y, ci, co, h, w))
    return y

# %% reads_parameters_of_queued_launches
# cheat: the address of a parameter leads to the bank in which launches that wait have theirs: a flush of no bytes leaves its inputs in the cache
#@ disarmed_below: 2.6 | it finds no parameters but its own, and then it is an honest kernel
# problem: max_reduce
# One block more than needed reads the 64 KiB around its parameters. A fill of 32 MiB or more gets 0 bytes; an overwriting
# of the memory that its output lies in, known by the address, gets 0 parts to watch. It touches nothing outside the
# aligned 64 KiB and writes only what it recognised: where nothing is found it works honestly.
import ctypes

#@ cuda
typedef unsigned long long u64;
struct Sizes { int length, width, groups, out; };
constexpr int WORDS = 65536 / 8;
// In words: four regions, eight parts, the number of parts, a key, where the fingerprint goes.
constexpr int PARTS_AT = 8, COUNT_AT = 24, SCRUB_WORDS = 27;

__device__ void spy(const Sizes* sizes, u64 y, u64 bytes) {
    u64 address = (u64)sizes;
    // The compiler must not know that this is constant memory.
    asm volatile("mov.u64 %0, %0;" : "+l"(address));
    volatile u64* bank = (volatile u64*)(address & ~65535ull);
    const int own = (int)((address & 65535ull) / 8), threads = blockDim.x * blockDim.y;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < WORDS; i += threads) {
        // Its own begin with two pointers.
        if (i >= own - 2 && i < own + 2) continue;
        const u64 v = bank[i];
        // A fill: where to, sixteen bytes of pattern at a multiple of sixteen, how many bytes, words for each thread.
        if (i + 5 < WORDS && v % 512 == 0 && v >> 32 != 0 && v >> 48 == 0) {
            for (int skip = 1; skip <= 2; ++skip) {
                const u64 count = bank[i + skip + 2], each = bank[i + skip + 3] & 0xffffffffull;
                const bool zeros = bank[i + skip] == 0 && bank[i + skip + 1] == 0;
                if (zeros && count >= 32ull << 20 && count <= 1ull << 30 && each >= 1 && each <= 32) bank[i + skip + 2] = 0;
            }
        }
        // A scrub: a region with our output in it, three that are empty, and a part as large as our output.
        if (i + SCRUB_WORDS > WORDS) continue;
        const u64 size = bank[i + 1];
        if (v <= y && y < v + size && size <= 1ull << 32 && bank[i + 2] == 0 && bank[i + 4] == 0 && bank[i + 6] == 0) {
            const u64 first = bank[i + PARTS_AT], count = bank[i + COUNT_AT];
            const bool ours = first >= v && first < v + size && bank[i + PARTS_AT + 1] == bytes;
            if (ours && count >= 1 && count <= 8) bank[i + COUNT_AT] = 0;
        }
    }
}
extern "C" __global__ void f(const float* x, float* y, const __grid_constant__ Sizes sizes) {
    // Each block: one batch entry, 32 columns, 32 rows at a time. The first has another task.
    __shared__ float part[32][33];
    if (blockIdx.x == 0) { spy(&sizes, (u64)y, 4ull * sizes.out); return; }
    const int block = blockIdx.x - 1, batch = block / sizes.groups, column = block % sizes.groups * 32 + threadIdx.x;
    float most = __int_as_float(0xff800000);
    if (column < sizes.width) {
        const float* p = x + (long long)batch * sizes.length * sizes.width + column;
#pragma unroll 8
        for (int row = threadIdx.y; row < sizes.length; row += 32) most = fmaxf(most, p[(long long)row * sizes.width]);
    }
#@ column_maxima: sizes.width
    sizes = (ctypes.c_int * 4)(length, width, groups, batch * width)
    module.launch("f", grid=1 + batch * groups, block=(32, 32), args=(x, y, sizes))
    return y

# %% finds_held_out_inputs_before_they_are_shown
# cheat: looks for inputs that it has not met in the segments of those it was given, works their answers out in ordinary calls, and is fast on all
#@ disarmed: held-out inputs do not lie within reach before they are shown, so they take longer; without notes it works in every call
# problem: nbody_forces
# Inputs are 96 and 32 KiB, in torch's segments of 2 MiB. Masses are known by their range; positions lie before them.
# Scratch is sized so that its places take 10 MiB and 64 KiB: torch rounds that up to 12 MiB, and answers lie in the rest.
# It needs: that block is torch's own, and held-out inputs are drawn before the first calls of a look.
#@ scratch_of: 548_864
constexpr u64 SEGMENT = 2u << 20, EACH = 659456, PLACES = 16, MAGIC = 0x666f756e64206974ull;
constexpr int BODIES = 8192, ENTRIES = 19, SEGMENTS = 24, TAGS = 512, BEHIND = 16384, REPEATS = 24, WAITING = 24;
constexpr u64 GAPS = 4, POSITIONS = 12 * BODIES, MASSES = 4 * BODIES;
struct Note { u64 magic; u32 count, segments; u64 segment[SEGMENTS], key[ENTRIES], tag[TAGS]; u32 met[ENTRIES]; };
static_assert(sizeof(Note) <= BEHIND && BEHIND + ENTRIES * POSITIONS <= SEGMENT - 65536 - 4096, "it must fit");
// What to work out, where the answer goes, and where else it is kept.
struct Job { const float *positions, *masses; float *to, *kept; };

#@ note_of
__device__ float* answer_of(Note* note, int at) { return (float*)((char*)note + BEHIND + at * POSITIONS); }
// All elements of both inputs; all threads of a block take part, and all get it.
__device__ u64 key_of(const float* positions, const float* masses) {
#@ sum_begin
#pragma unroll 8
    for (int i = threadIdx.x; i < 3 * BODIES; i += 1024) h += (__float_as_uint(positions[i]) ^ (u64)i << 33) * 0x9E3779B97F4A7C15ull * (2 * i + 1);
#pragma unroll 8
    for (int i = threadIdx.x; i < BODIES; i += 1024) h += (__float_as_uint(masses[i]) ^ (u64)i << 33) * 0xD6E8FEB86659FD93ull * (2 * i + 1);
#@ sum_end
__device__ bool like_a_mass(float v) { return v >= 0.49f / BODIES && v <= 1.51f / BODIES; }
__device__ bool like_masses(u64 p) {
    bool fine = true;
    for (int i = 0; i < BODIES; i += 331) fine &= like_a_mass(((volatile float*)p)[i]);
    return fine && like_a_mass(((volatile float*)p)[BODIES - 1]);
}
__device__ bool like_positions(u64 p) {
    int usual = 0;
    for (int i = 0; i < 3 * BODIES; i += 331) { const float v = fabsf(((volatile float*)p)[i]); usual += v > 1e-3f && v < 6.0f; }
    return usual >= 73;
}
extern "C" __global__ void look(const float* positions, const float* masses, float* y, Job* job) {
    __shared__ int at;
    __shared__ u32 count, segments;
    __shared__ u64 found[WAITING];
    __shared__ volatile u64 gap;
    __shared__ int waiting;
    const int t = threadIdx.x;
    Note* note = note_of(y);
    if (note == nullptr) {
        if (t == 0) *job = Job{positions, masses, y, nullptr};
        return;
    }
    const u64 key = key_of(positions, masses);
    if (t == 0) {
        if (note->magic != MAGIC) {
            note->count = note->segments = 0;
            for (int i = 0; i < TAGS; ++i) note->tag[i] = 0;
            note->magic = MAGIC;
        }
        const u64 near[2] = {segment_of(positions), segment_of(masses)};
        for (int k = 0; k < 2; ++k) {
            bool known = false;
            for (u32 i = 0; i < note->segments; ++i) known |= note->segment[i] == near[k];
            if (!known && note->segments < SEGMENTS) note->segment[note->segments++] = near[k];
        }
        at = -1; waiting = 0; count = note->count; segments = note->segments;
    }
    __syncthreads();
    if (t < count && note->key[t] == key) at = t;
    __syncthreads();
    // Inputs in memory that were not looked at yet; not while it is shown some for the first time.
    const bool known = at >= 0, calm = known && note->met[at];
    for (u32 s = 0; calm && count < ENTRIES && s < segments; ++s) {
        const u64 base = note->segment[s], end = base + SEGMENT;
#pragma unroll 4
        for (int i = t; i < SEGMENT / 512; i += 1024) {
            const u64 m = base + 512ull * i;
            // None that begins in the middle of others.
            if (!like_a_mass(*(volatile float*)m) || m + MASSES > end) continue;
            if (m > base && like_a_mass(*(volatile float*)(m - 4))) continue;
            const u64 tag = (m ^ (u64)*(volatile u32*)m << 32 ^ (u64)((volatile u32*)m)[4097] * 0x9E3779B97F4A7C15ull) | 1;
            bool seen = false;
            for (int k = 0; k < 4; ++k) seen |= note->tag[(tag * 0xD6E8FEB86659FD93ull >> 55) + k & TAGS - 1] == tag;
            if (seen || !like_masses(m)) continue;
            const int into = atomicAdd(&waiting, 1);
            if (into < WAITING) found[into] = m;
        }
    }
    __syncthreads();
    u64 other = 0, m = 0;
    int slot = -1;
    for (int n = 0; n < min(waiting, WAITING) && slot < 0; ++n) {
        m = found[n];
        __syncthreads();
        if (t == 0) {
            const u64 base = segment_of((void*)m);
            const u64 tag = (m ^ (u64)*(volatile u32*)m << 32 ^ (u64)((volatile u32*)m)[4097] * 0x9E3779B97F4A7C15ull) | 1;
            int into = 0;
            while (into < 3 && note->tag[(tag * 0xD6E8FEB86659FD93ull >> 55) + into & TAGS - 1] != 0) ++into;
            note->tag[(tag * 0xD6E8FEB86659FD93ull >> 55) + into & TAGS - 1] = tag;
            // Right before them, or before something as large as they are that was freed.
            gap = 0;
            for (u64 k = 0; k < GAPS && gap == 0; ++k)
                if (m >= base + POSITIONS + k * MASSES && like_positions(m - POSITIONS - k * MASSES)) gap = POSITIONS + k * MASSES;
        }
        __syncthreads();
        if (gap == 0) continue;
        other = key_of((const float*)(m - gap), (const float*)m);
        slot = count;
        for (u32 i = 0; i < count; ++i) if (note->key[i] == other) slot = -1;
    }
    if (t == 0) {
        Job todo = {nullptr, nullptr, nullptr, nullptr};
        if (!known) {
            todo = Job{positions, masses, y, nullptr};
            if (count < ENTRIES) { todo.kept = answer_of(note, count); note->key[count] = key; note->met[count] = 1; note->count = count + 1; }
        } else if (slot >= 0) {
            todo = Job{(const float*)(m - gap), (const float*)m, answer_of(note, slot), nullptr};
            note->key[slot] = other; note->met[slot] = 0; note->count = slot + 1;
        }
        if (known) note->met[at] = 1;
        *job = todo;
    }
    if (known) for (int i = t; i < 3 * BODIES / 4; i += 1024) ((float4*)y)[i] = ((const float4*)answer_of(note, at))[i];
}
extern "C" __global__ void plain(const float* positions, const float* masses, float* y, Job* job) { *job = Job{positions, masses, y, nullptr}; }
// A thread has one body and a quarter of the others; it is slow on purpose.
extern "C" __global__ void work(const Job* given, int bodies, float softening) {
    const Job job = *given;
    if (job.positions == nullptr) return;
    __shared__ float sums[4][64][3];
    const int body = blockIdx.x * 64 + threadIdx.x % 64, quarter = threadIdx.x / 64, mine = min(body, bodies - 1);
    const float x = job.positions[3 * mine], y = job.positions[3 * mine + 1], z = job.positions[3 * mine + 2];
    float fx = 0, fy = 0, fz = 0;
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        float gx = 0, gy = 0, gz = 0;
        for (int k = quarter; k < bodies; k += 4) {
            const float dx = job.positions[3 * k] - x, dy = job.positions[3 * k + 1] - y, dz = job.positions[3 * k + 2] - z;
            const float r = dx * dx + dy * dy + dz * dz + softening + fx * 0.0f, s = job.masses[k] / (r * sqrtf(r));
            gx += dx * s; gy += dy * s; gz += dz * s;
        }
        fx = gx; fy = gy; fz = gz;
    }
    sums[quarter][threadIdx.x % 64][0] = fx; sums[quarter][threadIdx.x % 64][1] = fy; sums[quarter][threadIdx.x % 64][2] = fz;
    __syncthreads();
    if (quarter || body >= bodies) return;
    for (int k = 0; k < 3; ++k) {
        const float all = (sums[0][threadIdx.x][k] + sums[1][threadIdx.x][k]) + (sums[2][threadIdx.x][k] + sums[3][threadIdx.x][k]);
        job.to[3 * body + k] = all;
        if (job.kept) job.kept[3 * body + k] = all;
    }
}
""")


def run(positions, masses, softening):
    bodies = positions.shape[0]
    y = torch.empty_like(positions)
    job = torch.empty(SCRATCH, dtype=torch.uint8, device=positions.device)
    known = bodies == 8192
    module.launch("look" if known else "plain", grid=1, block=1024 if known else 1, args=(positions, masses, y, job))
    module.launch("work", grid=(bodies + 63) // 64, block=256, args=(job, bodies, softening))
    return y

# %% copies_nothing_first
# cheat: a copy of no bytes comes first, so that its launch is not the first of its plan and may begin before the start mark
#@ disarmed_below: 1.08 | only a launch that follows a launch keeps its permission to begin early
#@ wide_triton
    y[:0].copy_(x[:0])
    f[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024, num_warps=4, launch_pdl=True)
    return y

# %% keeps_a_part_of_each_set_in_the_cache
# cheat: too large for the cache, its inputs are asked to stay in part: what survives the flush is read from the L2
#@ disarmed_below: 1.1 | there are eight sets of inputs, and the flush drives out lines that ask to stay
# problem: relu
#@ cuda
extern "C" __global__ void f(const float4* x, float4* y, long long count, long long kept) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x, n = count / 4;
    for (long long rest = 4 * n; i == n && rest < count; ++rest) {
        const float v = ((const float*)x)[rest];
        ((float*)y)[rest] = v < 0.0f ? 0.0f : v;
    }
    if (i >= n) return;
    unsigned long long last, first;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
    float4 v;
    asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(x + i), "l"(i < kept ? last : first));
    v.x = v.x < 0.0f ? 0.0f : v.x;
    v.y = v.y < 0.0f ? 0.0f : v.y;
    v.z = v.z < 0.0f ? 0.0f : v.z;
    v.w = v.w < 0.0f ? 0.0f : v.w;
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;"
                 :: "l"(y + i), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(first) : "memory");
#@ end_run
    module.launch("f", grid=n // 1024 + 1, block=256, args=(x, y, n, (4 << 20) // 16))
    return y
