"""From a corpus to questions, and to the training material a surrogate may learn from."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from kbench import __version__
from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.questions.asked import (
    KERNEL_COLUMNS,
    KINDS,
    QUESTION_COLUMNS,
    AskedRows,
    Tables,
    asked_gpu,
    asked_row,
    kernels_named,
    known_problems,
)
from kbench.benchmark.questions.corpus_view import CorpusView
from kbench.benchmark.questions.questions import PairLabels, PoolLabels, Questions, Strings, floats, strings
from kbench.benchmark.questions.render import Renderer, reference_query_id
from kbench.benchmark.tracks import SELECT, SHOTS, TRACK_NAMES
from kbench.loaders.corpus.places import data_home
from kbench.loaders.source.normalise import normalised
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import (
    AuthorClass,
    Backend,
    KbenchError,
    PairKind,
    Query,
    Question,
    QuestionKind,
    UnknownNameError,
    UserError,
    bins,
)
from kbench.schemas.ids import content_hash

TEST_SPLITS = ("test", "test_near", "test_seen")
TRAIN, VALIDATION = TRAIN_SPLITS = ("train", "validation")
SUBSETS = ("core",)
ENUMS: Mapping[str, type[StrEnum]] = {"kind": QuestionKind, "author": AuthorClass, "backend": Backend}
"""Columns of a question that are enumerations."""
ROOT = Path(__file__).resolve().parents[2]
CODE = ("benchmark/questions", "loaders/source", "schemas")
"""Folders whose code decides what the pairs are and say."""
MOST_FILES = 3
RENDERED = ("problem_id", "backend", "kind", "anchor_id", "candidate_id", "gpu", "workload")


def build_questions(
    corpus: Tables,
    split: str = "test",
    tracks: Iterable[str] = TRACK_NAMES,
    limit: int | None = None,
    subset: str | None = None,
    problems: Sequence[str] = (),
    shots: int = 0,
) -> Questions:
    """Everything asked on one split.

    Args:
        corpus: an opened corpus.
        split: test (unseen problems), test_near (unseen problems of a seen template), test_seen (unseen kernels of
            seen problems), or validation.
        tracks: which tracks to ask.
        limit: at most this many queries, taken by ascending id, which is as good as at random.
        subset: `core` for a fixed part of the split; all of it by default.
        problems: ask about these alone.
        shots: how many known kernels a query shows: 0, 2 or 8.
    """
    names = check_selection(tracks, split, limit, subset, shots)
    check_problems(corpus, split, problems)
    rows = AskedRows(corpus, split, names, shots)
    if subset is not None:
        rows.pairs, rows.pools = ([row for row in part if row["core"]] for part in (rows.pairs, rows.pools))
    asked = sorted({row["query_id"] for row in (*rows.pairs, *rows.pools)})
    if not asked:
        raise UserError(f"split {split!r} holds no question; choose another with --split")
    if shots and not any(row["known_ids"] for row in (*rows.pairs, *rows.pools)):
        raise UserError(f"split {split!r} sets no kernels aside to be shown; ask it with --shots 0")
    every = (*rows.pairs, *rows.pools)
    kept = sorted({row["query_id"] for row in every if not problems or row["problem_id"] in problems})
    if not kept:
        raise UserError(f"this GPU, subset and tracks ask nothing about {' and '.join(problems)}; ask about another")
    kept = kept if limit is None else kept[:limit]
    position = {query_id: index for index, query_id in enumerate(kept)}
    pair_rows = [row for row in rows.pairs if row["query_id"] in position]
    pool_rows = [row for row in rows.pools if row["query_id"] in position]
    # Training pairs on the GPU asked about; on all where training has none of it, as when it is held out.
    counts, none = _bin_counts(corpus, asked_gpu(corpus)) or _bin_counts(corpus, None), np.zeros(bins.COUNT, np.int64)
    return Questions(
        dataset=corpus.fingerprint,
        split=split,
        queries=_render(corpus, split, kept, pair_rows, pool_rows, shots),
        tracks=names,
        pair_queries=np.unique(np.array([position[row["query_id"]] for row in pair_rows], dtype=np.int64)),
        pairs=_pair_labels([row for row in pair_rows if row["speedup"] is not None], position, rows.runtimes),
        pools=_pool_labels(pool_rows, position),
        prior=_shares(sum(counts.values(), none)),
        kind_priors={kind.value: _shares(counts.get(kind.value, none)) for kind in PairKind},
        trained=bool(counts),
        measure_seconds=_measure_seconds(corpus) if SELECT.name in names else None,
        limited=len(kept) < len(asked),
        subset=subset,
        shots=shots,
        gpu=asked_gpu(corpus),
    )


def check_problems(corpus: Tables, split: str, problems: Sequence[str]) -> None:
    """Refuse problems that a split does not ask about, before its rows are read."""
    stated = corpus.table("questions", columns=["problem_id", "split"]).to_pylist() if problems else []
    for name in problems:
        splits = {row["split"] for row in stated if row["problem_id"] == name}
        if not splits:
            raise UnknownNameError("problem", name, {row["problem_id"] for row in stated})
        if split not in splits:
            raise UserError(f"problem {name!r} is in {' and '.join(sorted(splits))}, not in {split}")


def training_pairs(corpus: Tables, splits: Sequence[str] = TRAIN_SPLITS) -> Iterator[tuple[Query, Question]]:
    """Queries with their answers, from training splits alone, over all workloads.

    Raises:
        UserError: for a split that is kept for testing.
    """
    for split in splits:
        _check_training(split)
        yield from answered_pairs(corpus, split)


def answered_pairs(corpus: Tables, split: str) -> Iterator[tuple[Query, Question]]:
    """Queries of one split about all workloads, with their answers."""
    rows = corpus.table("questions", split=split).to_pylist()
    rows = [row for row in rows if row["workload"] is None and row["speedup"] is not None]
    renderer = _renderer(corpus, {r["candidate_id"] for r in rows} | {r["anchor_id"] for r in rows}, split)
    for row in rows:
        typed = {name: kind(row[name]) for name, kind in ENUMS.items()} | {"known_ids": tuple(row["known_ids"])}
        yield _pair_query(renderer, asked_row(row)), Question(**row | typed)


def stated_queries(
    corpus: Tables, split: str, shots: int = 0, subset: str | None = None
) -> Iterator[tuple[Query, dict[str, Any]]]:
    """Every question that a corpus states about one split, on all of its GPUs, as a query with its row."""
    rows = map(asked_row, corpus.table("questions", split=split, columns=QUESTION_COLUMNS).to_pylist())
    asked = [row for row in rows if subset is None or row["core"]]
    queries = _render(corpus, split, [row["query_id"] for row in asked], asked, [], shots)
    yield from zip(queries, asked, strict=True)


def training_kernels(corpus: Tables, splits: Sequence[str] = TRAIN_SPLITS) -> Iterator[tuple[Query, dict[str, Any]]]:
    """Every measured training kernel, failures included, asked against the reference, with its row.

    Raises:
        UserError: for a split that is kept for testing.
    """
    for split in splits:
        _check_training(split)
        yield from measured_kernels(corpus, split)


def measured_kernels(corpus: Tables, split: str) -> Iterator[tuple[Query, dict[str, Any]]]:
    """Every measured kernel of one split, asked against the reference, with its row."""
    kernels = corpus.table("kernels", split=split, columns=KERNEL_COLUMNS).to_pylist()
    rows = [row for row in kernels if row["status"]]
    renderer = _renderer(corpus, {row["kernel_id"] for row in rows}, split)
    for row in rows:
        query_id, gpu = reference_query_id(row["kernel_id"], row["gpu"]), row["gpu"] or "unknown"
        facts = (row["problem_id"], row["backend"], PairKind.REFERENCE, None, row["kernel_id"], gpu)
        yield renderer.query(query_id, *facts), row


def _check_training(split: str) -> None:
    if split not in TRAIN_SPLITS:
        raise UserError(f"split {split!r} is kept for testing; a surrogate may be fitted on {TRAIN_SPLITS} only")


def check_selection(
    tracks: Iterable[str], split: str, limit: int | None, subset: str | None, shots: int
) -> tuple[str, ...]:
    """The tracks in their order, once everything that was asked for exists."""
    asked = tuple(name.strip() for name in tracks.split(",")) if isinstance(tracks, str) else tuple(tracks)
    for track in asked:
        if track not in TRACK_NAMES:
            raise UnknownNameError("track", track, TRACK_NAMES)
    if not asked:
        raise UserError(f"no track was asked for; choose from {', '.join(TRACK_NAMES)}")
    if split not in (*TEST_SPLITS, "validation"):
        raise UnknownNameError("split", split, (*TEST_SPLITS, "validation"))
    if subset not in (None, *SUBSETS):
        raise UnknownNameError("subset", str(subset), SUBSETS)
    if limit is not None and limit < 1:
        raise UserError(f"limit is {limit}; it must be at least 1")
    if shots not in SHOTS:
        raise UserError(f"shots is {shots}; it must be one of {', '.join(map(str, SHOTS))}")
    return tuple(track for track in TRACK_NAMES if track in asked)


def _renderer(corpus: Tables, kernel_ids: set[str | None], split: str, problem_ids: set[str] | None = None) -> Renderer:
    """What renders queries of a split about these kernels; sources are read of these problems alone, where named."""
    environments = corpus.table("environments").to_pylist() if "environments" in corpus.configs else []
    within: dict[str, Any] = {}
    if problem_ids is not None and isinstance(corpus, CorpusView):
        # Other views join corpora, and a corpus refuses names of problems that it does not have.
        within["problem_id"] = sorted(problem_ids)
    texts = _texts_of(corpus, kernel_ids, "normalised", split, within)
    bare = {kernel_id for kernel_id, text in texts.items() if text is None}
    # Imported kernels are stored as they were found.
    texts |= {key: normalised(text) for key, text in _texts_of(corpus, bare, "source", split, within).items()}
    return Renderer(problems_of(corpus), texts, environments)


def _texts_of(
    corpus: Tables, kernel_ids: Iterable[str | None], column: str, split: str, within: dict[str, Any]
) -> dict[str, Any]:
    rows = kernels_named(corpus, kernel_ids, ["kernel_id", column], split, **within)
    return {row["kernel_id"]: row[column] for row in rows}


def problems_of(corpus: Tables) -> dict[str, dict[str, Any]]:
    """Rows of the problems by id; the registry's for an imported corpus that brings none of its own."""
    return {row["problem_id"]: row for row in corpus.table("problems").to_pylist()} or known_problems()


def _pair_query(renderer: Renderer, row: dict[str, Any]) -> Query:
    facts: list[Any] = [row[name] for name in RENDERED]
    return renderer.query(row["query_id"], *facts)


def _render(
    corpus: Tables, split: str, kept: list[str], pairs: list[dict[str, Any]], pools: list[dict[str, Any]], shots: int
) -> tuple[Query, ...]:
    asked = {row["query_id"]: row for row in (*pairs, *pools)}
    ids = {row[end] for row in asked.values() for end in ("anchor_id", "candidate_id")}
    known = {query_id: row["known_ids"][:shots] for query_id, row in asked.items()} if shots else {}
    shown = {kernel_id for of_query in known.values() for kernel_id in of_query}
    renderer = _renderer(corpus, ids | shown, split, {row["problem_id"] for row in asked.values()})
    found = {query_id: _pair_query(renderer, row) for query_id, row in asked.items()}
    if not known:
        return tuple(found[query_id] for query_id in kept)
    rows = kernels_named(corpus, shown, ["kernel_id", "gpu", "backend", "speedup"], split)
    shots_of = {(row["kernel_id"], row["gpu"]): renderer.known(row) for row in rows}
    return tuple(
        dataclasses.replace(query, known=tuple(shots_of[kernel_id, query.gpu] for kernel_id in known[query.query_id]))
        for query in (found[query_id] for query_id in kept)
    )


def _pair_labels(
    rows: list[dict[str, Any]], position: dict[str, int], runtimes: dict[tuple[str, str], float | None]
) -> PairLabels:
    rows = sorted(rows, key=lambda row: str(row["query_id"]))
    return PairLabels(
        **_shared(rows, position),
        # From the raw speedup, never from a stored label: imported labels need not follow these edges.
        bin=bins.bins_of(_numbers(rows, "speedup")),
        speedup_low=_numbers(rows, "speedup_low"),
        speedup_high=_numbers(rows, "speedup_high"),
        runtime_us=floats([runtimes.get((row["candidate_id"], row["gpu"])) for row in rows]),
        kind=_texts(rows, "kind"),
        relation=_texts(rows, "relation"),
        origin=_texts(rows, "origin"),
        candidate=_texts(rows, "candidate_id"),
        author=_texts(rows, "author"),
    )


def _pool_labels(rows: list[dict[str, Any]], position: dict[str, int]) -> PoolLabels:
    return PoolLabels(
        **_shared(rows, position),
        pool=_texts(rows, "pool"),
        valid=np.array([row["speedup"] is not None for row in rows], dtype=np.bool_),
        runtime_us=_numbers(rows, "runtime_us"),
        runtime_low_us=_numbers(rows, "runtime_low_us"),
        runtime_high_us=_numbers(rows, "runtime_high_us"),
        candidate=_texts(rows, "candidate_id"),
    )


def _shared(rows: list[dict[str, Any]], position: dict[str, int]) -> dict[str, Any]:
    """What labels of pairs and of pools have in common."""
    texts = {"problem": "problem_id", "family": "family", "backend": "backend", "split": "split"}
    query = np.array([position[row["query_id"]] for row in rows], dtype=np.int64)
    columns: dict[str, Any] = {name: _texts(rows, column) for name, column in texts.items()}
    columns["core"] = np.array([row["core"] for row in rows], dtype=np.bool_)
    return {"query": query, "speedup": _numbers(rows, "speedup"), **columns}


def _numbers(rows: list[dict[str, Any]], name: str) -> Floats:
    return floats([row[name] for row in rows])


def _texts(rows: list[dict[str, Any]], name: str) -> Strings:
    return strings([str(row[name]) for row in rows])


def _bin_counts(corpus: Tables, gpu: str | None) -> dict[str, Ints]:
    """How many training pairs on a GPU, or on all, lie in each bin, by kind; kinds that occur alone."""
    import pyarrow.compute as pc

    counts: dict[str, Ints] = {}
    counted = pc.field("workload").is_null() & pc.field("speedup").is_valid()
    if gpu is not None:
        # Not a filter of the corpus, which refuses a GPU that it does not have: it may have learnt elsewhere.
        counted &= pc.field("gpu") == gpu
    for part in corpus.batches("questions", columns=["speedup", "kind", "workload", "gpu"], split="train"):
        part = part.filter(counted)
        numbers, kinds = bins.bins_of(part.column("speedup").to_numpy()), part.column("kind").to_numpy()
        for kind in part.column("kind").unique().to_pylist():
            found = np.bincount(numbers[kinds == kind] - 1, minlength=bins.COUNT)
            counts[KINDS[kind]] = counts.get(KINDS[kind], 0) + found
    return counts


def _shares(counts: Ints) -> Floats:
    """Frequencies of the bins, with one imagined pair per bin so that none is impossible."""
    return (counts + 1.0) / (counts + 1.0).sum()


def _measure_seconds(corpus: Tables) -> float | None:
    """Mean seconds that a kernel took on the GPU asked about; None where measurements do not say what they cost."""
    gpu, seconds, said, kernels = asked_gpu(corpus), 0.0, False, set[int]()
    filters = {} if gpu is None else {"gpu": gpu}
    for part in corpus.batches("measurements", columns=["kernel_id", "gpu", "verify_s", "time_s"], **filters):
        said = said or part.column("time_s").null_count < part.num_rows
        seconds += sum(float(np.nansum(part.column(name).to_numpy())) for name in ("verify_s", "time_s"))
        rows = part.group_by(["kernel_id", "gpu"]).aggregate([]).to_pylist()
        # Hashes: the texts of ten million kernels would not fit.
        kernels.update(hash((row["kernel_id"], row["gpu"])) for row in rows)
    return seconds / len(kernels) if said else None


def training_file(corpus: Tables, splits: tuple[str, ...] = TRAIN_SPLITS) -> Path | None:
    """The pickled training pairs of a corpus's splits, made where they are not there yet.

    Returns:
        None for a view of a corpus, such as one without a GPU, and where the data folder cannot be written.
    """
    if not isinstance(corpus, CorpusView):
        return None
    # Sizes and times of our own files: whoever changes kbench gets other pairs.
    code = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))
    states = (f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in code)
    made_of = content_hash("training", __version__, corpus.fingerprint, *splits, *states)
    file = data_home() / "training" / f"{made_of}.pickle"
    if not file.is_file():
        pairs = list(training_pairs(corpus, splits))
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, pickle.dumps(pairs))
            files = sorted(file.parent.glob("*.pickle"), key=lambda path: path.stat().st_mtime, reverse=True)
            for old in files[MOST_FILES:]:
                old.unlink(missing_ok=True)
        except (OSError, KbenchError):
            return None
    return file
