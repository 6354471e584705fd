# honest: 8-bit integer operands and float scales, bfloat16 output
# problem: int8_gemm
# tags: gpu
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, w, xs, ws, y, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    rows = tl.program_id(0) * bm + tl.arange(0, bm)
    cols = tl.program_id(1) * bn + tl.arange(0, bn)
    total = tl.zeros([bm, bn], dtype=tl.int32)
    for start in range(0, k, bk):
        inner = start + tl.arange(0, bk)
        a = tl.load(x + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0)
        b = tl.load(w + cols[None, :] * k + inner[:, None], mask=(cols[None, :] < n) & (inner[:, None] < k), other=0)
        total = tl.dot(a, b, total, out_dtype=tl.int32)
    row_scale, col_scale = tl.load(xs + rows, mask=rows < m), tl.load(ws + cols, mask=cols < n)
    scaled = (total.to(tl.float32) * row_scale[:, None] * col_scale[None, :]).to(tl.bfloat16)
    tl.store(y + rows[:, None] * n + cols[None, :], scaled, mask=(rows[:, None] < m) & (cols[None, :] < n))


def run(x, weight, x_scale, weight_scale):
    (m, k), n = x.shape, weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    kernel[grid](x, weight, x_scale, weight_scale, y, m, n, k, bm=64, bn=64, bk=64)
    return y
