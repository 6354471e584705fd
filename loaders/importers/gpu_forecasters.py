"""The published release: its five datasets, from Parquet files on disk, as one corpus.

docs/published-release.md tells what is known of the release and what this importer does about each trap.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.inputs import parquet_rows
from kbench.loaders.importers.published import PublishedForecasts, PublishedSearch
from kbench.loaders.importers.reader import Context
from kbench.loaders.importers.rows import NOT_STATED, Row, backend_of, kernel_row, question_row
from kbench.loaders.importers.sink import Place, Sink
from kbench.loaders.splits import HELD_OUT
from kbench.loaders.storage.parquet_stream import read_schema
from kbench.schemas import DataError, QuestionKind
from kbench.schemas.bins import COUNT, EDGES, bin_of
from kbench.schemas.ids import content_hash

NAME = "gpu-forecasters"
OWNER, PREFIX = "codezakh", "gpu-forecasters-"
EVAL, PREDICTIONS, POOL, PAIRS, EVENTS = (
    "eval-set", "eval-set-predictions", "rl-training-pool", "discovery-pairs", "puct-search-events",
)  # fmt: skip
DATASETS = (EVAL, PREDICTIONS, POOL, PAIRS, EVENTS)
SUMMARIES = "summaries"
"""A config of the search events: what each search says of itself."""
ORDER = (EVAL, POOL, PAIRS, PREDICTIONS, SUMMARIES, EVENTS)
"""Predictions answer pairs, and events take their GPU from pairs and are compared with summaries."""
REQUIRED: Mapping[str, tuple[str, ...]] = {
    EVAL: (
        "source_search", "comparison_id", "pack", "anchor_code", "candidate_code", "hardware",
        "aggregated_speedup", "true_bin", "source_id",
    ),
    PREDICTIONS: (
        "comparison_id", "pack", "surrogate_label", "repeat", "predicted_bin", "bin_probabilities",
        "raw_probability_sum", "parse_failed", "parse_error", "input_tokens", "output_tokens", "elapsed_s",
    ),
    POOL: (
        "source_search", "row_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup", "relative_bin",
        "pair_type", "hardware", "source_id",
    ),
    PAIRS: (
        "source_search", "pair_id", "problem_id", "benchmark_family", "parent_code", "child_code", "g_speedup",
        "true_bin", "hardware", "source_id",
    ),
    EVENTS: ("event_index", "event_kind", "payload", "source_search"),
    SUMMARIES: ("n_steps", "n_evaluations", "n_correct", "source_search"),
}  # fmt: skip
"""Columns each dataset must have; others are not read."""
MARKS = {
    PREDICTIONS: "surrogate_label", POOL: "relative_bin", PAIRS: "g_speedup", SUMMARIES: "n_evaluations",
    EVENTS: "event_kind", EVAL: "comparison_id",
}  # fmt: skip
"""A column by which a dataset is told, in the order to ask: predictions have the evaluation set's too."""

ANNOUNCED_ROWS: Mapping[str, int] = {EVAL: 424, PREDICTIONS: 8904, POOL: 2322, PAIRS: 1347}
ANNOUNCED_KERNELS, ANNOUNCED_PROBLEMS, ANNOUNCED_GPUS = 12_388, 118, 3

FAMILY = "gpu_mode"
PROBLEMS: Mapping[str, str] = {
    "trimul": "trimul",
    "cross_entropy": "cross_entropy_fwd_bwd",
    "fp8_quant": "fp8_quant",
    "gdn_chunk_fwd_h": "gdn_chunk_fwd_h",
    "gdn_chunk_fwd_o": "gdn_chunk_fwd_o",
    "gdn_recompute_w_u": "gdn_recompute_w_u",
}
"""Packs of the release that are problems of ours, by our id."""
BINFILLER = "binfiller/"
"""Source ids of candidates written to reach a stated speedup; their docstrings tell it."""


def dataset_of(columns: Sequence[str]) -> str | None:
    """Which of the release's datasets has these columns; None for none."""
    return next((dataset for dataset, mark in MARKS.items() if mark in columns), None)


def repository(dataset: str) -> str:
    """The dataset's id on the Hub."""
    return f"{OWNER}/{PREFIX}{dataset}"


def problem_of(name: str, family: str | None, field: str) -> tuple[str, str]:
    """Our id and family of a problem the release names; one we do not have keeps the release's words."""
    if name in PROBLEMS:
        return PROBLEMS[name], FAMILY
    group = fields.slug(family, "benchmark_family") if family else "gpu_forecasters"
    return fields.slug(f"{group}_{name}", field), group


class PairColumns(NamedTuple):
    """The columns of a dataset of pairs, and the split its pairs are of."""

    identity: str
    problem: str
    anchor: str
    candidate: str
    speedup: str
    label: str
    split: str


PAIR_COLUMNS: Mapping[str, PairColumns] = {
    EVAL: PairColumns(
        "comparison_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup", "true_bin", "test"
    ),
    POOL: PairColumns("row_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup", "relative_bin", "train"),
    PAIRS: PairColumns("pair_id", "problem_id", "parent_code", "child_code", "g_speedup", "true_bin", "test_seen"),
}
KINDS = {"parent_edit": QuestionKind.EDIT, "seed": QuestionKind.PAIR, "pair": QuestionKind.PAIR}


class Importer:
    """One import of any of the five datasets together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kernels = PublishedKernels()
        self.forecasts = PublishedForecasts(context)
        self._row_counts: Counter[str] = Counter()
        self._occurrences: Counter[tuple[str, str]] = Counter()
        self._gpus: dict[str, set[str]] = {}
        """For each search the GPUs its pairs name."""
        self._problems: dict[str, set[tuple[str, str]]] = {}
        """For each search our id and family of the problems its pairs name."""
        self._asked: dict[str, list[set[str]]] = {dataset: [] for dataset in PAIR_COLUMNS}
        """The kernels of each pair, by dataset."""
        self._summaries: dict[str, tuple[int, ...]] = {}
        """Evaluations and correct kernels that each search states."""

    def run(self, paths: Sequence[Path], sink: Sink) -> None:
        """Import files of any of the datasets, in whichever order they are given."""
        datasets = {path: _dataset(path) for path in without_combined(paths, self._context)}
        for path in sorted(datasets, key=lambda path: ORDER.index(datasets[path])):
            if datasets[path] == EVENTS:
                self._import_events(path, sink)
                continue
            dataset = datasets[path]
            for number, data in self._rows(path, dataset):
                try:
                    if dataset == SUMMARIES:
                        stated = tuple(fields.whole(data, name) for name in ("n_evaluations", "n_correct"))
                        self._summaries[fields.text(data, "source_search")] = stated
                        continue
                    if dataset == PREDICTIONS:
                        self._row_counts[dataset] += 1
                        self.forecasts.add(data)
                    else:
                        sink.add("questions", self._question(dataset, data, (path, number)), (path, number))
                        self._row_counts[dataset] += 1
                except RowError as error:
                    self._context.bad(path, number, error)
        for row, place in self._kernels.rows():
            sink.add("kernels", row, place)
        if self._row_counts[PREDICTIONS]:
            self.forecasts.check()
        self._compare_with_announcement()

    def _rows(self, path: Path, dataset: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        rows = parquet_rows(path, REQUIRED[dataset], self._context.advance)
        return ((number + 1, data) for number, data in rows)

    def _question(self, dataset: str, data: Mapping[str, Any], place: Place) -> Row:
        """One pair; what the other datasets join on is remembered."""
        columns = PAIR_COLUMNS[dataset]
        identity, gpu, name = (fields.text(data, one) for one in (columns.identity, "hardware", columns.problem))
        problem, family = problem_of(name, data.get("benchmark_family"), columns.problem)
        speedup = fields.positive(data, columns.speedup)
        self._check_label(fields.whole(data, columns.label, 1), speedup, columns.label)
        filled = fields.text(data, "source_id").startswith(BINFILLER)
        # Children stand beside their parents; how anchors and candidates of the evaluation set are related, the
        # release does not say; the pool states it.
        kind = QuestionKind.EDIT if dataset == PAIRS else QuestionKind.PAIR
        if dataset == POOL:
            kind = KINDS[fields.one_of(data.get("pair_type"), "pair_type", KINDS)]
        search = fields.text(data, "source_search")
        rows = [
            kernel_row(
                problem, family, backend_of(source), source, gpu=gpu, origin=self._origin(dataset), license=None,
                split=columns.split, proposer=proposer,
            )
            for source, proposer in (
                (fields.text(data, columns.anchor), NOT_STATED),
                (fields.text(data, columns.candidate), "binfiller" if filled else NOT_STATED),
            )
        ]  # fmt: skip
        anchor, candidate = (self._kernels.add(row, place) for row in rows)
        self._gpus.setdefault(search, set()).add(gpu)
        self._problems.setdefault(search, set()).add((problem, family))
        question_id = content_hash("pair", dataset, identity, str(self._occurrences[dataset, identity]))
        self._occurrences[dataset, identity] += 1
        if dataset == EVAL:
            self.forecasts.asked.setdefault(identity, []).append((question_id, name))
        self._asked[dataset].append({anchor["kernel_id"], candidate["kernel_id"]})
        return question_row(
            question_id, kind, anchor, candidate, speedup, problem_id=problem, family=family, split=columns.split
        )

    def _check_label(self, label: int, speedup: float, field: str) -> None:
        """Refuse a label that is not the bin of its speedup, unless the speedup lies on an edge."""
        number = bin_of(speedup)
        if label != number:
            on_edge = any(math.isclose(speedup, edge, rel_tol=1e-9) for edge in EDGES)
            if label > COUNT or abs(label - number) > 1 or not on_edge:
                raise RowError(field, label, f"contradicts the speedup {speedup!r}, whose bin is {number}")
            self._context.note("labels on an edge that were recomputed from the speedup")

    def _import_events(self, path: Path, sink: Sink) -> None:
        searches: dict[str, PublishedSearch] = {}
        for row, data in self._rows(path, EVENTS):
            self._row_counts[EVENTS] += 1
            try:
                search = fields.text(data, "source_search")
                if search not in searches:
                    searches[search] = self._search(search, path)
                searches[search].event(data)
            except RowError as error:
                self._context.bad(path, row, error)
        for search, events in searches.items():
            evaluations = correct = 0
            for kernel, measurements in events.kernels(self._origin(EVENTS)):
                self._kernels.add(kernel, (path, search))
                evaluations += kernel["status"] is not None and kernel["proposer"] != "seed"
                correct += kernel["status"] == "ok" and kernel["proposer"] != "seed"
                for measurement in measurements:
                    sink.add("measurements", measurement, (path, search))
            stated = self._summaries.get(search, (evaluations, correct))
            if stated != (evaluations, correct):
                self._context.report.differences.append(
                    f"search {search}: its summary states {stated[0]} evaluations, {stated[1]} correct; "
                    f"its events hold {evaluations} and {correct}"
                )

    def _search(self, search: str, path: Path) -> PublishedSearch:
        """A search on the GPU and the problem that its pairs name, where they name one."""
        gpus, problems = self._gpus.get(search, set()), self._problems.get(search, set())
        gpu = self._context.known("gpu", next(iter(gpus)) if len(gpus) == 1 else None)
        problem = next(iter(problems)) if len(problems) == 1 else _searched_problem(search, path)
        return PublishedSearch(search, problem, gpu, self._context)

    def _origin(self, dataset: str) -> str:
        """Which dataset a row comes from, at which commit."""
        revision = self._context.settings.revisions.get(dataset)
        return f"{repository(dataset)}@{revision}" if revision else repository(dataset)

    def _compare_with_announcement(self) -> None:
        rows = [row for row, _ in self._kernels.rows()]
        facts = [
            *((f"rows of {name}", announced, self._row_counts[name]) for name, announced in ANNOUNCED_ROWS.items()),
            ("kernels", ANNOUNCED_KERNELS, len({row["kernel_id"] for row in rows})),
            ("problems", ANNOUNCED_PROBLEMS, len({row["problem_id"] for row in rows})),
            ("GPUs", ANNOUNCED_GPUS, len({row["gpu"] for row in rows} - {None})),
        ]
        for what, announced, count in facts:
            if announced != count:
                self._context.report.differences.append(f"{what}: {announced:,} announced, {count:,} found")
        evaluated = set().union(*self._asked[EVAL])
        shared = sum(not evaluated.isdisjoint(pair) for pair in self._asked[POOL])
        if shared:
            self._context.note("pairs of the training pool that hold a kernel of the evaluation set", shared)


def without_combined(paths: Sequence[Path], context: Context) -> list[Path]:
    """The paths less those of a config `combined`, which repeats the others, unless there is nothing else."""
    combined = [path for path in paths if "combined" in (path.stem.split("-")[0], path.parent.name)]
    others = {_dataset_folder(path) for path in paths if path not in combined}
    if not others or not combined:
        return list(paths)
    repeating = [path for path in combined if _dataset_folder(path) in others]
    context.note("files of config combined skipped, because they repeat the others", len(repeating))
    return [path for path in paths if path not in repeating]


def _dataset_folder(path: Path) -> str:
    """The part of a path that names its dataset, or the folder two levels up."""
    return next((part for part in path.parts if PREFIX in part), str(path.parent.parent))


def _dataset(path: Path) -> str:
    names = read_schema(path).names
    dataset = dataset_of(names)
    if dataset is None:
        raise DataError(f"{path} has the columns of no dataset of the release: {', '.join(names[:6])}")
    missing = [name for name in REQUIRED[dataset] if name not in names]
    if missing:
        raise DataError(f"{path} lacks the column {missing[0]!r} of dataset {dataset!r}; the schema has changed")
    return dataset


def _searched_problem(search: str, path: Path) -> tuple[str, str]:
    """The problem a search is of: a search is named `{problem}__{tag}`, and so is its config."""
    for name in (search, path.parent.name, path.stem):
        match = re.match(r"(.+?)__", name)
        if match:
            return problem_of(match.group(1), None, "source_search")
    raise RowError("source_search", search, "does not begin with {problem}__, and neither does the file's config")


class PublishedKernels:
    """Kernels of all datasets, one row per kernel and GPU.

    Figures come from the search events; the split is the most held out of all that name the kernel.
    """

    MEASURED = ("status", "error", "runtime_us", "speedup", "search_method", "proposer", "run_id", "step", "parent_id")
    """What only the search events know."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str | None], tuple[Row, Place]] = {}

    def add(self, row: Row, place: Place) -> Row:
        """Take a kernel, or what is new about a known one."""
        first, _ = self._rows.setdefault((row["kernel_id"], row["gpu"]), (row, place))
        if first is not row:
            first["split"] = max(first["split"], row["split"], key=HELD_OUT.index)
            if first["status"] is None and (row["status"] is not None or row["run_id"] != first["run_id"]):
                first |= {name: row[name] for name in self.MEASURED if row[name] is not None}
        return first

    def rows(self) -> Iterator[tuple[Row, Place]]:
        """Every kernel; one known on two GPUs has one split."""
        splits: dict[str, str] = {}
        for row, _ in self._rows.values():
            splits[row["kernel_id"]] = max(splits.get(row["kernel_id"], "train"), row["split"], key=HELD_OUT.index)
        for row, place in self._rows.values():
            yield row | {"split": splits[row["kernel_id"]]}, place
