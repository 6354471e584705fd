# %% autotune
# honest: triton.autotune over several configurations, keyed by size
#@ on_gpu: gelu_tanh
#@ triton_imports


@triton.autotune(
    configs=[triton.Config({"block": block}, num_warps=warps) for block in (512, 1024, 2048) for warps in (4, 8)],
    key=["n"],
)
@triton.jit
#@ blocks_of
#@ gelu_body_run
#@ tuned_launch

# %% autotune_pruned
# honest: an autotuned kernel whose hook for pruning returns configurations made anew
#@ on_gpu: gelu_tanh
#@ triton_imports


def fewer(configs, named, **rest):
    left = [one for one in configs if one.kwargs["block"] > 512]
    return [triton.Config(dict(one.kwargs), num_warps=one.num_warps, num_stages=one.num_stages) for one in left]


@triton.autotune(
    configs=[triton.Config({"block": block}, num_warps=4) for block in (512, 1024, 2048)],
    key=["n"],
    prune_configs_by={"early_config_prune": fewer},
)
@triton.jit
#@ blocks_of
#@ gelu_body_run
#@ tuned_launch

# %% custom_kernel_form
# honest: GPU MODE's form, which only launches a kernel
# problem: gelu_tanh
#@ triton
#@ blocks_of
#@ gelu_in_triton


def custom_kernel(data):
    (x,) = data
#@ outputs
    kernel[(triton.cdiv(n, 1024),)](x, y, n, block=1024)
    return y

# %% device_descriptors
# honest: tensor descriptors made on the device, with memory from triton.set_allocator
#@ on_gpu: geglu
#@ triton_imports


def allocate(size, alignment, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


triton.set_allocator(allocate)


@triton.jit
def kernel(gate, up, y, tokens, width, tile_rows: tl.constexpr, tile_cols: tl.constexpr):
    a = tl.make_tensor_descriptor(gate, [tokens, width], [width, 1], [tile_rows, tile_cols])
    b = tl.make_tensor_descriptor(up, [tokens, width], [width, 1], [tile_rows, tile_cols])
    c = tl.make_tensor_descriptor(y, [tokens, width], [width, 1], [tile_rows, tile_cols])
    row, col = tl.program_id(0) * tile_rows, tl.program_id(1) * tile_cols
    g = a.load([row, col]).to(tl.float32)
    u = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    act = (g / (1.0 + tl.exp(-2.0 * u))).to(tl.bfloat16).to(tl.float32)
    c.store([row, col], (act * b.load([row, col]).to(tl.float32)).to(tl.bfloat16))


def run(gate, up):
    y = torch.empty_like(gate)
    tokens, width = gate.shape
    kernel[(triton.cdiv(tokens, 16), triton.cdiv(width, 64))](gate, up, y, tokens, width, tile_rows=16, tile_cols=64)
    return y

# %% fp8_inputs
# honest: 8-bit float operands and float scales, bfloat16 output
#@ on_gpu: fp8_gemm
#@ scaled_gemm: tl.float32 | 0.0

# %% full_then_atomics
# honest: maxima taken atomically over an output filled with the smallest value
# problem: max_reduce
#@ triton
def kernel(x, y, length, width, tile_rows: tl.constexpr, tile_cols: tl.constexpr):
    batch = tl.program_id(0)
    rows = tl.program_id(1) * tile_rows + tl.arange(0, tile_rows)
    cols = tl.program_id(2) * tile_cols + tl.arange(0, tile_cols)
    inside = (rows[:, None] < length) & (cols[None, :] < width)
    v = tl.load(x + (batch * length + rows[:, None]) * width + cols[None, :], mask=inside, other=float("-inf"))
    tl.atomic_max(y + batch * width + cols, tl.max(v, 0), mask=cols < width)


def run(x):
    batch, length, width = x.shape
    y = torch.full((batch, width), float("-inf"), device=x.device, dtype=torch.float32)
    kernel[(batch, triton.cdiv(length, 64), triton.cdiv(width, 64))](x, y, length, width, tile_rows=64, tile_cols=64)
    return y

# %% gather
# honest: int64 indices into a bfloat16 table
# problem: embedding_gather
#@ triton
def kernel(ids, table, rows, dim, block: tl.constexpr):
    token = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    row = tl.load(ids + token)
    tl.store(rows + token.to(tl.int64) * dim + at, tl.load(table + row * dim + at, mask=at < dim), mask=at < dim)


def run(ids, table):
    tokens, dim = ids.numel(), table.shape[1]
    rows = torch.empty((tokens, dim), device=table.device, dtype=table.dtype)
    kernel[(tokens, triton.cdiv(dim, 512))](ids, table, rows, dim, block=512)
    return rows

# %% heuristics
# honest: triton.heuristics that choose a block by shape
# problem: gelu_tanh
#@ triton_imports


@triton.heuristics(
    {"block": lambda args: 256 if args["n"] < 4096 else 2048, "even": lambda args: args["n"] % 2048 == 0}
)
@triton.jit
def kernel(x, y, n, block: tl.constexpr, even: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + at) if even else tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    g = v / (1.0 + tl.exp(-2.0 * u))
    tl.store(y + at, g, mask=at < n)


def run(x):
#@ tuned_launch

# %% host_descriptors
# honest: tensor descriptors made on the host
#@ on_gpu: geglu
#@ triton_imports
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def kernel(gate, up, y, tile_rows: tl.constexpr, tile_cols: tl.constexpr):
    row, col = tl.program_id(0) * tile_rows, tl.program_id(1) * tile_cols
    g = gate.load([row, col]).to(tl.float32)
    u = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    act = (g / (1.0 + tl.exp(-2.0 * u))).to(tl.bfloat16).to(tl.float32)
    y.store([row, col], (act * up.load([row, col]).to(tl.float32)).to(tl.bfloat16))


def run(gate, up):
    y = torch.empty_like(gate)
    tokens, width = gate.shape
    views = [TensorDescriptor.from_tensor(tensor, [16, 64]) for tensor in (gate, up, y)]
    kernel[(triton.cdiv(tokens, 16), triton.cdiv(width, 64))](*views, tile_rows=16, tile_cols=64)
    return y

# %% int8_inputs
# honest: 8-bit integer operands and float scales, bfloat16 output
#@ on_gpu: int8_gemm
#@ scaled_gemm: tl.int32 | 0

# %% model_form
# honest: KernelBench's form, whose forward only launches a kernel
# problem: gelu_tanh
#@ triton
#@ blocks_of
#@ gelu_in_triton


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 1024),)](x, y, n, block=1024)
        return y

# %% persistent
# honest: a grid of one block per multiprocessor that loops over the work
#@ on_gpu: gelu_tanh
#@ triton
def kernel(x, y, n, block: tl.constexpr):
    for part in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        at = part * block + tl.arange(0, block)
        v = tl.load(x + at, mask=at < n)
        u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
        tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
#@ outputs
    blocks = torch.cuda.get_device_properties(x.device).multi_processor_count
    kernel[(min(4 * blocks, triton.cdiv(n, 1024)),)](x, y, n, block=1024)
    return y

# %% scratch
# honest: row lengths in a scratch buffer between two launches
# problem: l2_norm
#@ triton
def lengths(x, scratch, cols, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([block], dtype=tl.float32)
    for start in range(0, cols, block):
        at = start + tl.arange(0, block)
        v = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
        total += v * v
    tl.store(scratch + row, tl.sqrt(tl.sum(total, 0)))


@triton.jit
def divide(x, scratch, y, cols, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    v = tl.load(x + row * cols + at, mask=at < cols)
    tl.store(y + row * cols + at, v / tl.load(scratch + row), mask=at < cols)


#@ rows_run
    scratch = torch.empty(rows, device=x.device, dtype=torch.float32)
    lengths[(rows,)](x, scratch, cols, block=1024)
    divide[(rows, triton.cdiv(cols, 1024))](x, scratch, y, cols, block=1024)
    return y

# %% several_launches
# honest: three Triton launches, each on a part of the elements
# problem: gelu_tanh
#@ triton
def kernel(x, y, first, n, block: tl.constexpr):
    at = first + tl.program_id(0) * block + tl.arange(0, block)
#@ gelu_body_run
#@ outputs
    third = triton.cdiv(n, 3)
    for first in range(0, n, third):
        kernel[(triton.cdiv(third, 1024),)](x, y, first, min(first + third, n), block=1024)
    return y

# %% split_k
# honest: parts of a long inner dimension added atomically into an output of zeros
#@ on_gpu: matmul_square
#@ triton
def kernel(a, b, c, m, n, k, part, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    rows = tl.program_id(0) * bm + tl.arange(0, bm)
    cols = tl.program_id(1) * bn + tl.arange(0, bn)
    total = tl.zeros([bm, bn], dtype=tl.float32)
    first = tl.program_id(2) * part
    for start in range(first, min(first + part, k), bk):
        inner = start + tl.arange(0, bk)
        inside = (rows[:, None] < m) & (inner[None, :] < k)
        left = tl.load(a + rows[:, None] * k + inner[None, :], mask=inside, other=0.0)
        inside = (inner[:, None] < k) & (cols[None, :] < n)
        right = tl.load(b + inner[:, None] * n + cols[None, :], mask=inside, other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    tl.atomic_add(c + rows[:, None] * n + cols[None, :], total, mask=(rows[:, None] < m) & (cols[None, :] < n))


def run(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.zeros((m, n), device=a.device, dtype=torch.float32)
    part = triton.cdiv(triton.cdiv(k, 4), 32) * 32
    kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64), triton.cdiv(k, part))](a, b, c, m, n, k, part, bm=64, bn=64, bk=32)
    return c

# %% tuple_outputs
# honest: two outputs of different types from a bfloat16 input
#@ on_gpu: fp8_quant
#@ triton
def kernel(x, q, scales, group: tl.constexpr):
    at = tl.program_id(0) * group + tl.arange(0, group)
    v = tl.load(x + at).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(v), 0), 1e-10) / 448.0
    scaled = tl.minimum(tl.maximum(v / scale, -448.0), 448.0)
    tl.store(q + at, scaled.to(tl.float8e4nv))
    tl.store(scales + tl.program_id(0), scale)


#@ quantise_run: group

# %% views_of_one_allocation
# honest: both outputs are views of one larger block
#@ on_gpu: top_k
#@ triton
def kernel(x, values, places, cols, k, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.program_id(0)
    v = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
#@ takes_the_best: float("-inf")


def run(x, k):
    rows, cols = x.shape
    block = torch.empty(2 * rows * k + 64, device=x.device, dtype=torch.int32)
    values = block[: rows * k].view(torch.float32).view(rows, k)
    places = block[rows * k : 2 * rows * k].view(rows, k)
    kernel[(rows,)](x, values, places, cols, k, block=triton.next_power_of_2(cols))
    return values, places

# %% zeros_then_atomics
# honest: counts of integers added atomically into zeros
# problem: histogram
#@ triton
def kernel(x, counts, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    bins = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + bins, 1, mask=at < n)


def run(x, bins):
    counts = torch.zeros(bins, device=x.device, dtype=torch.int32)
    n = x.numel()
    kernel[(triton.cdiv(n, 1024),)](x, counts, n, block=1024)
    return counts
