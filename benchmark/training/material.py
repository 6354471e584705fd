"""What every training format is made from: the kernels of one split, their problems, and how both are told."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.tasks.build import problems_of
from kbench.benchmark.training.rows import Message
from kbench.loaders.source.stripped import stripped
from kbench.schemas import Backend, UserError

Row = Mapping[str, Any]

WRITE_SYSTEM = (
    "You write GPU kernels that are correct first and as fast as the hardware allows. You answer with exactly one "
    "Python code block: the whole kernel file. It defines run with the inputs in the order given and returns the "
    "outputs."
)
HOW = {
    Backend.TRITON: "Write it in Triton: @triton.jit functions that run() launches.",
    Backend.CUDA: "Write it in CUDA C++: a raw string compiled by kbench.harness.cuda.CudaModule, launched from run().",
}


@dataclasses.dataclass(frozen=True)
class Material:
    """The measured kernels that an export may show: those of one split that match the filters."""

    corpus: Tables
    """A corpus as a version of the benchmark splits it."""
    split: str
    filters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further conditions on kernels, as `kbench.load` takes them."""
    comments: bool = False
    """Whether sources keep their comments; queries never show them."""
    best: int = 4
    """Most kernels that `sft` takes for a problem, backend and GPU."""

    @functools.cached_property
    def problems(self) -> Mapping[str, Row]:
        """The corpus's problems, or the registry's when it brings none."""
        return problems_of(self.corpus)

    @functools.cached_property
    def kernels(self) -> Mapping[tuple[str, str], Row]:
        """Rows by kernel and GPU, in the corpus's order. Kernels of undescribed problems have no prompt and stay out.

        Raises:
            UserError: nothing is left.
        """
        table = self.corpus.table("kernels", split=self.split, **self.filters)
        rows = {
            (row["kernel_id"], row["gpu"]): row
            for row in table.to_pylist()
            if row["status"] and row["gpu"] and row["backend"] in HOW and row["problem_id"] in self.problems
        }
        if not rows:
            raise UserError(f"split {self.split!r} holds no measured kernel that matches; choose other filters")
        return rows

    def correct(self) -> Iterator[Row]:
        """The kernels with a measured speedup."""
        return (row for row in self.kernels.values() if row["speedup"] is not None)

    def source(self, row: Row) -> str:
        """A kernel's text as queries show it, or as written when comments are kept."""
        return str(row["source"]) if self.comments else stripped(row["source"])

    def answer(self, row: Row) -> tuple[Message, ...]:
        """A kernel as what a model would have answered."""
        return (Message(role="assistant", content=f"```python\n{self.source(row).strip()}\n```"),)

    def where(self, row: Row) -> dict[str, Any]:
        """The columns that say where a row belongs."""
        return {name: row[name] for name in ("problem_id", "family", "gpu")} | {
            "backend": Backend(row["backend"]),
            "split": self.split,
        }

    def task(self, row: Row) -> dict[str, Any]:
        """The same columns with the prompt that asks for a kernel of the row's problem, backend and GPU."""
        return {"prompt": self._write_prompt(row["problem_id"], row["backend"], row["gpu"]), **self.where(row)}

    def _write_prompt(self, problem_id: str, backend: str, gpu: str) -> tuple[Message, ...]:
        text = self.problems[problem_id]["prompt"].strip()
        user = f"# Problem\n{text}\n\n# Task\nWrite the fastest correct kernel you can for one {gpu}. "
        return (
            Message(role="system", content=WRITE_SYSTEM),
            Message(role="user", content=user + HOW[Backend(backend)]),
        )
