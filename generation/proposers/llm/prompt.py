"""What a model is told: the problem, the rules for kernels, the GPU, the parents and how they measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kbench.benchmark.problems.registry import problem
from kbench.generation.search.proposal import Ask, ProposalTask
from kbench.generation.search.state import Node, Operator
from kbench.schemas import Backend

SYSTEM = (
    "You write GPU kernels. Answer with exactly one Python code block that holds the whole kernel file and nothing "
    "else that is code. Correctness is checked on several sizes and seeds before anything is timed; speed is device "
    "time with a cold L2 cache."
)
RULES = {
    Backend.TRITON: (
        "Write Triton: @triton.jit functions launched from run(). Import only torch, triton, triton.language as tl and "
        "math. Use torch only to allocate outputs, to view and to read shapes: the kernel does the computing."
    ),
    Backend.CUDA: (
        "Write CUDA C++ in a raw string, compiled by NVRTC: `from kbench.harness.cuda import CudaModule`, "
        "`module = CudaModule(r'''extern \"C\" __global__ void name(...) { ... }''')` at module level, and in run() "
        '`module.launch("name", grid=..., block=..., args=(...), shared_bytes=...)`. Headers: cuda_fp16.h, '
        "cuda_bf16.h, cuda_fp8.h, mma.h. Import only torch, math and CudaModule. Use torch only to allocate outputs, "
        "to view and to read shapes: the kernel does the computing."
    ),
}
COMMON = (
    "Derive every size from the inputs' shapes, so that it works for sizes other than those listed. Inputs are "
    "contiguous and must not be changed; allocate the outputs; return one tensor, or a tuple in the order listed."
)
LONGEST_ERROR = 1500


def messages(task: ProposalTask, ask: Ask) -> list[dict[str, str]]:
    """The chat messages of one request."""
    parts = [
        "# Problem\n" + problem(task.problem_id).prompt(),
        f"# Rules\n{RULES[task.backend]}\n{COMMON}",
    ]
    facts = device_facts(json.loads(task.gpu_facts_json))
    if facts:
        parts.append("# GPU\n" + facts)
    parts.extend(_kernel(name, node) for name, node in (("Kernel", ask.parent), ("Second kernel", ask.other)) if node)
    parts.append("# Task\n" + _instruction(ask))
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(parts)}]


def _instruction(ask: Ask) -> str:
    if ask.operator is Operator.FRESH or ask.parent is None:
        return "Write the fastest correct kernel you can."
    if ask.operator is Operator.CROSS and ask.other is not None:
        return "Write a kernel that joins the strengths of the two kernels above and is faster than both."
    return (
        "Change the kernel above so that it runs faster and stays correct. Start the reply with one sentence that says "
        "what you change and why."
    )


def device_facts(facts: Mapping[str, Any]) -> str:
    """The GPU in words: what bounds a kernel's speed."""
    wanted = {
        "gpu": "name", "compute_capability": "compute capability", "sm_count": "streaming multiprocessors",
        "l2_bytes": "L2 bytes", "shared_bytes_per_block": "largest shared memory per block, bytes",
        "copy_bandwidth_gbs": "measured copy bandwidth, GB/s", "matmul_peak_tflops": "measured bf16 matmul, TFLOP/s",
    }  # fmt: skip
    return "\n".join(f"{label}: {facts[name]}" for name, label in wanted.items() if facts.get(name) is not None)


def _kernel(name: str, node: Node) -> str:
    return f"# {name}\n```python\n{node.source.rstrip()}\n```\n{feedback(node)}"


def feedback(node: Node) -> str:
    """How a kernel measured, workload by workload, against the reference and the roofline."""
    outcome = node.outcome
    if outcome is None:
        return "It was not measured."
    if outcome.speedup is None:
        return f"It failed: {outcome.status.value}. {(outcome.error or '')[:LONGEST_ERROR]}"
    lines = [f"Measured: {outcome.speedup:.3f} times as fast as PyTorch over all workloads."]
    for figure in outcome.workloads:
        if figure.runtime_us is None or figure.speedup is None:
            continue
        line = f"- {figure.workload}: {figure.runtime_us:.2f} us, {figure.speedup:.3f} times as fast as PyTorch"
        if figure.floor_us:
            line += (
                f", roofline floor {figure.floor_us:.2f} us ({figure.floor_us / figure.runtime_us:.0%} of it reached)"
            )
        lines.append(line)
    return "\n".join(lines)
