"""From a corpus to questions, and to the training material a surrogate may learn from."""

from __future__ import annotations

import dataclasses
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.questions.asked import (
    KERNEL_COLUMNS,
    PAIR_COLUMNS,
    QUESTION_COLUMNS,
    AskedRows,
    StatedRows,
    Tables,
    asked_gpu,
    asked_row,
    kernels_named,
    known_problems,
    version_of,
)
from kbench.benchmark.questions.corpus_view import CorpusView
from kbench.benchmark.questions.labels import PairLabels, PoolLabels, Strings, floats, strings
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.questions.render import Renderer, reference_query_id
from kbench.benchmark.questions.versions import StatedCorpus
from kbench.benchmark.tracks import SELECT, TRACK_NAMES, asked_by
from kbench.loaders.source.normalise import normalised
from kbench.loaders.source.strip import stripped
from kbench.loaders.summary.counts import distinct
from kbench.schemas import Backend, Pair, PairKind, Query, Status, UnknownNameError, UserError, bins

TEST_SPLITS = ("test", "test_near", "test_seen")
TRAIN_SPLITS = ("train", "validation")
SUBSETS = ("core",)
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
        shots: how many known kernels a query shows, where the corpus states which; `with_shots` sees to the others.

    Raises:
        UserError: an unknown track, split, subset or problem, a limit below one, or a split that holds nothing.
    """
    names = asked_by(version_of(corpus), _checked(tracks, split, limit, subset))
    if not names:
        raise UserError(f"these questions are not those of {', '.join(tracks)}; leave --tracks out")
    rows: AskedRows | StatedRows
    stated = version_of(corpus) == StatedCorpus.benchmark
    rows = StatedRows(corpus, split, names, shots) if stated else AskedRows(corpus, split, names)
    if subset is not None:
        rows.pairs, rows.pools = ([row for row in part if row["core"]] for part in (rows.pairs, rows.pools))
    asked = sorted({row["query_id"] for row in (*rows.pairs, *rows.pools)})
    if not asked:
        raise UserError(f"split {split!r} holds no pair and no measured kernel; choose another with --split")
    kept = sorted(_about(rows, problems)) if problems else asked
    kept = kept if limit is None else kept[:limit]
    position = {query_id: index for index, query_id in enumerate(kept)}
    pair_rows = [row for row in rows.pairs if row["query_id"] in position]
    pool_rows = [row for row in rows.pools if row["query_id"] in position]
    prior, kind_priors, valid_rate, trained = _training_facts(corpus)
    return Questions(
        dataset=corpus.fingerprint,
        split=split,
        queries=_render(corpus, split, kept, pair_rows, pool_rows, shots),
        tracks=names,
        pair_queries=np.unique(np.array([position[row["query_id"]] for row in pair_rows], dtype=np.int64)),
        pairs=_pair_labels([row for row in pair_rows if row["speedup"] is not None], position, rows.runtimes),
        pools=_pool_labels(pool_rows, position),
        prior=prior,
        kind_priors=kind_priors,
        valid_rate=valid_rate,
        trained=trained,
        measure_seconds=_measure_seconds(corpus) if SELECT.name in names else None,
        limited=len(kept) < len(asked),
        benchmark=version_of(corpus),
        subset=subset,
        shots=shots,
        gpu=asked_gpu(corpus),
    )


def _about(rows: AskedRows | StatedRows, problems: Sequence[str]) -> set[str]:
    """The queries about some problems."""
    known = {row["problem_id"] for row in (*rows.pairs, *rows.pools)}
    for name in problems:
        if name not in known:
            raise UnknownNameError("problem of the split", name, known)
    return {row["query_id"] for row in (*rows.pairs, *rows.pools) if row["problem_id"] in problems}


def training_pairs(corpus: Tables, splits: Sequence[str] = TRAIN_SPLITS) -> Iterator[tuple[Query, Pair]]:
    """Queries with their answers, from training splits alone.

    Raises:
        UserError: for a split that is kept for testing.
    """
    for split in splits:
        _check_training(split)
        yield from answered_pairs(corpus, split)


def answered_pairs(corpus: Tables, split: str) -> Iterator[tuple[Query, Pair]]:
    """Queries of one split with their answers."""
    pairs = corpus.table("pairs", split=split, columns=PAIR_COLUMNS).to_pylist()
    renderer = _renderer(corpus, {r["candidate_id"] for r in pairs} | {r["anchor_id"] for r in pairs}, split)
    for row in pairs:
        pair = Pair(**row | {"backend": Backend(row["backend"]), "kind": PairKind(row["kind"])})
        yield _pair_query(renderer, row["pair_id"], row), pair


def stated_queries(
    corpus: Tables, split: str, shots: int = 0, subset: str | None = None
) -> Iterator[tuple[Query, dict[str, Any]]]:
    """Every question that a corpus states about one split, on all of its GPUs, as a query with its row.

    Args:
        corpus: a corpus with config questions.
        split: any of its splits.
        shots: how many known kernels a query shows.
        subset: `core` for that part alone.
    """
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
        yield _reference_query(renderer, reference_query_id(row["kernel_id"], row["gpu"]), row), row


def _check_training(split: str) -> None:
    if split not in TRAIN_SPLITS:
        raise UserError(f"split {split!r} is kept for testing; a surrogate may be fitted on {TRAIN_SPLITS} only")


def _checked(tracks: Iterable[str], split: str, limit: int | None, subset: str | None) -> tuple[str, ...]:
    asked = tuple(tracks)
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
    return tuple(track for track in TRACK_NAMES if track in asked)


def _renderer(corpus: Tables, kernel_ids: set[str | None], split: str, problem_ids: set[str] | None = None) -> Renderer:
    """What renders queries of a split about these kernels; sources are read of these problems alone, where named."""
    environments = corpus.table("environments").to_pylist() if "environments" in corpus.configs else []
    # Pairs that a corpus states by itself may name kernels of any split.
    within: dict[str, Any] = {} if version_of(corpus) is None else {"split": split}
    if problem_ids is not None and isinstance(corpus, CorpusView):
        # Other views join corpora, and a corpus refuses names of problems that it does not have.
        within["problem_id"] = sorted(problem_ids)
    if version_of(corpus) != StatedCorpus.benchmark:
        return Renderer(problems_of(corpus), _texts_of(corpus, kernel_ids, "source", within), environments, stripped)
    texts = _texts_of(corpus, kernel_ids, "normalised", within)
    whole = _texts_of(corpus, {kernel_id for kernel_id, text in texts.items() if text is None}, "source", within)
    return Renderer(problems_of(corpus), texts | {key: normalised(whole[key]) for key in whole}, environments, str)


def _texts_of(corpus: Tables, kernel_ids: set[str | None], column: str, within: dict[str, Any]) -> dict[str, Any]:
    rows = kernels_named(corpus, kernel_ids, ["kernel_id", column], **within)
    return {row["kernel_id"]: row[column] for row in rows}


def problems_of(corpus: Tables) -> dict[str, dict[str, Any]]:
    """Rows of the problems by id; the registry's for an imported corpus that brings none of its own."""
    return {row["problem_id"]: row for row in corpus.table("problems").to_pylist()} or known_problems()


def _reference_query(renderer: Renderer, query_id: str, row: dict[str, Any]) -> Query:
    gpu = row["gpu"] or "unknown"
    return renderer.query(query_id, row["problem_id"], row["backend"], PairKind.REFERENCE, None, row["kernel_id"], gpu)


def _pair_query(renderer: Renderer, query_id: str, row: dict[str, Any]) -> Query:
    facts: list[Any] = [row.get(name) for name in RENDERED]
    return renderer.query(query_id, *facts)


def _render(
    corpus: Tables, split: str, kept: list[str], pairs: list[dict[str, Any]], pools: list[dict[str, Any]], shots: int
) -> tuple[Query, ...]:
    ids = {row["candidate_id"] for row in pairs} | {row["anchor_id"] for row in pairs}
    problems = {row["problem_id"] for row in (*pairs, *pools)}
    known = {row["query_id"]: row["known_ids"][:shots] for row in (*pairs, *pools)} if shots else {}
    shown = {kernel_id for of_query in known.values() for kernel_id in of_query}
    renderer = _renderer(corpus, ids | shown | {row["kernel_id"] for row in pools}, split, problems)
    found = {row["query_id"]: _reference_query(renderer, row["query_id"], row) for row in pools}
    for row in pairs:
        if row["query_id"] not in found:
            found[row["query_id"]] = _pair_query(renderer, row["query_id"], row)
    if not known:
        return tuple(found[query_id] for query_id in kept)
    rows = kernels_named(corpus, shown, ["kernel_id", "gpu", "backend", "speedup"], split=split)
    shots_of = {(row["kernel_id"], row["gpu"]): renderer.known(row) for row in rows}
    return tuple(
        dataclasses.replace(query, known=tuple(shots_of[kernel_id, query.gpu] for kernel_id in known[query.query_id]))
        for query in (found[query_id] for query_id in kept)
    )


def _pair_labels(
    rows: list[dict[str, Any]], position: dict[str, int], runtimes: dict[tuple[str, str], float | None]
) -> PairLabels:
    rows = sorted(rows, key=lambda row: (row["query_id"], row["pair_id"]))
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
        author=strings([row.get("author") or "" for row in rows]),
    )


def _pool_labels(rows: list[dict[str, Any]], position: dict[str, int]) -> PoolLabels:
    return PoolLabels(
        **_shared(rows, position),
        pool=strings([row.get("pool") or f"{row['problem_id']} on {row['gpu']}" for row in rows]),
        valid=np.array([row["status"] == Status.OK for row in rows], dtype=np.bool_),
        asked_valid=np.array([row["asked_valid"] for row in rows], dtype=np.bool_),
        runtime_us=_numbers(rows, "runtime_us"),
        runtime_low_us=_numbers(rows, "runtime_low_us"),
        runtime_high_us=_numbers(rows, "runtime_high_us"),
        proposer=_texts(rows, "proposer"),
        candidate=_texts(rows, "kernel_id"),
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


def _training_facts(corpus: Tables) -> tuple[Floats, dict[str, Floats], float, bool]:
    """Bin frequencies over all pairs and by kind, the share of correct kernels, and whether there is any pair.

    On the GPU asked about; on all of them where training has none of it, as when it is held out.
    """
    gpu = asked_gpu(corpus)
    counts = {} if gpu is None else _bin_counts(corpus, gpu=gpu)
    counts = counts or _bin_counts(corpus)
    statuses: Counter[tuple[str | None, str | None]] = Counter()
    for part in corpus.batches("kernels", columns=["status", "gpu"], split="train"):
        rows = part.group_by(["status", "gpu"]).aggregate([([], "count_all")]).to_pylist()
        statuses.update({(row["status"], row["gpu"]): row["count_all"] for row in rows})
    measured = {key: count for key, count in statuses.items() if key[0]}
    measured = {key: count for key, count in measured.items() if gpu is None or key[1] in (gpu, None)} or measured
    valid = sum(count for (status, _), count in measured.items() if status == Status.OK)
    none = np.zeros(bins.COUNT, dtype=np.int64)
    by_kind = {kind.value: _shares(counts.get(kind.value, none)) for kind in PairKind}
    return _shares(sum(counts.values(), none)), by_kind, (valid + 1) / (sum(measured.values()) + 2), bool(counts)


def _bin_counts(corpus: Tables, **filters: Any) -> dict[str, Ints]:
    """How many training pairs of each kind lie in each bin; kinds that occur alone."""
    counts: dict[str, Ints] = {}
    for part in corpus.batches("pairs", columns=["speedup", "kind"], split="train", **filters):
        numbers, kinds = bins.bins_of(part.column("speedup").to_numpy()), part.column("kind").to_numpy()
        for kind in part.column("kind").unique().to_pylist():
            found = np.bincount(numbers[kinds == kind] - 1, minlength=bins.COUNT)
            counts[kind] = counts[kind] + found if kind in counts else found
    return counts


def _shares(counts: Ints) -> Floats:
    """Frequencies of the bins, with one imagined pair per bin so that none is impossible."""
    result: Floats = (counts + 1.0) / (counts + 1.0).sum()
    return result


def _measure_seconds(corpus: Tables) -> float | None:
    """Mean seconds that a kernel took on the GPU asked about; None where measurements do not say what they cost."""
    gpu, seconds, said, kernels = asked_gpu(corpus), 0.0, False, array("Q")
    filters = {} if gpu is None else {"gpu": gpu}
    for part in corpus.batches("measurements", columns=["kernel_id", "gpu", "verify_s", "time_s"], **filters):
        said = said or part.column("time_s").null_count < part.num_rows
        seconds += sum(float(np.nansum(part.column(name).to_numpy())) for name in ("verify_s", "time_s"))
        rows = part.group_by(["kernel_id", "gpu"]).aggregate([]).to_pylist()
        # Hashes: the texts of ten million kernels would not fit.
        kernels.extend(hash((row["kernel_id"], row["gpu"])) % 2**64 for row in rows)
    return seconds / distinct(kernels) if said else None
