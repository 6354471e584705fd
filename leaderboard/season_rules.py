"""What a season may ask about: kernels without a public relative, most of them of problems that nobody has published.

A kernel can be looked up when its text, its shape, its parent or a similar kernel is public with a time. So every
proposed kernel is held against all public ones: of the dataset, of its live studies, and of earlier seasons.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import TRAIN_SPLITS, answered_pairs, measured_kernels
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings, Scored, score
from kbench.benchmark.surrogates.forecasts import from_forecasts
from kbench.benchmark.surrogates.nearest import LookupSurrogate
from kbench.loaders.corpus.configs import SPLITS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.similarity import Grams
from kbench.loaders.source.strip import strip_comments
from kbench.loaders.source.structure import structure_id
from kbench.schemas import AuthorClass, Backend, Kernel, Query, Question, QuestionKind, UserError, bins

NEAR = 0.5
"""Similarity (Jaccard, token 5-grams) from which a public kernel is a relative."""
NEW_PROBLEMS = 0.5
"""Share of a season's problems that must have no public kernel; more than that."""
TRAINED = (*TRAIN_SPLITS, "test_near")
"""Splits of problems that surrogates learn from, or of lineages that they do."""


@dataclasses.dataclass(frozen=True, slots=True)
class PublicKernel:
    """A kernel that anyone can look up."""

    kernel_id: str
    problem_id: str
    source: str
    structure_id: str
    where: str
    """What published it."""


def public_kernels(dataset: Tables, seasons: Path) -> list[PublicKernel]:
    """Every kernel that is public.

    Args:
        dataset: what surrogates learn from.
        seasons: folder of the seasons so far.
    """
    editions = [Corpus.open(path.parent) for path in sorted(seasons.glob("*/*/manifest.json"))]
    by_id: dict[str, PublicKernel] = {}
    for corpus, config in ((dataset, "kernels"), (dataset, "live"), *((one, "kernels") for one in editions)):
        where = f"season {corpus.folders[0].parent.name}" if corpus is not dataset else f"config {config}"
        if config in corpus.configs:
            for row in corpus.table(config).to_pylist():
                shape = row.get("structure_id") or structure_id(row["source"])
                one = PublicKernel(row["kernel_id"], row["problem_id"], strip_comments(row["source"]), shape, where)
                by_id.setdefault(one.kernel_id, one)
    return list(by_id.values())


def relatives(kernels: Sequence[Kernel], public: Sequence[PublicKernel]) -> Iterator[str]:
    """For each kernel that has a public relative, what its nearest one is to it."""
    if not public:
        return
    by_id = {one.kernel_id: one for one in public}
    by_structure = {one.structure_id: one for one in public}
    grams = Grams([*(one.source for one in public), *(strip_comments(one.source) for one in kernels)])
    nearest, similarity = grams.nearest(grams.row[len(public) :], grams.row[: len(public)])
    for kernel, at, near in zip(kernels, nearest.tolist(), similarity.tolist(), strict=True):
        if kernel.kernel_id in by_id:
            other, how = by_id[kernel.kernel_id], "is public:"
        elif kernel.structure_id in by_structure:
            other, how = by_structure[kernel.structure_id], "is equal but for names and numbers to"
        elif kernel.parent_id in by_id:
            other, how = by_id[kernel.parent_id], "was made from"
        elif near >= NEAR:
            other, how = public[at], f"is {near:.2f} similar to"
        else:
            continue
        place = f"{other.where} of {other.problem_id}"
        yield f"kernel {kernel.kernel_id} of {kernel.problem_id} {how} {other.kernel_id} ({place})"


def check_rules(kernels: Sequence[Kernel], dataset: Tables, public: Sequence[PublicKernel]) -> None:
    """Refuse kernels that could be looked up or learnt.

    Raises:
        UserError: a kernel has a public relative, solves a problem that surrogates learn from, or too few problems are
            new; names the kernel or the problem.
    """
    if not kernels:
        raise UserError("there is no kernel to ask about; propose some")
    rows = dataset.table("kernels", columns=["problem_id", "split"]).to_pylist()
    trained = {row["problem_id"] for row in rows if row["split"] in TRAINED}
    learnt = next((one for one in kernels if one.problem_id in trained), None)
    if learnt is not None:
        raise UserError(
            f"kernel {learnt.kernel_id} solves {learnt.problem_id}, which the dataset trains on or near; take it out"
        )
    near = list(relatives(kernels, public))
    if near:
        raise UserError(f"{near[0]}; {len(near)} of {len(kernels)} kernels have a public relative: take them out")
    problems = {one.problem_id for one in kernels}
    old = sorted(problems & {one.problem_id for one in public})
    if len(old) >= (1 - NEW_PROBLEMS) * len(problems):
        raise UserError(
            f"{len(old)} of {len(problems)} problems have public kernels, {old[0]} for one; "
            "a season needs more new ones"
        )


def looked_up(questions: Questions, dataset: Tables, settings: BootstrapSettings | None) -> Scored:
    """What copying the nearest public kernel scores: every split of the dataset may be looked at."""
    surrogate = LookupSurrogate()
    pairs = [pair for split in TRAIN_SPLITS for pair in answered_pairs(dataset, split)]
    surrogate.fit([*pairs, *_levels(dataset)])
    forecasts = surrogate.forecast(questions.queries)
    return score(questions, from_forecasts(forecasts, [query.query_id for query in questions.queries]), settings)


def _levels(dataset: Tables) -> Iterator[tuple[Query, Question]]:
    """Correct kernels of the held-out splits against the reference."""
    for split in SPLITS:
        rows: Iterator[tuple[Query, dict[str, Any]]] = (
            measured_kernels(dataset, split) if split not in TRAIN_SPLITS else iter(())
        )
        for query, row in rows:
            if row["speedup"] is not None:
                yield query, Question(
                    question_id=query.query_id, anchor_id=None, candidate_id=row["kernel_id"],
                    kind=QuestionKind.LEVEL, author=AuthorClass.OUTSIDE, workload=None, core=False, pool=None,
                    known_ids=(), speedup_low=None, speedup_high=None, bin=bins.bin_of(row["speedup"]),
                    backend=Backend(row["backend"]),
                    **{name: row[name] for name in ("problem_id", "family", "gpu", "speedup", "split")},
                )  # fmt: skip
