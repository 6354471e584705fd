"""What a model is told: the problem, the rules for kernels, the GPU, the parents and how they measured."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.benchmark.problems.registry import problem
from kbench.generation.proposers.llm.strategy import strategy
from kbench.generation.search.proposal import Ask, ProposalTask
from kbench.generation.search.state import KernelOutcome, Node, Operator
from kbench.schemas import Backend

LONGEST_ERROR = 2000
"""Characters of an error text that are shown: its beginning and its end."""
THREADS, BLOCKS, REGISTERS, SHARED_BYTES, RESERVED_BYTES = 2048, 32, 65_536, 233_472, 1024
"""What a multiprocessor of compute capability 9.0 holds, and the shared memory it keeps of each block."""


def messages(task: ProposalTask, ask: Ask) -> list[dict[str, str]]:
    """The chat messages of one request: the first is the same for all requests of a backend."""
    asked = problem(task.problem_id)
    cases = "".join(f"\n- {case.stresses}" for case in asked.cases)
    tiny = "\n".join(f"  in  {text}" for text in asked.workload(asked.tiny).inputs)
    parts = ["# Problem\n" + asked.prompt().rstrip(), f"# Tiny size, checked but not timed\n{tiny}"]
    if cases:
        parts.append(f"# Adversarial inputs{cases}")
    parts.extend(_kernel(name, node) for name, node in (("Kernel", ask.parent), ("Second kernel", ask.other)) if node)
    parts.append(f"# Task\nBackend: {task.backend.value}. {_instruction(ask)}")
    if ask.best_known is not None and ask.best_known.kernel_id not in _shown(ask):
        best = ask.best_known
        parts.append(f"The best kernel known so far reaches {best.speedup:.2f} times PyTorch. Its idea: {best.idea}")
    if ask.operator is not Operator.REPAIR:
        parts.append(
            f"Strategy to try, unless you know why it cannot pay here: {strategy(asked, task.backend, ask.turn)}"
        )
    system = system_text(task.backend, task.gpu_facts_json)
    return [{"role": "system", "content": system}, {"role": "user", "content": "\n\n".join(parts)}]


def _shown(ask: Ask) -> set[str]:
    return {node.kernel_id for node in (ask.parent, ask.other) if node is not None}


def _instruction(ask: Ask) -> str:
    if ask.operator is Operator.FRESH or ask.parent is None:
        return "Write the fastest correct kernel you can."
    if ask.operator is Operator.CROSS and ask.other is not None:
        return "Write a kernel that joins the strengths of the two kernels above and is faster than both."
    if ask.operator is Operator.REPAIR:
        return (
            "The kernel above failed as shown. Find the cause and fix it, and keep the kernel fast: keep its idea "
            "unless the idea is what is wrong. The second line is a comment `# fix: ...` that says what was wrong."
        )
    return (
        "Write a kernel that is faster than the one above and stays correct. Change its structure, not only its "
        "numbers: a near-copy is not measured. The idea line says what changed and why."
    )


def _kernel(name: str, node: Node) -> str:
    return f"# {name}\n```python\n{node.source.rstrip()}\n```\n{feedback(node)}"


def feedback(node: Node) -> str:
    """How a kernel measured, workload by workload, against the reference and the roofline."""
    outcome = node.outcome
    if outcome is None:
        return "It was not measured."
    if outcome.speedup is None:
        return _failure(outcome)
    lines = [f"Measured: {outcome.speedup:.3f} times as fast as PyTorch over all workloads."]
    for figure in outcome.workloads:
        if figure.runtime_us is None or figure.speedup is None:
            continue
        line = f"- {figure.workload}: {figure.runtime_us:.2f} us, PyTorch {figure.runtime_us * figure.speedup:.2f} us"
        if figure.floor_us:
            line += f", roofline {figure.floor_us:.2f} us ({figure.floor_us / figure.runtime_us:.0%} of it reached)"
        lines.append(line)
    return "\n".join(lines + _resources(outcome))


def _resources(outcome: KernelOutcome) -> list[str]:
    """Registers, shared memory and spills, and how much of a multiprocessor they leave room for."""
    if outcome.registers is None:
        return []
    threads = min(THREADS, REGISTERS // max(1, outcome.registers) // 32 * 32)
    parts = [f"{outcome.registers} registers per thread (room for {threads} of {THREADS} threads per multiprocessor)"]
    if outcome.shared_bytes:
        blocks = min(BLOCKS, SHARED_BYTES // (outcome.shared_bytes + RESERVED_BYTES))
        parts.append(f"{outcome.shared_bytes:,} bytes of shared memory per block (room for {blocks} blocks)")
    if outcome.spill_bytes is not None:
        parts.append(f"{outcome.spill_bytes} bytes spilled per thread")
    return ["Largest over its device functions: " + ", ".join(parts) + "."]


def _failure(outcome: KernelOutcome) -> str:
    lines = [f"It failed: {outcome.status.value}."]
    if len({figure.status for figure in outcome.workloads}) > 1:
        lines += [f"- {figure.workload}: {figure.status}" for figure in outcome.workloads]
    if outcome.error:
        lines.append(f"```\n{shortened(outcome.error)}\n```")
    return "\n".join(lines)


def shortened(text: str, longest: int = LONGEST_ERROR) -> str:
    """A text's beginning and end: compilers name the cause first, tracebacks last."""
    text = text.strip()
    if len(text) <= longest:
        return text
    head, tail = text[: longest * 2 // 3], text[-longest // 3 :]
    return f"{head}\n[{len(text) - len(head) - len(tail)} characters left out]\n{tail}"


RULES = Path(__file__).parent
WANTED = {
    "gpu": "name", "compute_capability": "compute capability", "sm_count": "multiprocessors", "l2_bytes": "L2 bytes",
    "shared_bytes_per_block": "largest shared memory per block, bytes",
    "copy_bandwidth_gbs": "measured copy bandwidth, GB/s", "matmul_peak_tflops": "measured bf16 matmul, TFLOP/s",
    "triton": "Triton version", "nvrtc": "NVRTC version",
}  # fmt: skip
"""Facts that a kernel's author is told."""
MEASURED = frozenset({"copy_bandwidth_gbs", "matmul_peak_tflops"})
"""Facts of a GPU that differ a little between machines of its type."""


@functools.cache
def system_text(backend: Backend, gpu_facts_json: str) -> str:
    """The part that all requests of a backend share."""
    parts = [(RULES / name).read_text(encoding="utf-8").rstrip() for name in ("every_kernel.md", f"{backend.value}.md")]
    facts = device_facts(json.loads(gpu_facts_json))
    if facts:
        parts.append("# GPU\n" + facts)
    return "\n\n".join(parts)


def device_facts(facts: Mapping[str, Any]) -> str:
    """The GPU in words: what bounds a kernel's speed. Measured figures have two digits, alike on machines of a type."""
    shown = {name: facts[name] for name in WANTED if facts.get(name) is not None}
    for name in MEASURED & shown.keys():
        shown[name] = two_digits(shown[name])
    return "\n".join(f"{WANTED[name]}: {value}" for name, value in shown.items())


def two_digits(value: float) -> str:
    """A number rounded to two significant digits, written out."""
    return f"{float(f'{value:.1e}'):g}"
