import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def chunk_totals(x_ptr, m_ptr, t_ptr, cols, chunks, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    k = tl.program_id(1)
    c = k * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    m = tl.load(m_ptr + row * cols + c, mask=c < cols, other=0).to(tl.float32)
    tl.store(t_ptr + row * chunks + k, tl.sum(v * m, 0))


@triton.jit
def chunk_scan(x_ptr, m_ptr, t_ptr, y_ptr, cols, chunks, BLOCK: tl.constexpr, CB: tl.constexpr):
    # Chunks of a row run at the same time: each adds up the totals of the chunks before it.
    row = tl.program_id(0)
    k = tl.program_id(1)
    before = tl.arange(0, CB)
    start = tl.sum(tl.load(t_ptr + row * chunks + before, mask=before < k, other=0.0), 0)
    c = k * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    m = tl.load(m_ptr + row * cols + c, mask=c < cols, other=0).to(tl.float32)
    s = tl.associative_scan(v * m, 0, add)
    tl.store(y_ptr + row * cols + c, s + start, mask=c < cols)


def run(x, mask):
    rows, cols = x.shape
    flags = mask.view(torch.uint8)
    chunks = triton.cdiv(cols, 2048)
    totals = torch.empty((rows, chunks), device=x.device, dtype=torch.float32)
    y = torch.empty_like(x)
    chunk_totals[(rows, chunks)](x, flags, totals, cols, chunks, BLOCK=2048)
    chunk_scan[(rows, chunks)](
        x, flags, totals, y, cols, chunks, BLOCK=2048, CB=triton.next_power_of_2(chunks)
    )
    return y
