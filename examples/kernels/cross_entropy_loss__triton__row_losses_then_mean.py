import torch
import triton
import triton.language as tl


@triton.jit
def ce_rows(logits_ptr, target_ptr, loss_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    z = tl.load(logits_ptr + row * V + offs, mask=offs < V, other=-float("inf"))
    zmax = tl.max(z, 0)
    lse = zmax + tl.log(tl.sum(tl.exp(z - zmax), 0))
    label = tl.load(target_ptr + row)
    picked = tl.load(logits_ptr + row * V + label)
    tl.store(loss_ptr + row, lse - picked)


@triton.jit
def mean_of(v_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + lane
        acc += tl.load(v_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr, tl.sum(acc, 0) / n)


def run(logits, targets):
    N, V = logits.shape
    losses = torch.empty((N,), device=logits.device, dtype=torch.float32)
    out = torch.empty((), device=logits.device, dtype=torch.float32)
    block = triton.next_power_of_2(V)
    ce_rows[(N,)](logits, targets, losses, V, BLOCK=block, num_warps=8 if block >= 2048 else 1)
    mean_of[(1,)](losses, out, N, BLOCK=1024, num_warps=8)
    return out
