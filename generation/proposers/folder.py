"""Kernels that already exist as files: a run for every problem and backend found in a folder, and its proposer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kbench.benchmark.problems.registry import listed
from kbench.generation.proposers.rewrite.rewrite import RewriteProposer
from kbench.generation.search.methods.catalogue import WRITTEN, WRITTEN_PREFIX, searchable
from kbench.generation.search.proposal import Answer, Ask, Proposal, ProposalTask, Proposer, Refusal
from kbench.generation.search.settings import Budget, RunSettings, defaults_for
from kbench.loaders.source.kernel_folder import KernelFile, read_folder
from kbench.loaders.source.structure import structure_id
from kbench.schemas import Backend, UserError
from kbench.schemas.ids import kernel_id

WRITERS = ("llm", "human")


class FolderProposer:
    """Hands out the files of one problem and backend, each once; to vary a kernel, it is rewritten."""

    def __init__(self, files: Sequence[KernelFile], name: str) -> None:
        self.name = name
        self._files = list(files)
        self._rewrite = RewriteProposer()

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        """A file that was not proposed before for each fresh ask, an edit of the parent for the others."""
        for ask in asks:
            if ask.parent is None:
                yield self._next(task)
            else:
                yield from self._rewrite.propose(task, [ask])

    def _next(self, task: ProposalTask) -> Answer:
        for file in self._files:
            if not task.seen(kernel_id(task.problem_id, task.backend, file.source)):
                return Proposal(
                    source=file.source, proposer=self.name, niche=structure_id(file.source), recipe={"file": file.name}
                )
        return Refusal(reason="no more files: every file of the folder was proposed", proposer=self.name)


def folder_runs(
    folder: Path, writer: str, method: str = "evolve", variants: int = 0
) -> tuple[list[RunSettings], Callable[[RunSettings], Proposer]]:
    """A run for every problem and backend of a folder, and the proposer of each.

    Args:
        folder: the kernel files.
        writer: llm or human.
        method: the search that varies them, if there are variants.
        variants: rewrites measured for each file, on average.
    """
    if writer not in WRITERS:
        raise UserError(f"proposer is {writer!r}; kernels from a folder are written by one of {', '.join(WRITERS)}")
    chosen = WRITTEN_PREFIX + searchable(method) if variants else WRITTEN.name
    files: defaultdict[tuple[str, Backend], list[KernelFile]] = defaultdict(list)
    for file in read_folder(folder):
        files[listed(file.problem_id).id, file.backend].append(file)
    runs = [
        RunSettings(
            problem_id=problem_id, backend=backend, method=chosen, proposer=writer,
            label=folder.name, seeds=len(own), batch=len(own),
            budget=Budget(measurements=(1 + variants) * len(own)), **defaults_for(writer),
        )
        for (problem_id, backend), own in files.items()
    ]  # fmt: skip
    return runs, lambda settings: FolderProposer(files[settings.problem_id, settings.backend], writer)
