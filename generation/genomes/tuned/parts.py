%% section order
@triton.jit
def place(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tile // (GROUP * columns) * GROUP
    height = tl.minimum(rows - first, GROUP)
    inside = tile % (GROUP * columns)
    return first + inside % height, inside // height


%% section join
@triton.jit
def join(part_ptr, y_ptr, SIZE, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.static_range(SPLIT):
        total += tl.load(part_ptr + part * SIZE + at, mask=at < SIZE, other=0.0)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), mask=at < SIZE)


%% section apart
@triton.jit
def apart(x_ptr, out_ptr, K, BLOCK: tl.constexpr):
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * K
    known = j < K // 2
    tl.store(out_ptr + row + j, tl.load(x_ptr + row + 2 * j, mask=known), mask=known)
    tl.store(out_ptr + row + K // 2 + j, tl.load(x_ptr + row + 2 * j + 1, mask=known), mask=known)


%% section combine
@triton.jit
def combine(part_ptr, stat_ptr, out_ptr, D: tl.constexpr, SPLITS: tl.constexpr):
    own = tl.program_id(0)
    slot = own * SPLITS + tl.arange(0, SPLITS)
    dims = tl.arange(0, D)
    top = tl.load(stat_ptr + 2 * slot)
    factor = tl.exp2(top - tl.max(top, 0))
    total = tl.sum(tl.load(stat_ptr + 2 * slot + 1) * factor, 0)
    sums = tl.sum(tl.load(part_ptr + slot[:, None] * D + dims[None, :]) * factor[:, None], 0)
    tl.store(out_ptr + own * D + dims, (sums / total).to(tl.bfloat16))


