"""Bringing existing kernels in: one run for every problem and backend found in a folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from kbench.generation.proposers.folder import FolderProposer, KernelFile, read_folder
from kbench.generation.proposers.proposal import Proposer
from kbench.generation.search.budget import Budget
from kbench.generation.search.methods.method import search_method
from kbench.generation.search.settings import Settings
from kbench.schemas import Backend, UserError

WRITERS = ("llm", "human")


def folder_runs(
    folder: Path, writer: str, method: str = "none", variants: int = 0
) -> tuple[list[Settings], Callable[[Settings], Proposer]]:
    """A run for every problem and backend of a folder, and the proposer of each.

    Args:
        folder: the kernel files.
        writer: who wrote them.
        method: the search that varies them; without variants there is none.
        variants: rewrites measured for each file, on average.

    Raises:
        UserError: the writer is neither llm nor human, a file names an unknown problem, or there is no such search.
    """
    from kbench.benchmark.problems.registry import listed

    if writer not in WRITERS:
        raise UserError(f"proposer is {writer!r}; kernels from a folder are written by one of {', '.join(WRITERS)}")
    chosen = search_method(method).name if variants else "none"
    files: defaultdict[tuple[str, Backend], list[KernelFile]] = defaultdict(list)
    for file in read_folder(folder):
        files[listed(file.problem_id).id, file.backend].append(file)
    runs = [
        Settings(
            problem_id=problem_id, backend=backend, method=chosen, proposer=writer,
            label=folder.name, seeds=len(found), batch=len(found),
            budget=Budget(measurements=(1 + variants) * len(found)),
        )
        for (problem_id, backend), found in files.items()
    ]  # fmt: skip
    return runs, lambda settings: FolderProposer(files[settings.problem_id, settings.backend], writer)
