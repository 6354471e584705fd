# A matrix times a vector: who sums a row, and how its parts are joined.
# family matrix_vector_triton for matmul_vector
# shape parts = 1, 2, 4, 8, 16, 32
# shape join = "kernel", "last"
# shape spread = "block", "strided"
# shape sum = "late", "early"
# shape tail = "masked", "peeled"
# shape evict = "none", "first"
# pick rows = 1, 2, 4, 8
# pick block = 256, 512, 1024, 2048, 4096
# pick warps = 2, 4, 8
# pick stages = 2, 4
# refuse parts == 1 and (join, spread) != ("kernel", "block"): one part needs no joining
# let held = rows * block // (32 * warps)
# refuse held > 64 or held < 1: too many or too few elements per thread
# let remains = "k_last < k_to" if parts == 1 else "(k_last < k_to) & (k_last >= k_from)"
# let remains = remains + (" & ((k_last - k_from) % step == 0)" if parts != 1 and spread == "strided" else "")
# let last = parts != 1 and join == "last"
# let extra = "part_ptr, count_ptr, " if last else ""
# let evict = HINTS["first"] if evict == "first" else ""
# let late = sum == "late"

import torch
import triton
import triton.language as tl


@triton.jit
def rows_times_vector(a_ptr, x_ptr, y_ptr, ${extra}M, K, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rm = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    rk = tl.arange(0, BLOCK)
    row = rm[:, None] < M
%% if parts == 1
    k_from = 0
    k_to = K
    step = BLOCK
%% elif spread == "strided"
    part = tl.program_id(1)
    k_from = part * BLOCK
    k_to = K
    step = BLOCK * ${parts}
%% else
    part = tl.program_id(1)
    span = tl.cdiv(tl.cdiv(K, ${parts}), BLOCK) * BLOCK
    k_from = part * span
    k_to = tl.minimum(K, k_from + span)
    step = BLOCK
%% endif
%% if late
    acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
%% else
    acc = tl.zeros((ROWS,), dtype=tl.float32)
%% endif
%% if tail == "peeled"
    k_full = k_to - BLOCK + 1
    for k in range(k_from, k_full, step):
        a = tl.load(a_ptr + rm[:, None] * K + (k + rk)[None, :], mask=row, other=0.0${evict})
        x = tl.load(x_ptr + k + rk)
        acc += ${"a * x[None, :]" if late else "tl.sum(a * x[None, :], 1)"}
    k_last = k_to // BLOCK * BLOCK
    if ${remains}:
        inside = k_last + rk < k_to
        a = tl.load(a_ptr + rm[:, None] * K + (k_last + rk)[None, :], mask=row & inside[None, :], other=0.0)
        x = tl.load(x_ptr + k_last + rk, mask=inside, other=0.0)
        acc += ${"a * x[None, :]" if late else "tl.sum(a * x[None, :], 1)"}
%% else
    for k in range(k_from, k_to, step):
        inside = k + rk < k_to
        a = tl.load(a_ptr + rm[:, None] * K + (k + rk)[None, :], mask=row & inside[None, :], other=0.0${evict})
        x = tl.load(x_ptr + k + rk, mask=inside, other=0.0)
        acc += ${"a * x[None, :]" if late else "tl.sum(a * x[None, :], 1)"}
%% endif
    total = ${"tl.sum(acc, 1)" if late else "acc"}
%% if parts == 1
    tl.store(y_ptr + rm, total, mask=rm < M)
%% elif last
    tl.store(part_ptr + part * M + rm, total, mask=rm < M)
    tl.debug_barrier()
    done = tl.atomic_add(count_ptr + tl.program_id(0), 1, sem="acq_rel")
    if done == ${parts - 1}:
        every = tl.arange(0, ${parts})[:, None]
        found = tl.load(part_ptr + every * M + rm[None, :], mask=rm[None, :] < M, other=0.0, cache_modifier=".cg")
        tl.store(y_ptr + rm, tl.sum(found, 0), mask=rm < M)
%% else
    tl.store(y_ptr + part * M + rm, total, mask=rm < M)
%% endif
%% if parts > 1 and not last


@triton.jit
def join(part_ptr, y_ptr, M, BLOCK: tl.constexpr):
    rm = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(${parts}):
        total += tl.load(part_ptr + part * M + rm, mask=rm < M, other=0.0)
    tl.store(y_ptr + rm, total, mask=rm < M)
%% endif


def run(a, x):
    M, K = a.shape
    y = torch.empty((M, 1), device=a.device, dtype=a.dtype)
    blocks = triton.cdiv(M, ${rows})
%% if parts == 1
    rows_times_vector[(blocks,)](a, x, y, M, K, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}, num_stages=${stages})
%% elif last
    part = torch.empty((${parts}, M), device=a.device, dtype=a.dtype)
    count = torch.zeros((blocks,), device=a.device, dtype=torch.int32)
    rows_times_vector[(blocks, ${parts})](
        a, x, y, part, count, M, K, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}, num_stages=${stages}
    )
%% else
    part = torch.empty((${parts}, M), device=a.device, dtype=a.dtype)
    rows_times_vector[(blocks, ${parts})](
        a, x, part, M, K, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}, num_stages=${stages}
    )
    join[(triton.cdiv(M, 64),)](part, y, M, BLOCK=64, num_warps=2)
%% endif
    return y
