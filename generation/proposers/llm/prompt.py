"""What a model is told: the problem and its limits, the parents and how they measured, and what was tried before.

A strategy is the direction a request suggests. They rotate, so that the searches of a cell do not all try one thing.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.registry import problem
from kbench.generation.search.proposal import Ask, ProposalTask
from kbench.generation.search.state import BestReference, KernelOutcome, Node, Operator, WorkloadFigure
from kbench.harness.device.floor import Ceilings, floor_us
from kbench.schemas import Backend

LONGEST_ERROR = 2000
"""Characters of an error text that are shown: its beginning and its end."""
LONGEST_USER_TEXT = 15_000
"""Characters of a request beside the system text, about 4,300 tokens; a second kernel is cut to fit."""
SHORTEST_OTHER = 2500
"""Characters of a second kernel that are shown in any case."""
MOST_LISTED = 6
"""Kernels of a list: the latest ancestors and children, the first of the archive."""
THREADS, BLOCKS, REGISTERS, SHARED_BYTES, RESERVED_BYTES = 2048, 32, 65_536, 233_472, 1024
"""What a multiprocessor of compute capability 9.0 holds, and the shared memory it keeps of each block."""


def messages(task: ProposalTask, ask: Ask) -> list[dict[str, str]]:
    """The chat messages of one request: the first is the same for all requests of a backend."""
    definition = problem(task.problem_id)
    tiny = "\n".join(f"  in  {text}" for text in definition.workload(definition.tiny).inputs)
    parts = [
        "# Problem\n" + definition.prompt().rstrip(),
        f"# Tiny size, checked but not timed\n{tiny}",
        listed("Adversarial inputs", [case.stresses for case in definition.cases]),
        listed("Limits", limits(definition, json.loads(task.gpu_facts_json), ask.references)),
    ]
    if ask.parent is not None:
        parts.append(_kernel("Kernel", ask.parent, ask.references))
        parts.append(
            listed("How it came about, oldest first", [summary(node) for node in ask.ancestors[-MOST_LISTED:]])
        )
        parts.append(
            listed("Already tried on it: do something else", [summary(node) for node in ask.tried[-MOST_LISTED:]])
        )
    task_text = _task(definition, task.backend, ask)
    if ask.other is not None:
        left = LONGEST_USER_TEXT - sum(map(len, parts)) - len(task_text)
        parts.append(_kernel("Second kernel", ask.other, ask.references, max(SHORTEST_OTHER, left)))
    user = "\n\n".join(part for part in (*parts, task_text) if part)
    system = system_text(task.backend, task.gpu_facts_json)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def listed(title: str, lines: Sequence[str]) -> str:
    """A part with a line for each item, or nothing where there are none."""
    return "\n- ".join([f"# {title}", *lines]) if lines else ""


def limits(
    definition: ProblemDefinition, facts: Mapping[str, Any], references: Mapping[str, BestReference]
) -> list[str]:
    """What bounds each workload: the roofline of this GPU, and the fastest known way to do it without a kernel."""
    measured = ("copy_bandwidth_gbs", "matmul_peak_tflops", "l2_bytes")
    ceilings = None
    if all(facts.get(name) for name in measured):
        bandwidth, peak, l2_bytes = (facts[name] for name in measured)
        ceilings = Ceilings(float(two_digits(bandwidth)), 0.0, float(two_digits(peak)), 0.0, l2_bytes)
    lines = []
    for size in definition.sizes:
        bounds = [f"no kernel below {floor_us(definition, size, ceilings):.3g} us on this GPU"] if ceilings else []
        if reference := references.get(size.name):
            bounds.append(f"best reference {reference.runtime_us:.4g} us ({reference.name})")
        if bounds:
            lines.append(f"{size.name}: {', '.join(bounds)}")
    return lines


def _task(definition: ProblemDefinition, backend: Backend, ask: Ask) -> str:
    """What to write, and what the best other kernels of the search do."""
    shown = {node.kernel_id for node in (ask.parent, ask.other) if node is not None}
    others = [node for node in ask.archive if node.kernel_id not in shown]
    parts = []
    if ask.operator is not Operator.REPAIR:
        parts.append(
            listed("Other ideas of this search, fastest first", [summary(node) for node in others[:MOST_LISTED]])
        )
    parts.append(f"# Task\nBackend: {backend.value}. {_instruction(ask)}")
    best = ask.best_known
    if best is not None and best.kernel_id not in shown | {node.kernel_id for node in others}:
        parts.append(f"The best kernel known so far reaches {best.speedup:.2f} times PyTorch. Its idea: {best.idea}")
    # Every second change follows the measurements alone, so that good kernels are also refined.
    if ask.operator is Operator.FRESH or (ask.operator is Operator.MUTATE and ask.turn % 2 == 0):
        texts, turn = strategies(definition, backend), ask.turn // 2 if ask.parent else ask.turn
        parts.append(f"Strategy to try, unless you know why it cannot pay here: {texts[turn % len(texts)]}")
    return "\n\n".join(part for part in parts if part)


def _instruction(ask: Ask) -> str:
    if ask.operator is Operator.FRESH or ask.parent is None:
        return "Write the fastest correct kernel you can" + (
            ", by another idea than those above." if ask.archive else "."
        )
    if ask.operator is Operator.CROSS and ask.other is not None:
        return (
            "Write one kernel that joins what makes each of the two kernels above fast, and is faster than both. The "
            "note says which idea comes from which."
        )
    if ask.operator is Operator.REPAIR:
        return (
            "The kernel above failed as shown. Find the cause and fix it, and keep the kernel fast: keep its idea "
            "unless the idea is what is wrong. The note says what was wrong."
        )
    return (
        f"Write a kernel that is faster than the one above and stays correct. {_bottleneck(ask.parent)}Change its "
        "structure, not only its numbers: a near-copy is not measured. The note says what changed and why."
    )


def _bottleneck(node: Node) -> str:
    """Which workload is furthest from its limit."""
    shares = {
        figure.workload: figure.floor_us / figure.runtime_us
        for figure in (node.outcome.workloads if node.outcome else ())
        if figure.floor_us and figure.runtime_us
    }
    if len(shares) < 2:
        return "Ask what it waits for, and remove that. "
    return (
        f"It is furthest from the limit on {min(shares, key=lambda name: shares[name])}: ask what it waits for there. "
    )


def summary(node: Node) -> str:
    """A kernel in one line: how it measured, and what its author said of it."""
    outcome = node.outcome
    measured = "not measured" if outcome is None else f"failed, {outcome.status.value}"
    speed = f"{node.reward:.3g} times PyTorch" if node.reward is not None else measured
    return f"{speed}: {node.note or 'no note'}"


def _kernel(name: str, node: Node, references: Mapping[str, BestReference], longest: int = LONGEST_USER_TEXT) -> str:
    source = shortened(node.source, longest)
    return f"# {name}\n```python\n{source.rstrip()}\n```\n{feedback(node, references)}"


def feedback(node: Node, references: Mapping[str, BestReference]) -> str:
    """How a kernel measured, workload by workload, against the references and the roofline."""
    outcome = node.outcome
    if outcome is None:
        return "It was not measured."
    if outcome.speedup is None:
        return _failure(outcome)
    lines = [f"Measured: {outcome.speedup:.3f} times as fast as PyTorch over all workloads."]
    lines += [f"- {line}" for figure in outcome.workloads if (line := _figure(figure, references))]
    return "\n".join(lines + _resources(outcome))


def _figure(figure: WorkloadFigure, references: Mapping[str, BestReference]) -> str | None:
    if figure.runtime_us is None or figure.speedup is None:
        return None
    line = f"{figure.workload}: {figure.runtime_us:.2f} us, PyTorch {figure.runtime_us * figure.speedup:.2f} us"
    if reference := references.get(figure.workload):
        line += f", {reference.runtime_us / figure.runtime_us:.2f} times the best reference"
    if figure.floor_us:
        line += f", limit {figure.floor_us:.2f} us ({figure.floor_us / figure.runtime_us:.0%} of it reached)"
    return line


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
STRATEGIES = tomllib.loads((RULES / "strategies.toml").read_text(encoding="utf-8"))
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


MATRIX_FAMILIES = frozenset(
    {"matmul", "fused_matmul", "quantized_matmul", "convolution", "transposed_convolution", "fused_convolution",
     "gpu_mode", "attention", "scientific"}
)  # fmt: skip
"""Families whose problems are matrix products, or can be written as such."""
COMPUTE_BOUND = 8.0
"""Operations per byte from which a problem of these families is worth tensor cores."""
ELEMENTWISE = frozenset({"activation", "fused_elementwise", "indexing"})
REDUCING = ("More parallelism", "Another algorithm")
"""How the strategies begin that make no sense where every output depends on its own inputs alone."""


def strategies(problem: ProblemDefinition, backend: Backend) -> tuple[str, ...]:
    """What may be tried on a problem, in the order of rotation."""
    products = problem.family in MATRIX_FAMILIES and max(
        work.flops / work.min_bytes for work in map(problem.workload, problem.sizes)
    ) >= COMPUTE_BOUND  # fmt: skip
    texts = tuple(STRATEGIES["products" if products else "streaming"][backend.value])
    if problem.family in ELEMENTWISE:
        return tuple(text for text in texts if not text.startswith(REDUCING))
    return texts
