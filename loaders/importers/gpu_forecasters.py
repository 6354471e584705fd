"""The published release: its five datasets, from Parquet files on disk, as one corpus.

docs/published-release.md tells what is known of the release and what this importer does about each trap.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    RowError,
    an_object,
    is_number,
    mapping,
    non_negative,
    optional_positive,
    optional_text,
    optional_whole,
    positive,
    sequence,
    slug,
    text,
    truth,
    whole,
)
from kbench.loaders.importers.inputs import records
from kbench.loaders.importers.rows import NOT_STATED, Row, backend_of, failure, kernel_row, measurement_row
from kbench.loaders.importers.sink import Place, Sink
from kbench.loaders.splits import HELD_OUT
from kbench.loaders.storage.parquet_stream import open_parquet, read_schema
from kbench.schemas import AuthorClass, DataError, Forecast, QuestionKind, Status, arrow_schema
from kbench.schemas.bins import COUNT, EDGES, NUMBERS, bin_of
from kbench.schemas.ids import content_hash, kernel_id

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
SURROGATES = (
    "gemini3_flash", "gpt_oss_120b", "gpt_oss_20b_untrained", "deepseek_v4", "trained_correctness",
    "trained_correctness_brier", "trained_correctness_crps",
)  # fmt: skip
REPEATS = 3

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
DATASET_KEY = "kbench.dataset"
"""Where a forecasts file names the corpus it is for."""
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def dataset_of(columns: Sequence[str]) -> str | None:
    """Which of the release's datasets has these columns; None for none."""
    return next((dataset for dataset, mark in MARKS.items() if mark in columns), None)


def repository(dataset: str) -> str:
    """The dataset's id on the Hub."""
    return f"{OWNER}/{PREFIX}{dataset}"


def problem_of(name: str, family: str | None, field: str) -> tuple[str, str]:
    """Our id and family of a problem the release names; one we do not have keeps the release's words.

    Args:
        name: the release's name.
        family: the release's benchmark family, where it states one.
        field: where the name was read, for errors.
    """
    if name in PROBLEMS:
        return PROBLEMS[name], FAMILY
    group = slug(family, "benchmark_family") if family else "gpu_forecasters"
    return slug(f"{group}_{name}", field), group


class Importer:
    """One import of any of the five datasets together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kernels = PublishedKernels()
        self._pairs = PairImporter(self._kernels, context)
        self._predictions = PredictionImporter(self._pairs.compared, context)
        self._row_counts: dict[str, int] = dict.fromkeys(DATASETS, 0)
        self._summaries: dict[str, tuple[int, int]] = {}
        """Evaluations and correct kernels that each search states."""

    def run(self, paths: Sequence[Path], sink: Sink) -> None:
        """Import files of any of the datasets, in whichever order they are given.

        Raises:
            DataError: a file is none of the release's, or lacks a column.
        """
        datasets = {path: _dataset(path) for path in without_combined(paths, self._context)}
        for path in sorted(datasets, key=lambda path: ORDER.index(datasets[path])):
            dataset = datasets[path]
            if dataset == EVENTS:
                self._import_events(path, sink)
                continue
            for number, data in self._rows(path, dataset):
                try:
                    self._import_row(dataset, data, (path, number), sink)
                except RowError as error:
                    self._context.bad(path, number, error)
        for row, place in self._kernels.rows():
            sink.add("kernels", row, place)
        if self._row_counts[PREDICTIONS]:
            self._predictions.check()
        self._compare_with_announcement()

    def write_forecasts(self, folder: Path, fingerprint: str) -> int:
        """Write the published forecasts, a file per surrogate, and return how many there are."""
        return self._predictions.write(folder, fingerprint)

    def _rows(self, path: Path, dataset: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        row = 0
        for table in open_parquet(path, REQUIRED[dataset])[1]:
            for data in records(table, path):
                yield row, data
                row += 1
            self._context.advance(table.nbytes)

    def _import_row(self, dataset: str, data: Mapping[str, Any], place: Place, sink: Sink) -> None:
        if dataset == SUMMARIES:
            search = text(data, "source_search")
            self._summaries[search] = (whole(data, "n_evaluations"), whole(data, "n_correct"))
        elif dataset == PREDICTIONS:
            self._row_counts[dataset] += 1
            self._predictions.add(data)
        else:
            sink.add("questions", self._pairs.row(LAYOUTS[dataset], data, place), place)
            self._row_counts[dataset] += 1

    def _import_events(self, path: Path, sink: Sink) -> None:
        searches: dict[str, SearchImporter] = {}
        for row, data in self._rows(path, EVENTS):
            self._row_counts[EVENTS] += 1
            try:
                search = text(data, "source_search")
                if search not in searches:
                    searches[search] = self._search(search, path)
                searches[search].event(data)
            except RowError as error:
                self._context.bad(path, row, error)
        for search, importer in searches.items():
            evaluations = correct = 0
            for kernel, measurements in importer.kernels():
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

    def _search(self, search: str, path: Path) -> SearchImporter:
        """A search on the GPU and the problem that its pairs name, where they name one."""
        gpus, problems = self._pairs.gpus.get(search, set()), self._pairs.problems.get(search, set())
        gpu = self._context.known("gpu", next(iter(gpus)) if len(gpus) == 1 else None)
        problem = next(iter(problems)) if len(problems) == 1 else _searched_problem(search, path)
        return SearchImporter(search, problem, gpu, self._context)

    def _compare_with_announcement(self) -> None:
        rows = [row for row, _ in self._kernels.rows()]
        facts = [
            *((f"rows of {name}", ANNOUNCED_ROWS.get(name), count) for name, count in self._row_counts.items()),
            ("kernels", ANNOUNCED_KERNELS, len({row["kernel_id"] for row in rows})),
            ("problems", ANNOUNCED_PROBLEMS, len({row["problem_id"] for row in rows})),
            ("GPUs", ANNOUNCED_GPUS, len({row["gpu"] for row in rows} - {None})),
        ]
        for what, announced, count in facts:
            if announced is not None and announced != count:
                self._context.report.differences.append(f"{what}: {announced:,} announced, {count:,} found")
        asked = {kernel for pair in self._pairs.kernel_ids[EVAL] for kernel in pair}
        shared = sum(not asked.isdisjoint(pair) for pair in self._pairs.kernel_ids[POOL])
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


def _origin(dataset: str, context: Context) -> str:
    """Which dataset a row comes from, at which commit."""
    revision = context.settings.revisions.get(dataset)
    return f"{repository(dataset)}@{revision}" if revision else repository(dataset)


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


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """A dataset of pairs: its column names, and the split its pairs are of."""

    dataset: str
    identity: str
    problem: str
    anchor: str
    candidate: str
    speedup: str
    label: str
    split: str


LAYOUTS: Mapping[str, Layout] = {
    layout.dataset: layout
    for layout in (
        Layout(EVAL, "comparison_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup", "true_bin",
               "test"),
        Layout(POOL, "row_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup", "relative_bin", "train"),
        Layout(PAIRS, "pair_id", "problem_id", "parent_code", "child_code", "g_speedup", "true_bin", "test_seen"),
    )
}  # fmt: skip
KINDS = {"parent_edit": QuestionKind.EDIT, "seed": QuestionKind.PAIR, "pair": QuestionKind.PAIR}


class PairImporter:
    """Turns rows of the three datasets of pairs into ours, and remembers what the other datasets join on."""

    def __init__(self, kernels: PublishedKernels, context: Context) -> None:
        self._kernels, self._context = kernels, context
        self._occurrences: Counter[tuple[str, str]] = Counter()
        self.compared: dict[str, list[tuple[str, str]]] = {}
        """Pairs of each comparison id of the evaluation set, in order, each with its pack."""
        self.gpus: dict[str, set[str]] = {}
        """For each search the GPUs its pairs name."""
        self.problems: dict[str, set[tuple[str, str]]] = {}
        """For each search our id and family of the problems its pairs name."""
        self.kernel_ids: dict[str, list[tuple[str, str]]] = {dataset: [] for dataset in LAYOUTS}

    def row(self, layout: Layout, data: Mapping[str, Any], place: Place) -> Row:
        """One pair.

        Raises:
            RowError: a value is missing or contradicts another.
        """
        identity, gpu, name = text(data, layout.identity), text(data, "hardware"), text(data, layout.problem)
        problem, family = problem_of(name, data.get("benchmark_family"), layout.problem)
        speedup = positive(data, layout.speedup)
        number = self._bin(whole(data, layout.label, 1), speedup, layout.label)
        filled = text(data, "source_id").startswith(BINFILLER)
        kind, origin = _pair_kind(layout.dataset, data), _origin(layout.dataset, self._context)
        proposers = {layout.anchor: NOT_STATED, layout.candidate: "binfiller" if filled else NOT_STATED}
        rows = [
            kernel_row(problem, family, backend_of(source), source, gpu=gpu, origin=origin, license=None,
                       split=layout.split, proposer=proposer)
            for source, proposer in [(text(data, column), proposer) for column, proposer in proposers.items()]
        ]  # fmt: skip
        search = text(data, "source_search")
        anchor, candidate = (self._kernels.add(row, place) for row in rows)
        self.gpus.setdefault(search, set()).add(gpu)
        self.problems.setdefault(search, set()).add((problem, family))
        occurrence = self._occurrences[layout.dataset, identity]
        self._occurrences[layout.dataset, identity] += 1
        question_id = content_hash("pair", layout.dataset, identity, str(occurrence))
        if layout.dataset == EVAL:
            self.compared.setdefault(identity, []).append((question_id, name))
        self.kernel_ids[layout.dataset].append((anchor["kernel_id"], candidate["kernel_id"]))
        return {
            "question_id": question_id, "kind": kind.value, "author": AuthorClass.OUTSIDE.value, "problem_id": problem,
            "family": family, "backend": candidate["backend"], "gpu": gpu, "workload": None, "split": layout.split,
            "core": False, "anchor_id": anchor["kernel_id"], "candidate_id": candidate["kernel_id"], "pool": None,
            "known_ids": (), "speedup": speedup, "speedup_low": None, "speedup_high": None, "bin": number,
        }  # fmt: skip

    def _bin(self, label: int, speedup: float, field: str) -> int:
        """Our bin of the speedup; a label that says otherwise is refused unless the speedup lies on an edge."""
        number = bin_of(speedup)
        if label != number:
            on_edge = any(math.isclose(speedup, edge, rel_tol=1e-9) for edge in EDGES)
            if label > COUNT or abs(label - number) > 1 or not on_edge:
                raise RowError(field, label, f"contradicts the speedup {speedup!r}, whose bin is {number}")
            self._context.note("labels on an edge that were recomputed from the speedup")
        return number


def _pair_kind(dataset: str, data: Mapping[str, Any]) -> QuestionKind:
    if dataset == PAIRS:
        return QuestionKind.EDIT
    if dataset == EVAL:
        # The release does not say how these anchors and candidates are related.
        return QuestionKind.PAIR
    stated = text(data, "pair_type")
    if stated not in KINDS:
        raise RowError("pair_type", stated, f"must be one of {', '.join(KINDS)}")
    return KINDS[stated]


class PredictionImporter:
    """Published forecasts by surrogate: joined to the evaluation set by position within a comparison id."""

    def __init__(self, compared: Mapping[str, Sequence[tuple[str, str]]], context: Context) -> None:
        """Start empty.

        Args:
            compared: for each comparison id its pairs in the evaluation set's order, each with its pack.
            context: the import.
        """
        self._compared, self._context = compared, context
        self._occurrences: Counter[tuple[str, int, str]] = Counter()
        self._forecasts: dict[str, list[dict[str, Any]]] = {}

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one row.

        Raises:
            RowError: a value is missing, or the row answers nothing in the evaluation set.
        """
        surrogate, comparison = text(data, "surrogate_label"), text(data, "comparison_id")
        repeat = whole(data, "repeat")
        if SAFE_NAME.fullmatch(surrogate) is None:
            raise RowError("surrogate_label", surrogate, "must be a plain name; it becomes a file's")
        pairs = self._compared.get(comparison)
        if pairs is None:
            raise RowError("comparison_id", comparison, "is not in the evaluation set")
        key = (surrogate, repeat, comparison)
        if self._occurrences[key] >= len(pairs):
            raise RowError("comparison_id", comparison, f"occurs more often than in the evaluation set ({len(pairs)})")
        pair_id, pack = pairs[self._occurrences[key]]
        if text(data, "pack") != pack:
            raise RowError("pack", data["pack"], f"the comparison is of pack {pack!r}")
        forecast = {
            "query_id": pair_id, "repeat": repeat, **self._answer(data),
            "input_tokens": optional_whole(data, "input_tokens"),
            "output_tokens": optional_whole(data, "output_tokens"),
            "elapsed_s": non_negative(data, "elapsed_s"),
        }  # fmt: skip
        self._occurrences[key] += 1
        self._forecasts.setdefault(surrogate, []).append(forecast)

    def _answer(self, data: Mapping[str, Any]) -> dict[str, Any]:
        predicted = data.get("predicted_bin")
        if predicted is not None and predicted not in NUMBERS:
            raise RowError("predicted_bin", predicted, f"must be null or one of {NUMBERS}")
        given = _probabilities(data)
        reason = optional_text(data, "parse_error")
        if truth(data, "parse_failed"):
            return {"failure": (reason or "the answer could not be parsed; no more is stated")[:500]}
        total = math.fsum(given)
        if total <= 0:
            why = "no probability was given" if not data.get("bin_probabilities") else "all probabilities are zero"
            return {"failure": why, "raw_sum": 0.0}
        stated = non_negative(data, "raw_probability_sum")
        sums = () if stated is None else (1.0, stated)
        if sums and not any(math.isclose(total, wanted, rel_tol=1e-3, abs_tol=1e-3) for wanted in sums):
            raise RowError("raw_probability_sum", stated, f"the probabilities sum to {total:g}")
        raw = total if stated is None else stated
        if abs(raw - 1) > 1e-6:
            self._context.note("forecasts whose probabilities did not sum to one; normalised, the sum is kept")
        if predicted is not None and given[predicted - 1] < max(given):
            self._context.note("forecasts whose predicted_bin is not their most probable bin; the distribution counts")
        return {"probabilities": [value / total for value in given], "raw_sum": raw}

    def check(self) -> None:
        """Report forecasts that are not there."""
        wanted = sum(map(len, self._compared.values())) * REPEATS
        for surrogate in SURROGATES:
            count = len(self._forecasts.get(surrogate, ()))
            if count != wanted:
                difference = f"forecasts of {surrogate}: {wanted:,} expected, {count:,} found"
                self._context.report.differences.append(difference)

    def write(self, folder: Path, fingerprint: str) -> int:
        """Write one Parquet file per surrogate.

        Args:
            folder: made when missing.
            fingerprint: of the corpus the forecasts are for.

        Returns:
            how many forecasts there are.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = arrow_schema(Forecast).with_metadata({DATASET_KEY: fingerprint})
        folder.mkdir(parents=True, exist_ok=True)
        for surrogate, rows in self._forecasts.items():
            first = min(row["repeat"] for row in rows)
            if first:
                self._context.note(f"repeats of {surrogate} are numbered from {first}; here from 0")
            table = pa.Table.from_pylist([row | {"repeat": row["repeat"] - first} for row in rows], schema=schema)
            pq.write_table(table, folder / f"{surrogate}.parquet", compression="zstd")
        return sum(map(len, self._forecasts.values()))


def _probabilities(data: Mapping[str, Any]) -> list[float]:
    """Eight numbers; bins the list does not name are zero."""
    given: dict[int, float] = {}
    for item in data.get("bin_probabilities") or ():
        if not isinstance(item, Mapping) or item.get("bin") not in NUMBERS:
            raise RowError("bin_probabilities", item, f"each item must name a bin of {NUMBERS}")
        number, value = item["bin"], item.get("p")
        if number in given:
            raise RowError("bin_probabilities", item, "names a bin twice")
        if not is_number(value) or value < 0:
            raise RowError("bin_probabilities", item, "p must be a number of at least 0")
        given[number] = float(value)
    return [given.get(number, 0.0) for number in NUMBERS]


EVENT_KINDS = (
    "search_initialized", "step_started", "mutation_requested", "mutation_completed", "mutation_failed",
    "evaluation_requested", "evaluation_completed", "evaluation_failed", "step_completed",
    "forecast_requested", "forecast_completed", "forecast_failed", "candidate_selected", "candidate_deferred",
    "mutations_drained", "forecasts_drained", "evaluations_drained",
)  # fmt: skip
"""The nine kinds of version 2, then the eight that version 3 adds."""


@dataclasses.dataclass(slots=True)
class PublishedCandidate:
    """One kernel of a search, as far as its events have told."""

    code: str
    parent: str | None
    step: int
    seed: bool = False
    verdict: PublishedVerdict | None = None
    dropped: bool = False


class SearchImporter:
    """One search: events in, kernels with lineage, verdict and figures out.

    Version 2 ties an evaluation to its code by request id; version 3 repeats step, request and parent on each event,
    adds forecasts, and drops candidates before measurement ("deferred" there means dropped, not sent to the GPU).
    """

    def __init__(self, search: str, problem: tuple[str, str], gpu: str | None, context: Context) -> None:
        """Start a search.

        Args:
            search: the search's name.
            problem: our id and family of its problem.
            gpu: what it was measured on, where the release says so.
            context: the import.
        """
        self.search, self.gpu = search, gpu
        self.problem, self.family = problem
        self._context = context
        self._candidates: dict[str, PublishedCandidate] = {}
        self._nodes: dict[str, PublishedCandidate] = {}
        self._step, self._index = 0, -1
        self._forecast = False
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "search_initialized": self._initialized,
            "mutation_completed": self._mutated,
            "evaluation_requested": self._requested,
            "evaluation_completed": self._evaluated,
            "evaluation_failed": self._failed,
            "candidate_deferred": self._dropped,
        }

    def event(self, data: Mapping[str, Any]) -> None:
        """Take one event.

        Raises:
            RowError: an unknown kind, an index out of order, or a field that is missing.
        """
        index, kind = whole(data, "event_index"), text(data, "event_kind")
        if kind not in EVENT_KINDS:
            raise RowError("event_kind", kind, "is not a kind of event this importer knows")
        if index <= self._index:
            raise RowError("event_index", index, f"must be larger than the one before, {self._index}")
        payload = _payload(data)
        if payload.get("kind") not in (None, kind):
            raise RowError("payload.kind", payload["kind"], f"contradicts event_kind {kind!r}")
        self._step = max(self._step, optional_whole(payload, "step") or 0)
        if kind in self._handlers:
            self._handlers[kind](payload)
        self._index = index
        self._forecast |= kind in ("forecast_completed", "candidate_selected")

    def _initialized(self, payload: Mapping[str, Any]) -> None:
        root = mapping(payload, "root")
        candidate, node = PublishedCandidate(text(root, "program_code"), None, 0, seed=True), text(root, "ulid")
        if isinstance(root.get("evaluation"), Mapping) and root["evaluation"].get("observation") is not None:
            candidate.verdict = read_evaluation(root["evaluation"])
        self._candidates[f"root/{node}"] = self._nodes[node] = candidate

    def _mutated(self, payload: Mapping[str, Any]) -> None:
        parent = optional_text(payload, "parent_ulid")
        self._candidates[text(payload, "request_id")] = PublishedCandidate(text(payload, "code"), parent, self._step)

    def _requested(self, payload: Mapping[str, Any]) -> None:
        request, mutation = text(payload, "request_id"), optional_text(payload, "from_mutation_request_id")
        candidate = self._candidates.pop(mutation, None) if mutation else self._candidates.get(request)
        code = optional_text(payload, "code")
        if candidate is None:
            candidate = PublishedCandidate(text(payload, "code"), None, self._step)
        elif code is not None and code != candidate.code:
            raise RowError("code", code, "differs from the code of the mutation it was requested for")
        candidate.parent = optional_text(payload, "parent_ulid") or candidate.parent
        node = optional_text(payload, "child_ulid")
        self._candidates[request] = candidate
        if node is not None:
            self._nodes[node] = candidate

    def _evaluated(self, payload: Mapping[str, Any]) -> None:
        candidate = self._candidate(payload)
        candidate.verdict = read_evaluation(mapping(payload, "evaluation"))
        node = optional_text(payload, "child_ulid")
        if node is not None:
            self._nodes[node] = candidate

    def _failed(self, payload: Mapping[str, Any]) -> None:
        self._candidate(payload).verdict = PublishedVerdict(None, str(payload.get("reason")))

    def _dropped(self, payload: Mapping[str, Any]) -> None:
        self._candidate(payload).dropped = True

    def _candidate(self, payload: Mapping[str, Any]) -> PublishedCandidate:
        request = text(payload, "request_id")
        if request not in self._candidates:
            raise RowError("request_id", request, "no earlier event of the search gives its code")
        return self._candidates[request]

    def kernels(self) -> Iterator[tuple[Row, list[Row]]]:
        """Every kernel of the search, each with its measurements; call it after the last event."""
        origin, method = _origin(EVENTS, self._context), "puct+surrogate" if self._forecast else "puct"
        for request, candidate in self._candidates.items():
            verdict = candidate.verdict
            if verdict is not None and verdict.status is None:
                self._context.note("evaluations the machine failed; their kernels are kept as not measured")
            elif candidate.dropped:
                self._context.note("candidates a forecast dropped before measurement; kept as not measured")
            row = kernel_row(
                self.problem, self.family, backend_of(candidate.code), candidate.code,
                gpu=self.gpu, origin=origin, license=None, split="train",
                search_method=method, proposer="seed" if candidate.seed else "llm", run_id=slug(self.search, "search"),
                step=candidate.step, parent_id=self._parent_id(candidate),
                **(verdict.figures() if verdict is not None else {}),
            )  # fmt: skip
            yield row, list(self._measurements(row, verdict, f"{self.search}/{request}"))

    def _parent_id(self, candidate: PublishedCandidate) -> str | None:
        parent = self._nodes.get(candidate.parent) if candidate.parent is not None else None
        if parent is None:
            if not candidate.seed:
                self._context.null("parent_id", "the events do not tell the parent's code")
            return None
        return None if parent.code == candidate.code else kernel_id(self.problem, backend_of(parent.code), parent.code)

    def _measurements(self, row: Row, verdict: PublishedVerdict | None, place: str) -> Iterator[Row]:
        if verdict is None or verdict.status is None:
            return
        if self.gpu is None:
            self._context.null("gpu", "the events name none, and no pair of the search names exactly one")
            return
        for case in verdict.cases:
            yield measurement_row(row, case.name, place, runtime_us=case.runtime_us, speedup=case.speedup)
        if not verdict.cases:
            yield measurement_row(row, "published", place, speedup=verdict.speedup)


def _payload(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload: a struct, or the same as JSON text."""
    value = data.get("payload")
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, Mapping):
        raise RowError("payload", data.get("payload"), "must be a struct or a JSON object")
    return value


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One workload's figures."""

    name: str
    runtime_us: float | None
    speedup: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class PublishedVerdict:
    """What an evaluation says of a kernel; status None when the machine failed, which says nothing of the kernel."""

    status: Status | None
    error: str | None = None
    cases: tuple[Case, ...] = ()
    stated_speedup: float | None = None

    @property
    def speedup(self) -> float | None:
        """Geometric mean over cases, or what is stated where cases are not."""
        return _mean([case.speedup for case in self.cases]) or self.stated_speedup

    def figures(self) -> Row:
        """The fields of the kernel's row."""
        if self.status is None:
            return {}
        if self.status is not Status.OK:
            return failure(self.status, self.error)
        runtime_us = _mean([case.runtime_us for case in self.cases])
        return {"status": Status.OK.value, "runtime_us": runtime_us, "speedup": self.speedup}


FAILURES = {
    "compile_failed": (Status.COMPILE_ERROR, ("compilation_error",)),
    "runtime_error": (Status.LAUNCH_ERROR, ("runtime_error_name", "runtime_error")),
    "incorrect": (Status.INCORRECT, ("error_message", "correctness_issue")),
}
"""What a kind of feedback means, and the fields that say more."""
INFRASTRUCTURE = "infrastructure_failure"


def read_evaluation(evaluation: Mapping[str, Any]) -> PublishedVerdict:
    """An evaluation's verdict.

    Raises:
        RowError: an unknown kind of feedback, or figures that are missing or impossible.
    """
    observation = mapping(evaluation, "observation")
    feedback = observation.get("feedback")
    feedback = feedback if isinstance(feedback, Mapping) else observation
    kind = text(feedback, "kind")
    if kind == INFRASTRUCTURE:
        return PublishedVerdict(None, str(feedback.get("reason")))
    if kind in FAILURES:
        status, fields = FAILURES[kind]
        words = [str(feedback[field]) for field in fields if feedback.get(field)]
        if "OutOfMemory" in str(feedback.get("runtime_error_name")):
            status = Status.OUT_OF_MEMORY
        return PublishedVerdict(status, ": ".join(words) or f"{kind}; no more is stated")
    if kind != "success":
        raise RowError("kind", kind, f"must be success, {INFRASTRUCTURE} or one of {', '.join(FAILURES)}")
    if feedback.get("per_case_speedups") is not None:
        given = [an_object(case, "per_case_speedups") for case in sequence(feedback, "per_case_speedups")]
        cases = [_case(f"case_{number}", case, "runtime_ns") for number, case in enumerate(given)]
        stated = optional_positive(feedback, "aggregated_speedup")
        if not cases and stated is None:
            raise RowError("aggregated_speedup", None, "a success states a speedup")
        return PublishedVerdict(Status.OK, cases=tuple(cases), stated_speedup=stated)
    if feedback.get("runtime_us") is None:
        return PublishedVerdict(Status.OK, stated_speedup=positive(feedback, "aggregated_speedup"))
    return PublishedVerdict(Status.OK, cases=(_case("published", feedback, "runtime_us"),))


def _case(name: str, case: Mapping[str, Any], field: str) -> Case:
    """Figures of one workload; runtimes that give another speedup than the stated one are refused."""
    speedup = positive(case, "speedup")
    runtime, reference = optional_positive(case, field), optional_positive(case, f"ref_{field}")
    if runtime and reference and not math.isclose(reference / runtime, speedup, rel_tol=0.02):
        raise RowError("speedup", speedup, f"the runtimes give {reference / runtime:g}")
    if runtime is None:
        return Case(name, None, speedup)
    # The `runtime_us` of KernelBench feedback holds milliseconds.
    return Case(name, runtime / 1000.0 if field == "runtime_ns" else runtime * 1000.0, speedup)


def _mean(values: Sequence[float | None]) -> float | None:
    """Geometric mean; None unless every value is known."""
    logs = [math.log(value) for value in values if value is not None]
    return math.exp(math.fsum(logs) / len(logs)) if logs and len(logs) == len(values) else None
