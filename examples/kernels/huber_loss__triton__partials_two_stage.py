import torch
import triton
import triton.language as tl


@triton.jit
def huber_partial(p_ptr, t_ptr, part_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    p = tl.load(p_ptr + offs, mask=mask, other=0.0)
    t = tl.load(t_ptr + offs, mask=mask, other=0.0)
    d = tl.abs(p - t)
    loss = tl.where(d < 1.0, 0.5 * d * d, d - 0.5)
    tl.store(part_ptr + pid, tl.sum(loss, axis=0))


@triton.jit
def huber_final(part_ptr, out_ptr, parts, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, parts, BLOCK):
        i = start + lane
        acc += tl.load(part_ptr + i, mask=i < parts, other=0.0)
    tl.store(out_ptr, tl.sum(acc, axis=0) / n)


def run(predictions, targets):
    n = predictions.numel()
    parts = triton.cdiv(n, 4096)
    part = torch.empty((parts,), device=predictions.device, dtype=torch.float32)
    out = torch.empty((), device=predictions.device, dtype=torch.float32)
    huber_partial[(parts,)](predictions, targets, part, n, BLOCK=4096, num_warps=8)
    huber_final[(1,)](part, out, parts, n, BLOCK=2048, num_warps=8)
    return out
