"""A fixed number of programs stride over tiles of token-head rows that may span pages."""

import torch
import triton
import triton.language as tl


@triton.jit
def dequant(pages_ptr, scales_ptr, table_ptr, out_ptr, rows, per_page, D, BR: tl.constexpr, BD: tl.constexpr):
    d = tl.arange(0, BD)
    for tile in range(tl.program_id(0), tl.cdiv(rows, BR), tl.num_programs(0)):
        r = tile * BR + tl.arange(0, BR)
        live = r < rows
        page = tl.load(table_ptr + r // per_page, mask=live, other=0).to(tl.int64)
        source = page * per_page + r % per_page
        scale = tl.load(scales_ptr + source, mask=live, other=0.0)
        ok = live[:, None] & (d < D)[None, :]
        x = tl.load(pages_ptr + source[:, None] * D + d[None, :], mask=ok, other=0).to(tl.float32)
        y = (x * scale[:, None]).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + r.to(tl.int64)[:, None] * D + d[None, :], y, mask=ok)


def run(pages, scales, page_table):
    b, width = page_table.shape
    _, page, heads, dim = pages.shape
    out = torch.empty((b, width * page, heads, dim), device=pages.device, dtype=torch.bfloat16)
    rows = b * width * page * heads
    grid = min(triton.cdiv(rows, 32), 1056)
    dequant[(grid,)](
        pages, scales, page_table, out, rows, page * heads, dim, BR=32, BD=triton.next_power_of_2(dim), num_warps=4
    )
    return out
