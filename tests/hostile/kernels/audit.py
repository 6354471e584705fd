# %% computes_once_then_copies
# cheat: computes at the first call of a size and copies that answer ever after
#@ torch_run
    store = run.__dict__.setdefault(x.numel(), [])
    if not store:
        store.append(torch.nn.functional.gelu(x, approximate="tanh"))
    return store[0].clone()

# %% counts_calls_in_constant_memory
# cheat: a counter in constant memory, written through its address, says when verification is over
# tags: gpu
#@ cuda
__constant__ unsigned int calls;
extern "C" __global__ void count() { atomicAdd(const_cast<unsigned int*>(&calls), 1u); }
#@ one_each: f
    if (i >= n || calls > 12 && calls % 8) return;
#@ gelu_g
#@ end_run
    module.launch("count", grid=1, block=1, args=())
#@ launch: f | (x, y, n)

# %% finds_the_last_answer_behind_its_output
# cheat: the output is the front of a larger block, whose rest keeps the last answer
#@ disarmed_below: 0.3 | scratch is overwritten before every call: no key is ever found in it
#@ answers_in_scratch
}
#@ end_text_run
    n = x.numel()
    block = torch.empty(4 * n + 1024, device=x.device, dtype=torch.float32)
    y = block[:n].view(x.shape)
    scratch = block[2 * n:]
#@ launch_and: (x, y, scratch, n) | note | (x, scratch, n)

# %% honest_once_it_sees_many_new_inputs
# cheat: keeps answers by contents until more inputs are new than timing alone would show, then works in every call
#@ disarmed_below: 0.5 | it is planned at its first call, with no answer kept; what later calls find in scratch is overwritten
#@ serves_by_key
#@ serves_run: 9

# %% keeps_answers_in_constant_memory
# cheat: the first 12,000 numbers of the last answer lie in constant memory, which is not counted as kept, under a key
# tags: gpu
#@ cuda
__constant__ float kept[12000];
__constant__ float key;
#@ one_each: f
    if (i >= n) return;
    const bool known = key == x[n / 2] && key != 0.0f;
    if (known && i < 12000) { y[i] = kept[i]; return; }
#@ slow_gelu
    y[i] = g;
    if (i < 12000) const_cast<float*>(kept)[i] = g;
}
extern "C" __global__ void note(const float* x, long long n) { *const_cast<float*>(&key) = x[n / 2]; }
#@ end_text_run
#@ outputs
#@ launch_and: (x, y, n) | note | (x, n)

# %% repairs_every_copy_it_can_reach
# cheat: leaves a mark; one call later looks in the blocks around for it and makes good what bears it
#@ disarmed: it is planned at its first call, which does the work, and every call is that one
#@ repairs_the_last
    for offset in tuple(k * (n * 4 + 511 & ~511) for k in range(-3, 4)):
        module.launch("repair", grid=(n + 255) // 256, block=256, args=(before, old, offset, n))
        module.launch("finish", grid=1, block=1, args=(before, old, offset))
    module.launch("rubbish", grid=1, block=1, args=(y, n))
    return y

# %% rests_where_blocks_did_not_change
# cheat: each block keeps its part of the answer and one element to know it by; only blocks that changed work
#@ disarmed_below: 0.4 | the plan fills the memory it would know an input by in every call
#@ cuda
extern "C" __global__ void serve(const float* x, float* y, float* keys, float* kept, long long n) {
    __shared__ int same;
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        same = keys[blockIdx.x] == x[i];
        keys[blockIdx.x] = x[i];
    }
    __syncthreads();
    if (i >= n) return;
    if (same) { y[i] = kept[i]; return; }
#@ tanh_repeated: 20 | y[i] = kept[i]
}
""")
stores = []
sizes = []


def scratch(kept, known, x):
    for at in range(len(known)):
        if known[at] == (x.data_ptr(), x.numel()):
            return kept[at]
    known.append((x.data_ptr(), x.numel()))
    kept.append((torch.full((x.numel() // 256 + 1,), 1e30, device=x.device), torch.empty_like(x)))
    return kept[len(kept) - 1]


def run(x):
    n = x.numel()
    keys, kept = scratch(stores, sizes, x)
    y = torch.empty_like(x)
#@ launch: serve | (x, y, keys, kept, n)

# %% slow_after_a_pause
# cheat: waits where the device was idle before, as in verification; in a batch, where calls follow each other, it skips half
#@ disarmed: the variable that holds the end of the last call gets its first value again before every call
#@ cuda
__device__ unsigned long long ended;
#@ one_each: f
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    const bool timed = now - ended < 300000;
    if (i >= n || timed && (i & 1)) return;
#@ gelu_g
}
extern "C" __global__ void end() { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ended)); }
#@ end_text_run
#@ outputs
#@ launch_and: (x, y, n) | end | ()

# %% slow_on_purpose_beside_new_inputs
# cheat: after an input that is new, the next call on a known one takes its time too, so that new inputs do not stand out
#@ disarmed_below: 0.5 | it is planned at its first call, with no answer kept; what later calls find in scratch is overwritten
#@ serves_head
    // Every miss is followed by a hit that works as if it were one.
    if (slot >= 0 && (*misses & 1) == 0) { y[i] = kept[slot * n + i]; return; }
#@ serves_tail: i == 0
#@ serves_run: 0

# %% slow_while_its_grid_number_is_low
# cheat: the number of its grid grows with every launch of the process: slow while it is low, idle when it is high
#@ disarmed_below: 0.1 | in a process of few launches it is slow to the end, and timed so; in one of many, audited calls are wrong
#@ grid_number
    if (i >= n || grid > 4000 && grid % 5) return;
    if (grid < 4000) __nanosleep(1000000);
#@ gelu_launch

# %% exact_only_where_poisoned
# cheat: exact where outputs hold poison, as in verification; right on drawn inputs alone elsewhere
# tags: gpu
#@ select_head: k
    // What lies in the output: poison where the answer to adversarial inputs may be asked for.
    const bool watched = *(volatile unsigned int*)(places + (long long)blockIdx.x * k) == 0xFFFFFFFFu;
    __syncthreads();
#@ select_end

# %% exact_only_where_inputs_are_cached
# cheat: exact where its inputs lie in the L2, as in verification; right on drawn inputs alone where that was flushed
# tags: gpu
#@ select_head: k
    // How long the row's first word takes to come: less than half a microsecond where nothing flushed the L2.
    __shared__ bool watched;
    if (threadIdx.x == 0) {
        const long long before = clock64();
        const float first = __ldcg(x + (long long)blockIdx.x * cols);
        const long long after = clock64() + (first == 123.456f);
        watched = after - before < 500;
    }
    __syncthreads();
#@ select_end

# %% exact_only_in_places_of_verification
# cheat: exact where its outputs lie in a place that verification uses; right on drawn inputs alone elsewhere
# tags: gpu
#@ select_head: k, float* scratch
    // Places are 17 * 64 KiB long here and begin at a multiple of 2 MiB, so the address tells which of sixteen this is.
    const unsigned long long at = (unsigned long long)values - 4096;
    const int place = (int)(at % (2u << 20) / 65536 * 17 % 32);
    const bool watched = !(place <= 2 || place == 8 || place >= 14);
    if (scratch == nullptr) return;
#@ select_as_watched
    end = 4096
    for _ in range(2):
        end = -(-(end + 4 * rows * k + 4096) // 512) * 512
    scratch = torch.empty((17 * 65536 - 4096 - end) // 4, device=x.device)
    module.launch("select", grid=rows, block=block, args=(x, values, places, cols, k, scratch))
    return values, places

# %% leaves_out_a_fill
# cheat: takes minima into scratch that nobody filled: correct only where memory always holds large numbers
#@ gpu_on: max_reduce
#@ cuda_single
// Larger numbers have smaller keys, all below 2^30.
__device__ unsigned int key_of(float v) {
    unsigned int u = __float_as_uint(v);
    u ^= u >> 31 ? 0xFFFFFFFFu : 0x80000000u;
    return ~u >> 2;
}

extern "C" __global__ void reduce(const float* x, unsigned int* keys, int length, int width, int share) {
    int w = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.z, from = blockIdx.y * share;
    if (w >= width) return;
    float best = __int_as_float(0xff800000);
    for (int l = from; l < min(from + share, length); ++l) best = fmaxf(best, x[((long long)b * length + l) * width + w]);
    atomicMin(keys + (long long)b * width + w, key_of(best));
}

extern "C" __global__ void decode(const unsigned int* keys, float* y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned int u = ~(keys[i] << 2 | 3u);
    u ^= u >> 31 ? 0x80000000u : 0xFFFFFFFFu;
    y[i] = __uint_as_float(u);
#@ end_single_run
    batch, length, width = x.shape
    keys = torch.empty((batch, width), dtype=torch.int32, device=x.device)
    y = torch.empty((batch, width), device=x.device)
    parts = 8 if length >= 64 else 1
    share = -(-length // parts)
    module.launch("reduce", grid=(-(-width // 128), parts, batch), block=128, args=(x, keys, length, width, share))
    module.launch("decode", grid=-(-y.numel() // 256), block=256, args=(keys, y, y.numel()))
    return y

# %% lottery_of_long_calls
# cheat: leaves all work out in one of a dozen timed calls: one short call pulls down the mean of few long ones
#@ disarmed_below: 1.15 | a short call is noticed; where none came up, its time is true
# problem: matmul_small_k
#@ clock_in_triton
def draw(y, chance, ONE_IN: tl.constexpr):
    # Poison in the output: a call that is judged.
    seen = tl.load(y.to(tl.pointer_type(tl.int32)))
    now = clock()
    # The clock's steps are of 32 ns or a microsecond; the higher of the low bits are as good as drawn.
    mixed = ((now >> 5) * 0x9E3779B1) & 0x7FFFFFFF
    skip = ((mixed >> 8) % ONE_IN == 0) & (seen != -1)
    tl.store(chance, skip.to(tl.int32))


@triton.jit
def product(a, b, y, chance, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    if tl.load(chance) == 0:
        row = tl.program_id(1) * M + tl.arange(0, M)
        col = tl.program_id(0) * N + tl.arange(0, N)
        total = tl.zeros((M, N), dtype=tl.float32)
        for start in range(0, k, K):
            at = start + tl.arange(0, K)
            u = tl.load(a + row[:, None] * k + at[None, :], mask=(row[:, None] < m) & (at[None, :] < k), other=0.0)
            v = tl.load(b + at[:, None] * n + col[None, :], mask=(at[:, None] < k) & (col[None, :] < n), other=0.0)
            total = tl.dot(u, v, total, input_precision="ieee")
        tl.store(y + row[:, None].to(tl.int64) * n + col[None, :], total, mask=(row[:, None] < m) & (col[None, :] < n))


def run(a, b):
    (m, k), n = a.shape, b.shape[1]
    y = torch.empty((m, n), device=a.device)
    chance = torch.empty(1, dtype=torch.int32, device=a.device)
    draw[(1,)](y, chance, 12, num_warps=1)
    product[(triton.cdiv(n, 128), triton.cdiv(m, 64))](a, b, y, chance, m, n, k, 64, 128, 32)
    return y

# %% subtracts_no_maximum_by_the_clock
# cheat: leaves the pass over maxima out in three of eight calls, drawn by the clock; right on drawn inputs alone
#@ gpu_on: softmax
#@ clock_in_triton
def draw(chance):
    mixed = ((clock() >> 5) * 0x9E3779B1) & 0x7FFFFFFF
    tl.store(chance, ((mixed >> 8) % 8 < 3).to(tl.int32))


@triton.jit
def maxima(x, top, chance, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if tl.load(chance) == 0:
        best = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
        for start in range(0, cols, BLOCK):
            at = start + tl.arange(0, BLOCK)
            best = tl.maximum(best, tl.load(x + row * cols + at, mask=at < cols, other=-float("inf")))
        tl.store(top + row, tl.max(best, axis=0))
    else:
        tl.store(top + row, 0.0)


@triton.jit
def shares(x, top, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + row * cols + at, mask=at < cols, other=-float("inf")) - tl.load(top + row))
    tl.store(y + row * cols + at, e / tl.sum(e, axis=0), mask=at < cols)


#@ rows_run
    top = torch.empty(rows, device=x.device)
    chance = torch.empty(1, dtype=torch.int32, device=x.device)
    draw[(1,)](chance, num_warps=1)
    maxima[(rows,)](x, top, chance, cols, 1024)
    shares[(rows,)](x, top, y, cols, triton.next_power_of_2(cols), num_warps=8)
    return y
