import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "rowwise/cross_entropy/templates/cuda.cu" %%>
""")


def run(logits, targets, loss_grad):
    rows, vocab = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    sums = torch.empty(rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty_like(logits)
%% if method == "split"
    parts = torch.empty((rows, ${split}, 2), dtype=torch.float32, device=logits.device)
    share = (vocab + ${8 * split - 1}) // ${8 * split} * 8
    grid = (rows, ${split})
%% else
    parts, share = sums, vocab
    grid = ${"min(rows, 132 * %d)" % split if walk == "persistent" else "rows"}
%% endif
    args = (logits, targets, loss_grad, losses, grad, sums, parts, rows, vocab, share)
    module.launch("loss", grid=grid, block=${threads}, args=args)
%% if method == "split"
    args = (logits, targets, parts, losses, sums, rows, vocab)
    module.launch("finish", grid=(rows + 127) // 128, block=128, args=args)
%% endif
%% if method != "fused"
    args = (logits, targets, loss_grad, sums, grad, vocab)
    module.launch("gradient", grid=(rows, ${split}), block=${threads}, args=args)
%% endif
    return losses, grad
