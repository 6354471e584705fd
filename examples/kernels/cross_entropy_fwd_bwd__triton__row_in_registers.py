"""The whole row is read once and stays in registers."""

import torch
import triton
import triton.language as tl


@triton.jit
def whole_row(x_ptr, t_ptr, g_ptr, loss_ptr, grad_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    kept = tl.load(x_ptr + row * V + c, mask=c < V, other=-float("inf"))
    target = tl.load(t_ptr + row)
    share = tl.load(g_ptr + row)
    v = kept.to(tl.float32)
    top = tl.max(v, axis=0)
    log_sum = top + tl.log(tl.sum(tl.exp(v - top), axis=0))
    tl.store(loss_ptr + row, log_sum - tl.load(x_ptr + row * V + target).to(tl.float32))
    grad = tl.exp(kept.to(tl.float32) - log_sum) - tl.where(c == target, 1.0, 0.0)
    tl.store(grad_ptr + row * V + c, (grad * share).to(grad_ptr.dtype.element_ty), mask=c < V)


def run(logits, targets, loss_grad):
    n, v = logits.shape
    losses = torch.empty((n,), device=logits.device, dtype=torch.float32)
    grad = torch.empty_like(logits)
    block = triton.next_power_of_2(v)
    warps = 32 if block >= 16384 else 8
    whole_row[(n,)](logits, targets, loss_grad, losses, grad, v, BLOCK=block, num_warps=warps)
    return losses, grad
