# honest: parts of a long inner dimension added atomically into an output of zeros
# problem: matmul_square
# tags: gpu
import torch
import triton
import triton.language as tl


@triton.jit
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
