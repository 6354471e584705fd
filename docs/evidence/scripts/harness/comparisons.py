"""Comparisons: a kernel against itself, and against itself slowed by 3 %. Usage: comparisons.py OUT

Writes comparisons.json. The slow twin processes 3 % more elements: it re-reads the first elements and writes their
results to a scratch buffer, in the same launch.
"""

from __future__ import annotations

from collections import Counter

from pool import DRY, choose_problems, kernels, make_harness, out_folder, pool, say, write

from kbench.benchmark.problems import problem
from kbench.harness.commands.compare import judge
from kbench.schemas import Backend, KernelSource, to_dict

SELF_TRIALS = 500
SLOW_TRIALS = 200
THRESHOLD = 0.01
GELU = r'''
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void gelu(const float* x, float* y, float* scratch, long long n, long long total) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= total) return;
    long long at = i < n ? i : i - n;
    float v = x[at];
    float u = 0.7978845608028654f * (v + 0.044715f * v * v * v);
    float out = 0.5f * v * (1.0f + tanhf(u));
    if (i < n) y[at] = out; else scratch[at] = out;
}
""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    total = n + n * EXTRA // 1000
    scratch = torch.empty(max(1, total - n), device=x.device, dtype=x.dtype)
    module.launch("gelu", grid=(total + 255) // 256, block=256, args=(x, y, scratch, n, total))
    return y
'''


def gelu(extra_per_mille: int) -> KernelSource:
    return KernelSource("gelu_tanh", Backend.CUDA, GELU.replace("EXTRA", str(extra_per_mille)))


def main() -> None:
    folder = out_folder()
    own = pool()[:2] if DRY else [gelu(0)]
    for name in choose_problems(0 if DRY else 8):
        for backend in (Backend.TRITON, Backend.CUDA):
            own += kernels(name, backend, 2, seed=1)
    with make_harness() as harness:
        right = {m.kernel_id for m in harness.measure(own) if m.status == "ok"}
        honest = [k for k in own if k.kernel_id in right][:20]
        honest.sort(key=lambda k: k.problem_id)
        # A trial is a comparison on one workload; a kernel's comparison has one for each of its problem's.
        each = 1 if DRY else -(-SELF_TRIALS // sum(len(problem(k.problem_id).sizes) for k in honest))
        pairs = [(k, k) for k in honest for _ in range(each)]
        selves = [c for outcome in harness.duels(pairs, THRESHOLD) for c in judge(outcome, THRESHOLD)]
        say(f"{len(selves)} with themselves: {dict(Counter(c.verdict.value for c in selves))}")
        environment = to_dict(harness.environment())
    only_large = {} if DRY else {"workloads": ("large",)}
    with make_harness(**only_large) as harness:
        slow = [(honest[0], honest[1])] * 2 if DRY else [(gelu(0), gelu(30))] * SLOW_TRIALS
        slows = [c for outcome in harness.duels(slow, THRESHOLD) for c in judge(outcome, THRESHOLD)]
        say(f"{len(slows)} with a slower twin: {dict(Counter(c.verdict.value for c in slows))}")
    result = {
        "environment": environment,
        "threshold": THRESHOLD,
        "self": {"kernels": len(honest), "verdicts": Counter(c.verdict.value for c in selves)},
        "slowed_3_percent": {"verdicts": Counter(c.verdict.value for c in slows)},
        "self_rows": [c.to_dict() for c in selves],
        "slowed_rows": [c.to_dict() for c in slows],
    }
    write(folder, "comparisons.json", result)


if __name__ == "__main__":
    main()
