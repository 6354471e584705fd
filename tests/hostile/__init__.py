"""Kernels that cheat, and honest ones that look alike: cells of Python files, one file per class.

A line `# %% name` begins a cell. Its text begins with a header of comments: `# field: value`. A cell is a whole foreign
file, as its author would send it, so cells repeat each other.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from kbench.harness.kernel.adapters import problem_of
from kbench.schemas import Backend, KernelSource

PROBLEM = "gelu_tanh"
"""What a kernel solves unless its header says otherwise."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One kernel with its header."""

    group: str
    """The name of its file."""
    name: str
    head: dict[str, str]
    kernel: KernelSource

    @property
    def tags(self) -> frozenset[str]:
        """What its header says of it in single words."""
        return frozenset(self.head.get("tags", "").split())


def read_cells(folder: Path) -> Iterator[Cell]:
    """Every kernel of a folder's files."""
    for path in sorted(folder.glob("*.py")):
        for cell in re.split(r"^# %% ", path.read_text(), flags=re.MULTILINE)[1:]:
            name, text = cell.split("\n", 1)
            text = text.rstrip("\n") + "\n"
            lines = itertools.takewhile(lambda line: line.startswith("# "), text.splitlines())
            head = dict(line[2:].split(": ", 1) for line in lines if ": " in line)
            backend = Backend.CUDA if "CudaModule" in text else Backend.TRITON
            kernel = KernelSource(problem_of(text, head.get("problem", PROBLEM)), backend, text)
            yield Cell(path.stem, name, head, kernel)
