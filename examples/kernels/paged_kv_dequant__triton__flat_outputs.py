"""A flat walk over output elements, each finding its page and scale by division."""

import torch
import triton
import triton.language as tl


@triton.jit
def dequant(pages_ptr, scales_ptr, table_ptr, out_ptr, n, per_page, dim, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = at < n
    page = tl.load(table_ptr + at // per_page, mask=ok, other=0).to(tl.int64)
    source = page * per_page + at % per_page
    x = tl.load(pages_ptr + source, mask=ok, other=0).to(tl.float32)
    scale = tl.load(scales_ptr + source // dim, mask=ok, other=0.0)
    tl.store(out_ptr + at, (x * scale).to(out_ptr.dtype.element_ty), mask=ok)


def run(pages, scales, page_table):
    b, width = page_table.shape
    _, page, heads, dim = pages.shape
    out = torch.empty((b, width * page, heads, dim), device=pages.device, dtype=torch.bfloat16)
    n = out.numel()
    dequant[(triton.cdiv(n, 1024),)](
        pages, scales, page_table, out, n, page * heads * dim, dim, BLOCK=1024, num_warps=4
    )
    return out
