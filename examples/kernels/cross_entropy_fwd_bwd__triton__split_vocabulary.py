"""Pieces of a row are summed up by different programs; a second kernel joins them, a third writes the gradient."""

import torch
import triton
import triton.language as tl

SPAN = 4096


@triton.jit
def piece_sums(x_ptr, top_ptr, sum_ptr, V, pieces, SPAN: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    piece = tl.program_id(0)
    c = piece * SPAN + tl.arange(0, SPAN)
    v = tl.load(x_ptr + row * V + c, mask=c < V, other=-float("inf")).to(tl.float32)
    top = tl.max(v, axis=0)
    tl.store(top_ptr + row * pieces + piece, top)
    tl.store(sum_ptr + row * pieces + piece, tl.sum(tl.exp(v - top), axis=0))


@triton.jit
def join(x_ptr, t_ptr, top_ptr, sum_ptr, loss_ptr, log_ptr, N, V, pieces, BR: tl.constexpr, BP: tl.constexpr):
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    p = tl.arange(0, BP)
    ok = (row < N)[:, None] & (p < pieces)[None, :]
    at = row[:, None] * pieces + p[None, :]
    tops = tl.load(top_ptr + at, mask=ok, other=-1.0e30)
    sums = tl.load(sum_ptr + at, mask=ok, other=0.0)
    best = tl.max(tops, axis=1)
    total = tl.sum(sums * tl.exp(tops - best[:, None]), axis=1)
    log_sum = best + tl.log(tl.where(row < N, total, 1.0))
    target = tl.load(t_ptr + row, mask=row < N, other=0)
    picked = tl.load(x_ptr + row.to(tl.int64) * V + target, mask=row < N, other=0.0).to(tl.float32)
    tl.store(loss_ptr + row, log_sum - picked, mask=row < N)
    tl.store(log_ptr + row, log_sum, mask=row < N)


@triton.jit
def gradient(x_ptr, t_ptr, g_ptr, log_ptr, grad_ptr, V, SPAN: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * SPAN + tl.arange(0, SPAN)
    v = tl.load(x_ptr + row * V + c, mask=c < V, other=0.0).to(tl.float32)
    p = tl.exp(v - tl.load(log_ptr + row))
    grad = tl.where(c == tl.load(t_ptr + row), p - 1.0, p) * tl.load(g_ptr + row)
    tl.store(grad_ptr + row * V + c, grad.to(grad_ptr.dtype.element_ty), mask=c < V)


def run(logits, targets, loss_grad):
    n, v = logits.shape
    pieces = triton.cdiv(v, SPAN)
    tops = torch.empty((n, pieces), device=logits.device, dtype=torch.float32)
    sums = torch.empty((n, pieces), device=logits.device, dtype=torch.float32)
    losses = torch.empty((n,), device=logits.device, dtype=torch.float32)
    logs = torch.empty((n,), device=logits.device, dtype=torch.float32)
    grad = torch.empty_like(logits)
    wide = triton.next_power_of_2(pieces)
    piece_sums[(pieces, n)](logits, tops, sums, v, pieces, SPAN=SPAN, num_warps=8)
    join[(triton.cdiv(n, 32),)](logits, targets, tops, sums, losses, logs, n, v, pieces, BR=32, BP=wide, num_warps=4)
    gradient[(pieces, n)](logits, targets, loss_grad, logs, grad, v, SPAN=SPAN, num_warps=8)
    return losses, grad
