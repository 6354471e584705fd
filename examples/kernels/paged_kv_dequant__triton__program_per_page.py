"""One program a page: its token-head rows in tiles, each row times its scale."""

import torch
import triton
import triton.language as tl


@triton.jit
def dequant(pages_ptr, scales_ptr, table_ptr, out_ptr, R, D, BR: tl.constexpr, BD: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    page = tl.load(table_ptr + slot).to(tl.int64)
    d = tl.arange(0, BD)
    for start in range(0, R, BR):
        r = start + tl.arange(0, BR)
        ok = (r < R)[:, None] & (d < D)[None, :]
        scale = tl.load(scales_ptr + page * R + r, mask=r < R, other=0.0)
        x = tl.load(pages_ptr + (page * R + r)[:, None] * D + d[None, :], mask=ok, other=0)
        y = x.to(tl.float32) * scale[:, None]
        tl.store(out_ptr + (slot * R + r)[:, None] * D + d[None, :], y.to(out_ptr.dtype.element_ty), mask=ok)


def run(pages, scales, page_table):
    b, width = page_table.shape
    _, page, heads, dim = pages.shape
    out = torch.empty((b, width * page, heads, dim), device=pages.device, dtype=torch.bfloat16)
    dequant[(b * width,)](
        pages, scales, page_table, out, page * heads, dim, BR=64, BD=triton.next_power_of_2(dim), num_warps=8
    )
    return out
