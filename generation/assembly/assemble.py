"""Assemble: run logs become a corpus folder. Deterministic: the same logs give the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kbench.benchmark.problems.registry import known, users
from kbench.generation.assembly.gather import gather
from kbench.generation.assembly.kernels import kernel_rows, orphans
from kbench.generation.assembly.ledger import Ledger, ledger_of
from kbench.generation.assembly.other_gpus import measured_elsewhere, rows_elsewhere
from kbench.generation.assembly.pairs import build_pairs
from kbench.generation.assembly.plans import planned
from kbench.generation.assembly.repeats import corrected, repeated
from kbench.generation.assembly.samples import Samples
from kbench.loaders.importers.run import REPORT
from kbench.loaders.storage.lines import read_records
from kbench.schemas import DataError, KernelCounters, ReferenceTime, UserError


def assemble(
    folders: Sequence[Path],
    out: Path,
    repeats: Sequence[Path] = (),
    corrections: Sequence[Path] = (),
    plans: Sequence[Path] = (),
    other_gpus: Sequence[Path] = (),
    references: Sequence[Path] = (),
    counters: Sequence[Path] = (),
    samples: Path | None = None,
) -> Ledger:
    """Merge run folders into a corpus; what the corpus held before is replaced.

    Args:
        folders: run folders or log files, each run in one of them.
        out: the corpus folder.
        repeats: corpora with measurements of these kernels made again (`kbench measure --corpus … --out`).
        corrections: the same, of kernels whose logged figures are known to be wrong and are not kept; or files with
            new verdicts (`relabelled`).
        plans: records of these kernels' plans.
        other_gpus: corpora with measurements of these kernels on GPUs that the logs do not have; they become further
            rows, with the lineage and split of the logs' own.
        references: files of reference times (`kbench problems references`).
        counters: files of hardware counters (`kbench kernels counters`); those of other kernels are left out.
        samples: corpus that holds the samples and texts which the logs and corpora leave out.

    Returns:
        what the corpus holds and what it cost.

    Raises:
        DataError: a log or another file is damaged, or a lineage is incomplete.
        UserError: the logs hold no measurement, or one of the other inputs no kernel of theirs.
    """
    from kbench.loaders.corpus.writer import CorpusWriter

    published = Samples(samples)
    gathered = gather(folders, published.entry)
    if not gathered.kernels:
        raise UserError(f"no measured kernel in {', '.join(map(str, folders))}; run kbench generate first")
    gathered, places = corrected(gathered, corrections)
    gathered = published.complete(gathered)
    kernels = kernel_rows(gathered)
    lost = orphans(kernels)
    if lost:
        raise DataError(f"kernel {lost[0].kernel_id} has the parent {lost[0].parent_id}, which no run measured")
    again, elsewhere = repeated(repeats, {kernel.kernel_id for kernel in kernels})
    moved, their_places = measured_elsewhere(other_gpus, gathered.kernels)
    moved = list(map(published.of_kernel, moved))
    kernels += rows_elsewhere(moved, kernels)
    # GPU by GPU: which pairs one has changes nothing about another's.
    by_gpu = {gpu: [kernel for kernel in kernels if kernel.gpu == gpu] for gpu in {k.gpu: None for k in kernels}}
    pairs = [pair for rows in by_gpu.values() for pair in build_pairs(rows)]
    environments = {one.env_id: one for one in (*gathered.environments, *places, *elsewhere, *their_places)}
    solved = {kernel.problem_id for kernel in kernels}
    with CorpusWriter(out) as writer:
        writer.replace("kernels", kernels)
        writer.replace("measurements", [row for one in (*gathered.kernels, *moved) for row in one.measurements])
        writer.replace("problems", [one.record() for one in (*known().values(), *users().values()) if one.id in solved])
        times = [row for path in references for row in read_records(path, ReferenceTime)]
        writer.replace("references", [row for row in times if row.problem_id in solved])
        counted = [row for path in counters for row in read_records(path, KernelCounters)]
        mine = {kernel.kernel_id for kernel in kernels}
        writer.replace("counters", [row for row in counted if row.kernel_id in mine])
        writer.replace("pairs", pairs)
        writer.replace("environments", list(environments.values()))
        writer.replace("repeats", published.whole(again))
        writer.replace("plans", planned(plans, gathered.kernels))
        writer.replace("events", gathered.events)
    # Of the rows that an import had put there.
    (out / REPORT).unlink(missing_ok=True)
    return ledger_of(gathered, moved, kernels, len(pairs))
