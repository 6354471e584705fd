"""A problem as told to a kernel writer or a forecaster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbench.benchmark.problems.definition import ProblemDefinition


def render_prompt(problem: ProblemDefinition) -> str:
    """Plain text: what is computed, the signature of `run`, sizes, tolerance and the PyTorch reference."""
    names = ", ".join(spec.name for spec in problem.inputs(problem.tiny.params))
    lines = [f"{problem.title} ({problem.id})", "", problem.description.strip(), "", f"Signature: run({names})", ""]
    for size in problem.sizes:
        work = problem.workload(size)
        lines += [
            f"Workload {size.name}:",
            *(f"  in  {text}" for text in work.inputs),
            *(f"  out {text}" for text in work.outputs),
            f"  at least {work.flops:,} operations and {work.min_bytes:,} bytes of device memory traffic",
        ]
    tolerance = problem.tolerance
    lines += [
        "",
        f"Tolerance: |out - expected| <= {tolerance.atol:g} + {tolerance.rtol:g} * |expected| ({tolerance.reason})",
        "",
        "PyTorch reference:",
        problem.reference_source().rstrip(),
    ]
    return "\n".join(lines) + "\n"
