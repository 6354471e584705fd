"""Ledger: what an assembled corpus holds and what it cost, where only the logs know it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.generation.assembly.gather import Gathered, Measured
from kbench.schemas import Kernel, Status


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Counts and costs of an assembled corpus; `kbench data info` shows what its tables say."""

    runs: int
    problems: int
    kernels: int
    """Distinct ones, on however many GPUs they were measured."""
    ok: int
    """Those that are correct on the GPU of the logs."""
    by_gpu: Mapping[str, int]
    """Rows."""
    questions: int
    gpu_seconds: float
    """Verifying and timing, on other GPUs too."""
    build_cpu_seconds: float
    tokens: int
    by_model: Mapping[str, int]
    """Replies of language models, those without a kernel included."""
    characters: int
    """Length of requests and replies whose tokens nobody counted."""
    answered: tuple[str, ...]
    """Days on which models answered, where the replies say so."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)

    def text(self) -> str:
        """The ledger as lines of text."""
        rows = ", ".join(f"{gpu} {count}" for gpu, count in self.by_gpu.items())
        lines = [
            f"{self.kernels} kernels ({self.ok} ok) of {self.problems} problems from {self.runs} runs, "
            f"{self.questions} questions",
            f"rows: {rows}",
            f"{self.gpu_seconds:.1f} GPU seconds, {self.build_cpu_seconds:.1f} CPU seconds of building, "
            f"{self.tokens} tokens",
        ]
        if self.by_model:
            models = ", ".join(f"{name} {count}" for name, count in self.by_model.items())
            days = f", {self.answered[0]} to {self.answered[-1]}" if self.answered else ""
            lines.append(f"replies: {models}; {self.characters} characters beside the tokens{days}")
        return "\n".join(lines)


def ledger_of(gathered: Gathered, moved: Sequence[Measured], rows: Sequence[Kernel], questions: int) -> Ledger:
    """The ledger of a corpus.

    Args:
        gathered: the runs, whose kernels begin the rows.
        moved: kernels of theirs measured on other GPUs, which cost GPU time as well.
        rows: the rows of the corpus.
        questions: how many questions it has.
    """
    logged = rows[: len(gathered.kernels)]
    measurements = [one for row in (*gathered.kernels, *moved) for one in row.measurements]
    moved_build = [one.build_s or 0.0 for row in moved for one in row.measurements]
    proposals = [event for event in gathered.events if event.kind in ("candidate_proposed", "proposal_failed")]
    recipes = [json.loads(event.payload_json).get("recipe") or {} for event in proposals]
    replies = [recipe for recipe in recipes if "model" in recipe]
    return Ledger(
        runs=len(gathered.states),
        problems=len({row.problem_id for row in logged}),
        kernels=len(logged),
        ok=sum(row.status is Status.OK for row in logged),
        by_gpu=dict(Counter(str(row.gpu) for row in rows).most_common()),
        questions=questions,
        gpu_seconds=math.fsum((one.verify_s or 0.0) + (one.time_s or 0.0) for one in measurements),
        build_cpu_seconds=math.fsum((*(state.charge.build_seconds for state in gathered.states), *moved_build)),
        tokens=sum(state.charge.tokens for state in gathered.states),
        by_model=dict(Counter(reply["model"] for reply in replies).most_common()),
        characters=sum(one.get("input_characters", 0) + one.get("output_characters", 0) for one in replies),
        answered=tuple(sorted({one["date"][:10] for one in replies if "date" in one})),
    )
