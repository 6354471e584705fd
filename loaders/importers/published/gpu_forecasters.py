"""The five datasets of the published release, from Parquet files on disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, text, whole
from kbench.loaders.importers.files import records
from kbench.loaders.importers.published import release as published
from kbench.loaders.importers.published.events import SearchImporter
from kbench.loaders.importers.published.kernels import PublishedKernels
from kbench.loaders.importers.published.pairs import PairImporter
from kbench.loaders.importers.published.predictions import PredictionImporter
from kbench.loaders.importers.published.release import problem_of
from kbench.loaders.importers.sink import Sink
from kbench.loaders.storage.parquet_stream import open_parquet, read_schema
from kbench.schemas import DataError

NAME = "gpu-forecasters"
SUMMARIES = "summaries"
REQUIRED: Mapping[str, tuple[str, ...]] = {
    published.EVAL: (
        "source_search", "comparison_id", "pack", "anchor_code", "candidate_code", "hardware",
        "aggregated_speedup", "true_bin", "source_id",
    ),
    published.PREDICTIONS: (
        "comparison_id", "pack", "surrogate_label", "repeat", "predicted_bin", "bin_probabilities",
        "raw_probability_sum", "parse_failed", "parse_error", "input_tokens", "output_tokens", "elapsed_s",
    ),
    published.POOL: (
        "source_search", "row_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup", "relative_bin",
        "pair_type", "hardware", "source_id",
    ),
    published.PAIRS: (
        "source_search", "pair_id", "problem_id", "benchmark_family", "parent_code", "child_code", "g_speedup",
        "true_bin", "hardware", "source_id",
    ),
    published.EVENTS: ("event_index", "event_kind", "payload", "source_search"),
    SUMMARIES: ("n_steps", "n_evaluations", "n_correct", "source_search"),
}  # fmt: skip
"""Columns each dataset must have; others are not read."""
MARKS = {
    published.EVAL: "comparison_id", published.PREDICTIONS: "surrogate_label", published.POOL: "relative_bin",
    published.PAIRS: "g_speedup", published.EVENTS: "event_kind", SUMMARIES: "n_evaluations",
}  # fmt: skip
"""A column by which a dataset is told; predictions have the evaluation set's too, so they are asked first."""
ORDER = (published.EVAL, published.POOL, published.PAIRS, published.PREDICTIONS, SUMMARIES, published.EVENTS)


def dataset_of(columns: Sequence[str]) -> str | None:
    """Which of the release's datasets has these columns; None for none."""
    names = set(columns)
    asked = (published.PREDICTIONS, published.POOL, published.PAIRS, SUMMARIES, published.EVENTS, published.EVAL)
    return next((dataset for dataset in asked if MARKS[dataset] in names), None)


class Importer:
    """One import of any of the five datasets together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kernels = PublishedKernels()
        self._pairs = {
            name: PairImporter(name, self._kernels, context)
            for name in (published.EVAL, published.POOL, published.PAIRS)
        }
        self.predictions = PredictionImporter(self._pairs[published.EVAL].pair_ids, context)
        self.found: dict[str, int] = dict.fromkeys(published.DATASETS, 0)
        self._stated: dict[str, tuple[int, int]] = {}

    def run(self, paths: Sequence[Path], sink: Sink) -> None:
        """Import files of any of the datasets, in whichever order they are given.

        Raises:
            DataError: a file is none of the release's, or lacks a column.
        """
        kinds = {path: self._kind(path) for path in without_combined(paths, self._context)}
        for dataset in ORDER:
            for path in (path for path, kind in kinds.items() if kind == dataset):
                self._one(dataset, path, sink)
        for row, place in self._kernels.rows():
            sink.add("kernels", row, place)
        if self.found[published.PREDICTIONS]:
            self.predictions.check(published.SURROGATES, 3)
        self._compare()

    def _kind(self, path: Path) -> str:
        names = read_schema(path).names
        dataset = dataset_of(names)
        if dataset is None:
            raise DataError(f"{path} has the columns of no dataset of the release: {', '.join(names[:6])}")
        missing = [name for name in REQUIRED[dataset] if name not in names]
        if missing:
            raise DataError(f"{path} lacks the column {missing[0]!r} of dataset {dataset!r}; the schema has changed")
        return dataset

    def _one(self, dataset: str, path: Path, sink: Sink) -> None:
        rows = self._rows(path, REQUIRED[dataset])
        if dataset in self._pairs:
            importer = self._pairs[dataset]
            for row, data in rows:
                made = self._guarded(path, row, partial(importer.row, data, (path, row)))
                if made is not None:
                    sink.add("pairs", made, (path, row))
                    self.found[dataset] += 1
        elif dataset == published.PREDICTIONS:
            for row, data in rows:
                self._guarded(path, row, partial(self.predictions.add, data))
                self.found[dataset] += 1
        elif dataset == SUMMARIES:
            for row, data in rows:
                self._guarded(path, row, partial(self._summary, data))
        else:
            self._events(path, rows, sink)

    def _rows(self, path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        row = 0
        _, tables = open_parquet(path, columns)
        for table in tables:
            for data in records(table, path):
                yield row, data
                row += 1
            self._context.advance(table.nbytes)

    def _guarded(self, path: Path, row: int, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except RowError as error:
            self._context.bad(path, row, error)
            return None

    def _events(self, path: Path, rows: Iterator[tuple[int, Mapping[str, Any]]], sink: Sink) -> None:
        searches: dict[str, SearchImporter] = {}
        for row, data in rows:
            self._guarded(path, row, partial(self._event, path, data, searches))
            self.found[published.EVENTS] += 1
        for search, importer in searches.items():
            evaluations = correct = 0
            for kernel, measurements in importer.kernels():
                self._kernels.add(kernel, (path, search))
                evaluations += kernel["status"] is not None and kernel["proposer"] != "seed"
                correct += kernel["status"] == "ok" and kernel["proposer"] != "seed"
                for measurement in measurements:
                    sink.add("measurements", measurement, (path, search))
            self._check_summary(search, evaluations, correct)

    def _event(self, path: Path, data: Mapping[str, Any], searches: dict[str, SearchImporter]) -> None:
        search = text(data, "source_search")
        if search not in searches:
            gpus = {gpu for importer in self._pairs.values() for gpu in importer.hardware.get(search, ())}
            named = {name for importer in self._pairs.values() for name in importer.problems.get(search, ())}
            gpu = self._context.known("gpu", next(iter(gpus)) if len(gpus) == 1 else None)
            problem = next(iter(named)) if len(named) == 1 else _problem(search, path)
            searches[search] = SearchImporter(search, problem, gpu, self._context)
        searches[search].event(data)

    def _summary(self, data: Mapping[str, Any]) -> None:
        self._stated[text(data, "source_search")] = (whole(data, "n_evaluations"), whole(data, "n_correct"))

    def _check_summary(self, search: str, evaluations: int, correct: int) -> None:
        stated = self._stated.get(search)
        if stated is not None and stated != (evaluations, correct):
            self._context.report.differences.append(
                f"search {search}: its summary states {stated[0]} evaluations, {stated[1]} correct; "
                f"its events hold {evaluations} and {correct}"
            )

    def _compare(self) -> None:
        rows = [row for row, _ in self._kernels.rows()]
        facts = [
            *((f"rows of {name}", published.ANNOUNCED_ROWS.get(name), count) for name, count in self.found.items()),
            ("kernels", published.ANNOUNCED_KERNELS, len({row["kernel_id"] for row in rows})),
            ("problems", published.ANNOUNCED_PROBLEMS, len({row["problem_id"] for row in rows})),
            ("GPUs", published.ANNOUNCED_GPUS, len({row["gpu"] for row in rows} - {None})),
        ]
        for what, announced, found in facts:
            if announced is not None and announced != found:
                self._context.report.differences.append(f"{what}: {announced:,} announced, {found:,} found")
        shared = self._shared()
        if shared:
            self._context.note("pairs of the training pool that hold a kernel of the evaluation set", shared)

    def _shared(self) -> int:
        """Training pairs with a kernel that the evaluation set asks about."""
        return self._pairs[published.POOL].shared_with(self._pairs[published.EVAL])


def without_combined(paths: Sequence[Path], context: Context) -> list[Path]:
    """The paths less those of a config `combined`, which repeats the others, unless there is nothing else."""
    combined = [path for path in paths if "combined" in (path.stem.split("-")[0], path.parent.name)]
    others = [path for path in paths if path not in combined]
    if others and combined:
        folders = {_dataset_folder(path) for path in others}
        passed = [path for path in combined if _dataset_folder(path) in folders]
        context.note("files of config combined skipped, because they repeat the others", len(passed))
        return [path for path in paths if path not in passed]
    return list(paths)


def _dataset_folder(path: Path) -> str:
    """The part of a path that names its dataset, or the folder two levels up."""
    for part in path.parts:
        if published.PREFIX in part:
            return part
    return str(path.parent.parent)


def _problem(search: str, path: Path) -> tuple[str, str]:
    """The problem a search is of: a search is named `{problem}__{tag}`, and so is its config."""
    for name in (search, path.parent.name, path.stem):
        found = re.match(r"(.+?)__", name)
        if found:
            return problem_of(found.group(1), None, "source_search")
    raise RowError("source_search", search, "does not begin with {problem}__, and neither does the file's config")


def write_extras(importer: Importer, folder: Path, fingerprint: str) -> dict[str, int]:
    """What lies beside the corpus's tables: published forecasts by surrogate."""
    return importer.predictions.write(folder / "forecasts", fingerprint)
