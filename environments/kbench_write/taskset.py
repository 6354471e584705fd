"""Problems of kbench as tasks: the reply is a kernel, its speedup over PyTorch the reward."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import verifiers.v1 as vf
from pydantic import Field

import kbench
from kbench.schemas.ids import content_hash
from kbench_write.scoring import score


class WriteData(vf.TaskData):
    """One problem in one backend."""

    problem_id: str
    backend: str
    gpu: str
    """The GPU the prompt names, on which the dataset's kernels were measured."""
    best_speedup: float
    """Of the dataset's kernels of the split; a yardstick that the prompt does not show."""


class WriteTaskConfig(vf.TaskConfig):
    """How replies are judged."""

    timed: bool = True
    """Verify and time on the local GPU; otherwise check without one, and reward correctness alone."""


class WriteTask(vf.Task[WriteData, vf.State, WriteTaskConfig]):
    """One turn: the reply holds one kernel."""

    known_answer: str | None = None
    """The dataset's best kernel as a reply; kept out of the data, which traces record."""

    async def _scores(self, reply: str) -> dict[str, float]:
        where = self.data.problem_id, self.data.backend
        return await asyncio.to_thread(score, reply, *where, timed=self.config.timed)

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """log2 of the speedup, −5 for a failed kernel; where nothing is timed 1 for a correct one and 0 else."""
        found = await self._scores(trace.last_reply)
        return found.get("log_speedup", found["correctness"])

    @vf.metric
    async def correctness(self, trace: vf.Trace) -> float:
        """1 for a kernel that compiles, runs and is correct."""
        return (await self._scores(trace.last_reply))["correctness"]

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """Whether the dataset's best kernel is correct here too."""
        if self.known_answer is None:
            return None
        return (await self._scores(self.known_answer))["correctness"] == 1.0


class WriteConfig(vf.TasksetConfig):
    """Which problems are asked."""

    split: str = "train"
    problem: list[str] = Field(default_factory=list)
    """Problems to ask about; all by default."""
    backend: list[str] = Field(default_factory=list)
    """triton, cuda or both."""
    corpus: str | None = None
    """A corpus folder or Hub id; the shipped dataset by default."""
    task: WriteTaskConfig = WriteTaskConfig()


class WriteTaskset(vf.Taskset[WriteTask, WriteConfig]):
    """One task per problem and backend that a kernel of the split solves."""

    def load(self) -> Iterator[WriteTask]:
        chosen = {name: found for name in ("problem", "backend") if (found := getattr(self.config, name))}
        rows = kbench.training_rows("sft", self.config.split, path=self.config.corpus, best=1, **chosen)
        # Rows come problem by problem; the first few tasks are to be a sample.
        for row in sorted(rows, key=lambda row: content_hash("cell", row.problem_id, row.backend.value, row.gpu)):
            system, user = row.prompt
            data = WriteData(
                name=f"{row.problem_id}-{row.backend.value}", system_prompt=system.content, prompt=user.content,
                problem_id=row.problem_id, backend=row.backend.value, gpu=row.gpu, best_speedup=row.speedup,
            )  # fmt: skip
            task = WriteTask(data, self.config.task)
            task.known_answer = row.completion[0].content
            yield task
