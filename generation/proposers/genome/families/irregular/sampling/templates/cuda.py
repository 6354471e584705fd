import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "irregular/sampling/templates/cuda.cu" %%>
""")


def run(logits, noise, temperature):
    rows, vocab = logits.shape
    tokens = torch.empty(rows, dtype=torch.int32, device=logits.device)
    logs = torch.empty(rows, dtype=torch.float32, device=logits.device)
    inverse = 1.0 / temperature
    parts = torch.empty((rows, ${split}, 4), dtype=torch.float32, device=logits.device)
    share = (vocab + ${4 * split - 1}) // ${4 * split} * 4
    args = (logits, noise, parts, tokens, logs, vocab, share, inverse)
    module.launch("sample", grid=(rows, ${split}), block=${threads}, args=args)
%% if split > 1
    args = (logits, parts, tokens, logs, rows, vocab, inverse)
    module.launch("finish", grid=(rows + 63) // 64, block=64, args=args)
%% endif
    return tokens, logs
