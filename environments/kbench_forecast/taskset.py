"""Questions of kbench as tasks; their measured answers as rewards."""

from __future__ import annotations

import json
from collections.abc import Iterator

import verifiers.v1 as vf
from pydantic import Field

import kbench
from kbench.benchmark import rewards
from kbench.schemas import bins


class ForecastData(vf.TaskData):
    """One question with its measured answer."""

    problem_id: str
    backend: str
    kind: str
    """What the candidate is compared with: edit (its parent), pair (another kernel) or level (the reference)."""
    speedup: float
    bin: int


class ForecastTask(vf.Task[ForecastData]):
    """One turn: the reply states a distribution over bins of the speedup."""

    @vf.reward
    async def rps(self, trace: vf.Trace) -> float:
        """1 less the ranked probability score; 0 without an answer."""
        return rewards.rps([trace.last_reply], bin=[self.data.bin])[0]

    @vf.metric
    async def brier(self, trace: vf.Trace) -> float:
        """1 less half the Brier score; 0 without an answer."""
        return rewards.brier([trace.last_reply], bin=[self.data.bin])[0]

    @vf.metric
    async def crps(self, trace: vf.Trace) -> float:
        """1 less the CRPS in octaves over the range of the bins; 0 without an answer."""
        return rewards.crps([trace.last_reply], speedup=[self.data.speedup])[0]

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Whether certainty of the measured bin earns all there is."""
        answer = json.dumps({"probabilities": {str(number): float(number == self.data.bin) for number in bins.NUMBERS}})
        return rewards.rps([answer], bin=[self.data.bin]) == [1.0]


class ForecastConfig(vf.TasksetConfig):
    """Which questions are asked."""

    split: str = "train"
    problem: list[str] = Field(default_factory=list)
    """Problems to ask about; all by default."""
    backend: list[str] = Field(default_factory=list)
    """triton, cuda or both."""
    gpu: list[str] = Field(default_factory=list)
    """GPUs to ask about; all by default."""
    subset: str | None = None
    """`core` for that part of a dataset's questions."""
    shots: int = 0
    """Most known kernels that a question shows: 0, 2 or 8."""
    corpus: str | None = None
    """A corpus folder or Hub id; the shipped dataset by default."""


class ForecastTaskset(vf.Taskset[ForecastTask, ForecastConfig]):
    """One task per question of the split."""

    def load(self) -> Iterator[ForecastTask]:
        chosen = {name: found for name in ("problem", "backend", "gpu") if (found := getattr(self.config, name))}
        asked = {"subset": self.config.subset, "shots": self.config.shots, "path": self.config.corpus}
        rows = kbench.training_rows("trl-prompt", self.config.split, **asked, **chosen)
        for row in rows:
            system, user = row.prompt
            data = ForecastData(
                id=row.question_id, name=row.problem_id, system_prompt=system.content, prompt=user.content,
                problem_id=row.problem_id, backend=row.backend.value, kind=row.kind.value,
                speedup=row.speedup, bin=row.bin,
            )  # fmt: skip
            yield ForecastTask(data, self.config.task)
