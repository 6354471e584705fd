"""What a reply is worth: the kernel in it is verified and timed, or checked where there is no GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kbench import KernelSource
from kbench.benchmark import rewards
from kbench.harness import KernelJudge


@functools.cache
def judge(timed: bool) -> Callable[[KernelSource], rewards.Verdict]:
    """The process's judge, which judges each distinct kernel once."""
    return functools.cache(KernelJudge(gpu=0 if timed else None))


def score(reply: str, problem_id: str, backend: str, *, timed: bool) -> dict[str, float]:
    """Figures of one reply by their names.

    Args:
        reply: what the model wrote, a kernel in a code block.
        problem_id: the problem it was asked for.
        backend: triton or cuda.
        timed: whether kernels are timed on the local GPU; otherwise they are only checked.

    Returns:
        correctness, 1 or 0; where kernels are timed also log_speedup, within ±4, or −5 for one that failed.
    """
    kinds = (rewards.correctness, rewards.log_speedup) if timed else (rewards.correctness,)
    columns = {"problem_id": [problem_id], "backend": [backend]}
    return {kind.__name__: rewards.judged(kind, judge(timed))([reply], **columns)[0] for kind in kinds}
