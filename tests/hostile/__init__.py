"""Kernels that cheat, and honest ones that look alike: cells of Python files, one file per class.

A line `# %% name` begins a cell, which becomes a whole foreign file, as its author would send it. Its text begins with
a header of comments: `# field: value`. What cells have in common stands once in parts.txt: a line `#@ name` stands for
the part of that name, and `#@ name: first | second` for the part with these texts where it says `@1@` and `@2@`. The
tag `class-FILE` is the same for all cells of a file and is added when they are read.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from kbench.harness.kernel.adapters import problem_of
from kbench.schemas import Backend, KernelSource

PROBLEM = "gelu_tanh"
"""What a kernel solves unless its header says otherwise."""
PARTS = Path(__file__).parent / "parts.txt"
PART = re.compile(r"^#@ (\w+)(?:: (.*))?\n", re.MULTILINE)


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
        for name, text in texts(path):
            text = with_class(with_parts(text), path.stem)
            lines = itertools.takewhile(lambda line: line.startswith("# "), text.splitlines())
            head = dict(line[2:].split(": ", 1) for line in lines if ": " in line)
            backend = Backend.CUDA if "CudaModule" in text else Backend.TRITON
            kernel = KernelSource(problem_of(text, head.get("problem", PROBLEM)), backend, text)
            yield Cell(path.stem, name, head, kernel)


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """Name and text of every cell of a file, as they are written there."""
    for cell in re.split(r"^# %% ", path.read_text(), flags=re.MULTILINE)[1:]:
        name, text = cell.split("\n", 1)
        yield name, text.rstrip("\n") + "\n"


def with_class(text: str, group: str) -> str:
    """A cheat's text with its class among the tags, in the line after what it does; a control has none."""
    first, rest = text.split("\n", 1)
    if not first.startswith("# cheat: "):
        return text
    more = re.match(r"# tags:( .*)\n", rest)
    return f"{first}\n# tags: class-{group}{more[1] if more else ''}\n{rest[more.end() :] if more else rest}"


def with_parts(text: str) -> str:
    """A text with its parts in place; parts may have parts."""
    while PART.search(text):
        text = PART.sub(lambda found: filled(parts()[found[1]], found[2]), text)
    return text


def filled(part: str, given: str | None) -> str:
    """A part with the texts that it is given."""
    for number, value in enumerate(given.split(" | ") if given else (), start=1):
        part = part.replace(f"@{number}@", value)
    return part


@functools.cache
def parts() -> dict[str, str]:
    """What cells have in common, by name."""
    return dict(texts(PARTS))
