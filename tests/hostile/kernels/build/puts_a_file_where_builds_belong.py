# cheat: replaces the folder of builds by a file, so that nothing can be stored any more
# tags: class-build truthful
import contextlib
import shutil
from pathlib import Path

import torch

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
VICTIM = """# victim: puts_a_file_where_builds_belong
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
"""

for cache in CACHES:
    with contextlib.suppress(OSError):
        shutil.rmtree(cache / "builds")
        (cache / "builds").write_text("")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")
