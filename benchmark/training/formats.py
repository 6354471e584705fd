"""The training formats by name, and how their rows become a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from kbench.benchmark.questions.build import training_pairs as pairs_of
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.training.examples import (
    Material,
    demonstrations,
    forecast_prompts,
    preferences,
    scored_kernels,
    search_steps,
    write_prompts,
)
from kbench.benchmark.training.records import (
    Demonstration,
    ForecastPrompt,
    Preference,
    ScoredKernel,
    SearchStep,
    TrainingRow,
    WritePrompt,
)
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.storage.atomic import replacing
from kbench.schemas import Query, Question, UnknownNameError, UserError, arrow_schema, to_dict


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingFormat:
    """One format: its rows, and how they come from a corpus."""

    record: type[TrainingRow]
    rows: Callable[[Material], Iterator[TrainingRow]]


FORMATS: Mapping[str, TrainingFormat] = MappingProxyType(
    {
        "trl-preference": TrainingFormat(Preference, preferences),
        "trl-prompt": TrainingFormat(ForecastPrompt, forecast_prompts),
        "sft": TrainingFormat(Demonstration, demonstrations),
        "reward": TrainingFormat(ScoredKernel, scored_kernels),
        "trajectories": TrainingFormat(SearchStep, search_steps),
    }
)
WRITE = TrainingFormat(WritePrompt, write_prompts)
"""`trl-prompt` for kernel writing."""
ENDINGS = ("jsonl", "ndjson", "json", "parquet")
"""Endings of a file's name that fit; all but the last are JSON lines."""
TASKS = ("forecast", "write")


def training_pairs(
    split: str = "train", *, path: str | Path | Sequence[str | Path] | None = None
) -> list[tuple[Query, Question]]:
    """What a surrogate's `fit` gets of a split: queries with their answers, for work on features in a notebook.

    Args:
        split: train or validation.
        path: corpus folders; the shipped dataset by default.

    Raises:
        UserError: the split is kept for testing.
    """
    return list(pairs_of(benchmark_of(Corpus.open(path)), (split,)))


def training_rows(
    form: str,
    split: str = "train",
    *,
    path: str | Path | Sequence[str | Path] | None = None,
    task: str = "forecast",
    best: int = 4,
    comments: bool = False,
    shots: int = 0,
    subset: str | None = None,
    **filters: Any,
) -> Iterator[TrainingRow]:
    """Training examples of one split, as `kbench data export --format FORM` writes them.

    Args:
        form: trl-preference, trl-prompt, sft, reward or trajectories.
        split: of the kernels that rows show.
        path: corpus folders; the shipped dataset by default.
        task: what trl-prompt asks for: forecast or write.
        best: most kernels that sft takes for a problem, backend and GPU.
        comments: whether sources keep their comments.
        shots: most known kernels that a forecast's question shows: 0, 2 or 8.
        subset: `core` for that part of the forecast's questions.
        **filters: conditions on kernels, as `kbench.load` takes them.

    Raises:
        UnknownNameError: there is no such format or task.
        UserError: no kernel matches.
    """
    corpus = benchmark_of(Corpus.open(path))
    return format_of(form, task).rows(Material(corpus, split, filters, comments, best, shots, subset))


def format_of(form: str, task: str) -> TrainingFormat:
    """A format by its name; `task` is what trl-prompt asks for."""
    if form not in FORMATS:
        raise UnknownNameError("training format", form, tuple(FORMATS))
    if task not in TASKS:
        raise UnknownNameError("task", task, TASKS)
    return WRITE if (form, task) == ("trl-prompt", "write") else FORMATS[form]


def write_training_file(chosen: TrainingFormat, material: Material, path: Path) -> int:
    """Write one format's rows as JSON lines, or as Parquet when the name ends in .parquet.

    Returns:
        how many rows were written.
    """
    try:
        with replacing(path) as file:
            return write_rows(chosen, material, file, path.suffix == ".parquet")
    except OSError as error:
        raise UserError(f"path {str(path)!r} cannot be written: {error.strerror}; choose another target") from error


def write_rows(chosen: TrainingFormat, material: Material, file: IO[bytes], parquet: bool = False) -> int:
    """Write one format's rows to an open file."""
    rows = (to_dict(row) for row in chosen.rows(material))
    if parquet:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(list(rows), schema=arrow_schema(chosen.record))
        pq.write_table(table, file, compression="zstd")
        written: int = table.num_rows
    else:
        written = 0
        for row in rows:
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
            written += 1
    if not written:
        raise UserError(f"split {material.split!r} gives no row of this format; choose other filters")
    return written
