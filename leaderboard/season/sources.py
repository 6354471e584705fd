"""Kernels for a season: read where they were proposed, and refused where somebody may know how fast they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from kbench.benchmark.problems.registry import listed
from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.tasks.build import TRAIN_SPLITS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.kernel_folder import read_folder
from kbench.loaders.source.structure import structure_id
from kbench.loaders.splits.problems import cluster_id
from kbench.schemas import Kernel, UserError, from_dict
from kbench.schemas.ids import kernel_id

UNMEASURED = (
    "gpu", "status", "error", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low",
    "speedup_high", "compile_ms", "registers", "shared_bytes", "spill_bytes", "env_id",
)  # fmt: skip
"""What only a measurement tells of a kernel."""


def from_folder(folder: Path, proposer: str, run: str) -> list[Kernel]:
    """Kernels of files named PROBLEM__BACKEND__NAME.py.

    Args:
        folder: the files.
        proposer: who wrote them.
        run: what their run is called.
    """
    return [
        Kernel(
            kernel_id=kernel_id(file.problem_id, file.backend, file.source), problem_id=file.problem_id,
            family=listed(file.problem_id).family, backend=file.backend, search_method="written", proposer=proposer,
            run_id=run, step=step, parent_id=None, edit=None, structure_id=(shape := structure_id(file.source)),
            cluster_id=cluster_id(shape), split="test", source=file.source, origin="kbench", license="CC-BY-4.0",
            **dict.fromkeys(UNMEASURED),
        )
        for step, file in enumerate(read_folder(folder))
    ]  # fmt: skip


def from_corpus(corpus: Corpus) -> list[Kernel]:
    """Kernels of a corpus, none of which was measured.

    Raises:
        UserError: one was.
    """
    rows = corpus.table("kernels").to_pylist()
    measured = [row["kernel_id"] for row in rows if row["status"] is not None]
    if measured:
        raise UserError(
            f"{len(measured)} of {len(rows)} kernels were measured, {measured[0]} for one; "
            "a season asks about kernels that nobody has measured"
        )
    return [from_dict(Kernel, row | {"gpu": None, "split": "test"}) for row in rows]


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """A kernel that cannot be asked about, and why."""

    kernel: Kernel
    reason: str

    def __str__(self) -> str:
        return f"kernel {self.kernel.kernel_id} of {self.kernel.problem_id} {self.reason}"


def fresh(kernels: Iterable[Kernel], dataset: Tables) -> tuple[list[Kernel], list[Refused]]:
    """Kernels that a season may ask about, each once, and those it may not.

    A kernel is refused when the dataset holds it, or one that is equal but for names and literals, or when a surrogate
    may learn from its problem or from one of the same lineage.
    """
    known = dataset.table("kernels", columns=["kernel_id", "structure_id", "problem_id", "split"]).to_pylist()
    ids, structures = ({row[name] for row in known} for name in ("kernel_id", "structure_id"))
    trained = {row["problem_id"] for row in known if row["split"] in (*TRAIN_SPLITS, "test_near")}
    kept: dict[str, Kernel] = {}
    refused: list[Refused] = []
    for kernel in kernels:
        if kernel.kernel_id in ids:
            refused.append(Refused(kernel, "is in the dataset"))
        elif kernel.structure_id in structures:
            refused.append(Refused(kernel, "is in the dataset but for names and literals"))
        elif kernel.problem_id in trained:
            refused.append(Refused(kernel, "solves a problem that the dataset trains on, or one near to those"))
        else:
            kept.setdefault(kernel.kernel_id, kernel)
    return list(kept.values()), refused


def check_fresh(kept: Sequence[Kernel], refused: Sequence[Refused], skip: bool) -> None:
    """Refuse to open a season of kernels that are known, or of none.

    Raises:
        UserError: a kernel was refused and is not to be skipped, or none is left.
    """
    if refused and not (skip and kept):
        fix = "leave them out with --skip-known" if kept else "propose other kernels"
        raise UserError(f"{len(refused)} of {len(kept) + len(refused)} kernels are known: {refused[0]}; {fix}")
    if not kept:
        raise UserError("there is no kernel to ask about; propose some first")
