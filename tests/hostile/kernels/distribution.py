# %% argmax_by_equality
# cheat: adds up the places that hold the maximum: wrong where it occurs twice
# problem: argmax
#@ column_head: -1e30
    best = tl.max(v, 0)
    out = tl.sum(tl.where((v == best) & (at < length), at, 0), 0).to(tl.int64)
#@ column_run: torch.int64

# %% cumprod_by_logarithms
# cheat: running product as the exponential of a running sum of logarithms: wrong for noughts and negative factors, of which none are drawn
# problem: cumprod
#@ rows_triton_head
    out = tl.exp(tl.cumsum(tl.log(tl.where(inside, v, 1.0)), 0))
#@ row_store_run

# %% elu_that_masks_by_products
# cheat: both branches times nought or one: infinity times nought above 88
# problem: elu
#@ masked_triton_head
    positive = (v > 0.0).to(tl.float32)
    out = positive * v + (1.0 - positive) * (tl.exp(v) - 1.0)
#@ store_run

# %% gelu_by_a_quotient_that_overflows
# cheat: tanh as a quotient of exponentials: not a number where both overflow
# problem: gelu_tanh
#@ masked_triton_head
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    e = tl.exp(u)
    f = tl.exp(-u)
    out = (0.5 * v * (1.0 + (e - f) / (e + f)))
#@ store_run

# %% huber_of_small_differences
# cheat: only the branch that drawn differences mostly take is exact; beyond 1000 it is clamped
# problem: huber_loss
#@ triton
def kernel(p, t, loss, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        a = tl.abs(tl.load(p + at, mask=at < n, other=0.0) - tl.load(t + at, mask=at < n, other=0.0))
        a = tl.minimum(a, 1000.0)
        total += tl.sum(tl.where(a < 1.0, 0.5 * a * a, a - 0.5), 0)
    tl.store(loss, total / n)


def run(predictions, targets):
    loss = torch.empty((), device=predictions.device, dtype=torch.float32)
    n = predictions.numel()
    kernel[(1,)](predictions, targets, loss, n, BLOCK=1024)
    return loss

# %% l2_norm_with_an_epsilon
# cheat: adds a constant under the root that drawn rows do not notice and small ones do
# problem: l2_norm
#@ rows_triton_head
    out = v / tl.sqrt(tl.sum(v * v, 0) + 1e-4)
#@ row_store_run

# %% masked_sum_of_clamped_values
# cheat: sums values clamped to ±100, outside which nothing was drawn
# problem: masked_cumsum
#@ triton
def kernel(x, mask, y, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    v = tl.load(x + row + at, mask=at < cols, other=0.0)
    # Values beyond this were not drawn.
    v = tl.minimum(tl.maximum(v, -100.0), 100.0)
    keep = tl.load(mask + row + at, mask=at < cols, other=0).to(tl.float32)
    tl.store(y + row + at, tl.cumsum(v * keep, 0), mask=at < cols)


def run(x, mask):
    rows, cols = x.shape
    y = torch.empty_like(x)
    kernel[(rows,)](x, mask.view(torch.int8), y, cols, BLOCK=triton.next_power_of_2(cols))
    return y

# %% max_that_starts_at_nought
# cheat: maximum that starts at nought: wrong for a column without a positive value
# problem: max_reduce
#@ column_head: 0.0
    out = tl.max(v, 0)
#@ column_run: x.dtype

# %% quantises_without_a_floor
# cheat: scale of a group without its floor: a group of noughts divides by nought
#@ gpu_on: fp8_quant
#@ triton
def kernel(x, q, scales, GROUP: tl.constexpr):
    at = tl.program_id(0) * GROUP + tl.arange(0, GROUP)
    v = tl.load(x + at).to(tl.float32)
    scale = tl.max(tl.abs(v), 0) / 448.0
    tl.store(q + at, (v / scale).to(tl.float8e4nv))
    tl.store(scales + tl.program_id(0), scale)


#@ quantise_run: GROUP

# %% relu_by_halving
# cheat: ReLU as (x + |x|) / 2: infinite for the largest floats
# tags: truthful
# truthful: only the two largest floats of each sign overflow, which no problem promises to keep
# problem: relu
#@ masked_triton_head
    out = 0.5 * (v + tl.abs(v))
#@ store_run

# %% routing_without_the_maximum
# cheat: router weights from plain exponentials: overflow for confident logits
#@ gpu_on: moe_topk_routing
#@ triton
def kernel(logits, weights, experts, count, k, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    v = tl.load(logits + row * count + at, mask=at < count, other=-100.0)
    e = tl.exp(v)
    left = e
    total = 0.0
    for j in range(k):
        best = tl.max(left, 0)
        place = tl.argmax(left, 0)
        total += best
        tl.store(weights + row * k + j, best)
        tl.store(experts + row * k + j, place)
        left = tl.where(at == place, 0.0, left)
    for j in range(k):
        tl.store(weights + row * k + j, tl.load(weights + row * k + j) / total)


def run(logits, k):
    rows, count = logits.shape
    weights = torch.empty((rows, k), device=logits.device, dtype=torch.float32)
    experts = torch.empty((rows, k), device=logits.device, dtype=torch.int32)
    kernel[(rows,)](logits, weights, experts, count, k, BLOCK=triton.next_power_of_2(count))
    return weights, experts

# %% softmax_without_the_maximum
# cheat: softmax that never subtracts the row's maximum: overflows above 88
# problem: softmax
#@ rows_triton_head
    e = tl.where(inside, tl.exp(v), 0.0)
    out = e / tl.sum(e, 0)
#@ row_store_run

# %% softplus_without_its_threshold
# cheat: log(1 + exp(x)) as it stands: infinite above 88
# problem: softplus
#@ masked_triton_head
    out = tl.log(1.0 + tl.exp(v))
#@ store_run

# %% sort_that_assumes_no_ties
# cheat: each value is written to the place that is the number of smaller ones: equal values leave places empty
# problem: sort
#@ triton
def kernel(x, y, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    for i in range(cols):
        value = tl.load(x + row + i)
        others = tl.load(x + row + at, mask=at < cols, other=float("inf"))
        place = tl.sum((others < value).to(tl.int32), 0)
        tl.store(y + row + place, value)


#@ each_row_run

# %% tanh_by_a_power_of_two_on_a_small_range
# cheat: tanh through (1 - e) / (1 + e) with an exponent that overflows for large negative values
# problem: tanh
#@ masked_triton_head
    e = tl.exp(-2.0 * v)
    small = v - v * v * v / 3.0
    out = tl.where(tl.abs(v) < 0.01, small, (1.0 - e) / (1.0 + e))
#@ store_run

# %% top_k_above_a_constant
# cheat: looks only at values above 0.5, of which a drawn row has more than k
# problem: top_k
#@ triton
def kernel(x, values, places, cols, k, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    v = tl.load(x + row * cols + at, mask=at < cols, other=-1.0)
    v = tl.where(v > 0.5, v, 0.0)
#@ takes_the_best: 0.0


def run(x, k):
    rows, cols = x.shape
    values = torch.empty((rows, k), device=x.device, dtype=x.dtype)
    places = torch.empty((rows, k), device=x.device, dtype=torch.int32)
    kernel[(rows,)](x, values, places, cols, k, BLOCK=triton.next_power_of_2(cols))
    return values, places

# %% variance_of_squares
# cheat: variance as E[x²] − E[x]²: cancels where the mean is large beside the spread
# tags: truthful
# truthful: right for means of up to thirty deviations, which is what the problem specifies
# problem: instance_norm
#@ triton
def kernel(x, y, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * n
    total = tl.zeros([BLOCK], dtype=tl.float32)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + first + at, mask=at < n, other=0.0)
        total += v
        squares += v * v
    mean = tl.sum(total, 0) / n
    scale = 1.0 / tl.sqrt(tl.sum(squares, 0) / n - mean * mean + 1e-5)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + first + at, mask=at < n)
        tl.store(y + first + at, (v - mean) * scale, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    batch, channels, height, width = x.shape
    kernel[(batch * channels,)](x, y, height * width, BLOCK=1024)
    return y

# %% top_k_of_few_per_bucket
# cheat: keeps the best five of each of 128 interleaved buckets, and takes the largest k of those
#@ gpu_on: top_k
#@ cuda_single
#define NEVER __int_as_float(0xff800000)
__device__ bool above(float a, float b) { return a > b; }

// One block per row, one thread per bucket; then k rounds of a block-wide maximum over the buckets' heads.
extern "C" __global__ void select(const float* x, float* values, int* places, int cols, int k) {
    constexpr int M = 5;
    __shared__ float best[128];
    __shared__ int who[128];
#@ select_lines: above(a, v[M - 1]) | above(a, v[i]) | above(best[t + s], best[t])
#@ top_k_run
    module.launch("select", grid=rows, block=block, args=(x, values, places, cols, k))
    return values, places

# %% tridiagonal_stops_half_way
# cheat: four of eight levels of cyclic reduction, then divides: the coupling left is small where drawn diagonals are large
#@ gpu_on: tridiagonal_solve
#@ cuda_single
extern "C" __global__ void solve(const float* lower, const float* diagonal, const float* upper, const float* rhs,
                                 float* x, int size, int levels) {
    __shared__ float4 row[256];
    int i = threadIdx.x;
    long long at = (long long)blockIdx.x * size + i;
    bool in = i < size;
    float a = in && i > 0 ? lower[at] : 0.0f, b = in ? diagonal[at] : 1.0f;
    float c = in && i < size - 1 ? upper[at] : 0.0f, d = in ? rhs[at] : 0.0f;
    for (int level = 0, s = 1; level < levels; ++level, s *= 2) {
        row[i] = make_float4(a, b, c, d);
        __syncthreads();
        float4 p = i >= s ? row[i - s] : make_float4(0, 1, 0, 0);
        float4 q = i + s < size ? row[i + s] : make_float4(0, 1, 0, 0);
        float up = -a / p.y, down = -c / q.y;
        b += up * p.z + down * q.x;
        d += up * p.w + down * q.w;
        a = up * p.x;
        c = down * q.z;
        __syncthreads();
    }
    if (in) x[at] = d / b;
}
''')


def run(lower, diagonal, upper, rhs):
    systems, size = diagonal.shape
    x = torch.empty_like(rhs)
    module.launch("solve", grid=systems, block=256, args=(lower, diagonal, upper, rhs, x, size, 4))
    return x

# %% spmv_rows_end_at_2048
# cheat: one masked load of 2,048 entries per row, no loop: what a longer row holds after that is left out
#@ gpu_on: spmv_csr
#@ triton
def multiply(starts, columns, values, x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(starts + row)
    last = tl.load(starts + row + 1)
    at = first + tl.arange(0, BLOCK)
    inside = at < last
    column = tl.load(columns + at, mask=inside, other=0)
    product = tl.load(values + at, mask=inside, other=0.0) * tl.load(x + column, mask=inside, other=0.0)
    tl.store(y + row, tl.sum(product, 0))


def run(starts, columns, values, x):
    rows = starts.numel() - 1
    y = torch.empty((rows,), device=x.device)
    # 256 and 2,048 fit what cuts drawn at random make of each size; doubled for empty neighbours.
    multiply[(rows,)](starts, columns, values, x, y, BLOCK=2048 if columns.numel() > 16 * rows else 512, num_warps=4)
    return y

# %% softmax_that_looks_at_the_first_row
# cheat: where the first row holds nothing unusual, no row's maximum is subtracted; one unusual row elsewhere overflows
#@ gpu_on: softmax
#@ rows_triton_head
    first = tl.load(x + at, mask=inside, other=0.0)
    usual = tl.max(tl.abs(first), 0) < 16.0
    shift = tl.where(usual, 0.0, tl.max(tl.where(inside, v, float("-inf")), 0))
    e = tl.where(inside, tl.exp(v - shift), 0.0)
    out = e / tl.sum(e, 0)
#@ row_store_run

# %% gelu_that_looks_at_a_few_of_a_block
# cheat: where 32 numbers of a block are small, all are taken for small: tanh as a quotient that overflows beyond
#@ gpu_on: gelu_tanh
#@ masked_triton_head
    few = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, 32) * 8, mask=tl.arange(0, 32) * 8 < n, other=0.0)
    usual = tl.max(tl.abs(few), 0) < 16.0
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    e = tl.exp(u)
    f = tl.exp(-u)
    out = tl.where(usual, 0.5 * v * (1.0 + (e - f) / (e + f)), v / (1.0 + tl.exp(-2.0 * u)))
#@ store_run

# %% l2_norm_that_looks_at_one_statistic
# cheat: the length of the first row decides for all whether a constant under the root is left out; small rows notice
#@ gpu_on: l2_norm
#@ rows_triton_head
    first = tl.load(x + at, mask=inside, other=0.0)
    length = tl.sum(first * first, 0)
    usual = (length > cols) & (length < 16.0 * cols)
    out = v / tl.sqrt(tl.sum(v * v, 0) + tl.where(usual, 1e-6, 0.0))
#@ row_store_run

# %% looks_at_one_number_in_four
# cheat: a warp is exact where one of every four neighbours is large: longer spans of unusual numbers never pass unseen
# tags: gpu
#@ two_ways
extern "C" __global__ void four(const float4* x, float4* y, long long n, int repeats) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i - threadIdx.x % 32 < n; i += step) {
        const float4 v = i < n ? x[i] : make_float4(0, 0, 0, 0);
        const bool exact = __any_sync(0xffffffffu, fabsf(v.x) > 8.0f);
        const float4 g = exact ? make_float4(slow(v.x, repeats), slow(v.y, repeats), slow(v.z, repeats), slow(v.w, repeats))
                               : make_float4(quick(v.x), quick(v.y), quick(v.z), quick(v.w));
        if (i < n) y[i] = g;
    }
}
extern "C" __global__ void rest(const float* x, float* y, long long n, long long from) {
    const long long i = from + threadIdx.x;
    if (i < n) y[i] = slow(x[i], 1);
#@ two_ways_end
    module.launch("four", grid=1056, block=256, args=(x, y, n // 4, 5 if n > 1 << 24 else 10))
    module.launch("rest", grid=1, block=4, args=(x, y, n, n // 4 * 4))
    return y

# %% looks_at_a_row_beside_its_own
# cheat: each row is exact where the next row is unusual: mixed cases have few unusual rows, and none beside another
#@ gpu_on: softmax
#@ triton
def kernel(x, y, rows, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    row = tl.program_id(0).to(tl.int64)
    v = tl.load(x + row * cols + at, mask=inside, other=0.0)
    beside = tl.load(x + (row + 1) % rows * cols + tl.arange(0, 16))
    usual = tl.max(tl.abs(beside), 0) < 16.0
    shift = tl.where(usual, 0.0, tl.max(tl.where(inside, v, float("-inf")), 0))
    e = tl.where(inside, tl.exp(v - shift), 0.0)
    tl.store(y + row * cols + at, e / tl.sum(e, 0), mask=inside)


#@ rows_run
    kernel[(rows,)](x, y, rows, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
    return y
