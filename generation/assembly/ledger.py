"""Ledger: what a corpus cost to make, computed from its logs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbench.generation.assembly.gather import Gathered, Measured
from kbench.harness.record import aggregate
from kbench.schemas import Event, Kernel, Status


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Counts and costs of an assembled corpus."""

    runs: int
    kernels: int
    ok: int
    pairs: int
    problems: int
    by_method: Mapping[str, int]
    by_backend: Mapping[str, int]
    by_proposer: Mapping[str, int]
    by_status: Mapping[str, int]
    by_split: Mapping[str, int]
    by_gpu: Mapping[str, int]
    """Rows, with those of kernels measured on several GPUs."""
    verify_gpu_seconds: float
    time_gpu_seconds: float
    build_cpu_seconds: float
    tokens: int
    answers: int
    """Replies of language models, those without a kernel included."""
    characters: int
    """Length of requests and replies whose tokens nobody counted."""
    by_model: Mapping[str, int]
    """Replies by model."""
    answered: tuple[str, ...]
    """Days on which models answered, where the replies say so."""

    @property
    def kernels_per_gpu_hour(self) -> float:
        """Distinct kernels per hour of GPU time."""
        spent = self.verify_gpu_seconds + self.time_gpu_seconds
        return 3600 * self.kernels / spent if spent else math.nan

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        rate = self.kernels_per_gpu_hour
        return dataclasses.asdict(self) | {"kernels_per_gpu_hour": None if math.isnan(rate) else rate}

    def text(self) -> str:
        """The ledger as lines of text."""
        shares = "\n".join(
            f"{name:10} " + ", ".join(f"{key} {n} ({n / sum(counts.values()):.0%})" for key, n in counts.items())
            for name, counts in (
                ("method", self.by_method), ("backend", self.by_backend), ("proposer", self.by_proposer),
                ("status", self.by_status), ("split", self.by_split), ("GPU", self.by_gpu),
            )
        )  # fmt: skip
        return (
            f"{self.kernels} kernels ({self.ok} ok) of {self.problems} problems from {self.runs} runs, "
            f"{self.pairs} pairs\n"
            f"{shares}\n"
            f"GPU seconds: verify {self.verify_gpu_seconds:.1f}, time {self.time_gpu_seconds:.1f}; "
            f"build {self.build_cpu_seconds:.1f} CPU seconds; {self.tokens} tokens; "
            f"{self.kernels_per_gpu_hour:.0f} kernels per GPU-hour" + self._replies()
        )

    def _replies(self) -> str:
        if not self.answers:
            return ""
        models = ", ".join(f"{name} {count}" for name, count in self.by_model.items())
        days = f", {self.answered[0]} to {self.answered[-1]}" if self.answered else ""
        return f"\nreplies: {models}; {self.characters} characters beside the tokens{days}"


def ledger_of(gathered: Gathered, moved: Sequence[Measured], rows: Sequence[Kernel], pairs: int) -> Ledger:
    """The ledger of a corpus.

    Args:
        gathered: the runs, whose kernels begin the rows.
        moved: kernels of theirs measured on other GPUs, which cost GPU time as well.
        rows: the rows of the corpus.
        pairs: how many pairs it has.
    """
    kernels = gathered.kernels
    replies = list(_replies(gathered.events))
    measurements = [one for row in (*kernels, *moved) for one in row.measurements]
    statuses = Counter(aggregate(row.measurements).status for row in kernels)
    return Ledger(
        runs=len(gathered.states),
        kernels=len(kernels),
        ok=statuses[Status.OK],
        pairs=pairs,
        problems=len({row.settings.problem_id for row in kernels}),
        by_method=_counted(kernels, lambda row: row.search_method),
        by_backend=_counted(kernels, lambda row: row.settings.backend.value),
        by_proposer=_counted(kernels, lambda row: row.node.proposer),
        by_status={status.value: count for status, count in statuses.most_common()},
        by_split=dict(Counter(row.split for row in rows[: len(kernels)]).most_common()),
        by_gpu=dict(Counter(str(row.gpu) for row in rows).most_common()),
        verify_gpu_seconds=math.fsum(one.verify_s or 0.0 for one in measurements),
        time_gpu_seconds=math.fsum(one.time_s or 0.0 for one in measurements),
        build_cpu_seconds=math.fsum(
            (
                *(state.charge.build_seconds for state in gathered.states),
                *(one.build_s or 0.0 for row in moved for one in row.measurements),
            )
        ),
        tokens=sum(state.charge.tokens for state in gathered.states),
        answers=len(replies),
        characters=sum(one.get("input_characters", 0) + one.get("output_characters", 0) for one in replies),
        by_model=dict(Counter(one["model"] for one in replies).most_common()),
        answered=tuple(sorted({one["date"][:10] for one in replies if "date" in one})),
    )


def _replies(events: Sequence[Event]) -> Iterator[Mapping[str, Any]]:
    """What the log says of each reply of a language model."""
    for event in events:
        if event.kind in ("candidate_proposed", "proposal_failed"):
            recipe = json.loads(event.payload_json).get("recipe") or {}
            if "model" in recipe:
                yield recipe


def _counted(rows: Sequence[Measured], key: Any) -> dict[str, int]:
    return dict(Counter(key(row) for row in rows).most_common())
