"""One program per row: a sweep finds maximum and sum together, a second writes the gradient."""

import torch
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, t_ptr, g_ptr, loss_ptr, grad_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -1.0e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        c = start + cols
        v = tl.load(x_ptr + row * V + c, mask=c < V, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(top, v)
        total = total * tl.exp(top - larger) + tl.exp(v - larger)
        top = larger
    best = tl.max(top, axis=0)
    log_sum = best + tl.log(tl.sum(total * tl.exp(top - best), axis=0))
    target = tl.load(t_ptr + row)
    share = tl.load(g_ptr + row)
    tl.store(loss_ptr + row, log_sum - tl.load(x_ptr + row * V + target).to(tl.float32))
    for start in range(0, V, BLOCK):
        c = start + cols
        v = tl.load(x_ptr + row * V + c, mask=c < V, other=0.0).to(tl.float32)
        grad = tl.exp(v - log_sum) - tl.where(c == target, 1.0, 0.0)
        tl.store(grad_ptr + row * V + c, (grad * share).to(grad_ptr.dtype.element_ty), mask=c < V)


def run(logits, targets, loss_grad):
    n, v = logits.shape
    losses = torch.empty((n,), device=logits.device, dtype=torch.float32)
    grad = torch.empty_like(logits)
    rows[(n,)](logits, targets, loss_grad, losses, grad, v, BLOCK=4096, num_warps=8)
    return losses, grad
