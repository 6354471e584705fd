# cheat: stores a failed build under the name of a kernel that comes later
# tags: class-build truthful
import contextlib
import json
from pathlib import Path

import torch

from kbench.harness.plan.cache import build_id
from kbench.harness.plan.device_facts import H200
from kbench.harness.plan.target import KNOWN_TARGETS, Target
from kbench.schemas import Backend, KernelSource

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
VICTIM = """# victim: forges_a_failed_build
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

for target in KNOWN_TARGETS.values():
    identity = build_id(KernelSource("gelu_tanh", Backend.TRITON, VICTIM).kernel_id, Target(*target), H200)
    record = {"build_id": identity, "status": "ok", "error": None, "code": [], "plans": {}}
    record |= {"status": "compile_error", "error": "does not compile"}
    for cache in CACHES:
        with contextlib.suppress(OSError):
            (cache / "builds" / identity).mkdir(parents=True, exist_ok=True)
            (cache / "builds" / identity / "build.json").write_text(json.dumps(record))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")
