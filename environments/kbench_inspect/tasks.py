"""Tasks of inspect_ai: forecast the speedup of kernels, and write kernels."""

from __future__ import annotations

import asyncio
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate

import kbench
from kbench.benchmark import rewards

FIGURES = [mean(), stderr()]


@task
def forecast(  # type: ignore[no-untyped-def]
    split: str = "test",
    problem: str | None = None,
    backend: str | None = None,
    gpu: str | None = None,
    subset: str | None = None,
    shots: int = 0,
    corpus: str | None = None,
):
    """How likely each speedup of one kernel over another is; the answers were measured."""
    rows = _samples("forecast", split, corpus, {"problem": problem, "backend": backend, "gpu": gpu}, subset, shots)
    return Task(dataset=rows, solver=generate(), scorer=distribution())


@task
def write(  # type: ignore[no-untyped-def]
    split: str = "test",
    problem: str | None = None,
    backend: str | None = None,
    corpus: str | None = None,
    timed: bool = True,
):
    """Kernels, verified and timed on the local GPU, or only checked where `timed` is false."""
    rows = _samples("write", split, corpus, {"problem": problem, "backend": backend})
    return Task(dataset=rows, solver=generate(), scorer=kernel(timed))


def _samples(
    kind: str, split: str, corpus: str | None, filters: dict[str, str | None], subset: str | None = None, shots: int = 0
) -> MemoryDataset:
    chosen = {name: value for name, value in filters.items() if value is not None}
    found = []
    for row in kbench.training_rows("trl-prompt", split, path=corpus, task=kind, subset=subset, shots=shots, **chosen):
        system, user = (message.content for message in row.prompt)
        facts = {"problem_id": row.problem_id, "backend": row.backend.value, "gpu": row.gpu}
        if kind == "forecast":
            facts |= {"speedup": row.speedup, "bin": row.bin, "kind": row.kind.value}
        asked = [ChatMessageSystem(content=system), ChatMessageUser(content=user)]
        found.append(Sample(input=asked, target=str(facts.get("bin", "")), metadata=facts))
    return MemoryDataset(found, name=f"kbench-{kind}-{split}")


def _values(state: TaskState, kinds: list[rewards.Reward]) -> dict[str, Any]:
    columns = {name: [value] for name, value in state.metadata.items()}
    return {kind.__name__: kind([state.output.completion], **columns)[0] for kind in kinds}


@scorer(metrics=dict.fromkeys(("rps", "brier", "crps"), FIGURES))
def distribution() -> Scorer:
    """The rewards of a stated distribution; 0 without one."""

    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=_values(state, [rewards.rps, rewards.brier, rewards.crps]), answer=state.output.completion)

    return score


@scorer(metrics={"*": FIGURES})
def kernel(timed: bool) -> Scorer:
    """Correctness of the kernel in a reply, and log2 of its speedup where kernels are timed."""

    async def score(state: TaskState, target: Target) -> Score:
        # The harness needs torch; forecasts do not, and inspect_ai imports this module for both.
        from kbench_write.scoring import judge

        kinds = [rewards.correctness, *([rewards.log_speedup] if timed else [])]
        judged = [rewards.judged(kind, judge(timed)) for kind in kinds]
        return Score(value=await asyncio.to_thread(_values, state, judged), answer=state.output.completion)

    return score
