import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_tile(g_ptr, y_ptr, rows, width, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(1) * R + tl.arange(0, R)
    c = tl.program_id(0) * C + tl.arange(0, C)
    ok = (r[:, None] < rows) & (c[None, :] < width)
    at = r[:, None] * (2 * width) + c[None, :]
    g = tl.load(g_ptr + at, mask=ok, other=0.0).to(tl.float32)
    u = tl.load(g_ptr + at + width, mask=ok, other=0.0).to(tl.float32)
    # sigmoid through base two
    y = g * u / (1.0 + tl.exp2(-1.4426950408889634 * g))
    tl.store(y_ptr + r[:, None] * width + c[None, :], y.to(y_ptr.dtype.element_ty), mask=ok)


def run(gate_up):
    rows, double = gate_up.shape
    width = double // 2
    y = gate_up.new_empty((rows, width))
    swiglu_tile[(triton.cdiv(width, 256), triton.cdiv(rows, 8))](gate_up, y, rows, width, R=8, C=256, num_warps=4)
    return y
