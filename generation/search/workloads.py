"""How many measurements complete a kernel of a problem."""

from __future__ import annotations

import functools


@functools.cache
def workload_count(problem_id: str) -> int:
    """Number of timed workloads."""
    from kbench.benchmark.problems.registry import problem

    return len(problem(problem_id).sizes)
