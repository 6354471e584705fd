import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_2d(g_ptr, y_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = c < D
    gate = tl.load(g_ptr + row * 2 * D + c, mask=ok, other=0.0).to(tl.float32)
    up = tl.load(g_ptr + row * 2 * D + D + c, mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * D + c, (gate * tl.sigmoid(gate) * up).to(y_ptr.dtype.element_ty), mask=ok)


def run(gate_up):
    M, N2 = gate_up.shape
    D = N2 // 2
    y = torch.empty((M, D), device=gate_up.device, dtype=gate_up.dtype)
    swiglu_2d[(M, triton.cdiv(D, 1024))](gate_up, y, D, BLOCK=1024, num_warps=4)
    return y
