"""The life of a season: open it, let entries in, close it with measurements. The clock is passed in."""

from __future__ import annotations

import dataclasses
import datetime
import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.problems.registry import listed
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.tasks import Questions
from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.tracks import FORECAST
from kbench.leaderboard.board import score_all
from kbench.leaderboard.scoring.results import Results, entry_id, results_text
from kbench.leaderboard.season import questions as asking
from kbench.leaderboard.season.record import FILE, Closing, Season, SeasonEntry, instant, read_season, written
from kbench.leaderboard.season.sources import UNMEASURED
from kbench.leaderboard.submission.archive import read_files
from kbench.leaderboard.submission.check import check
from kbench.leaderboard.submission.labels import packed_labels, read_queries, write_queries
from kbench.leaderboard.submission.rules import Expected
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.storage.atomic import remove_leftovers, replace_together, whole_folder
from kbench.schemas import DataError, Kernel, Trust, UserError

SEASONS = Path(__file__).parents[1] / "seasons"
"""Where seasons are published, one folder each."""
KERNELS, QUERIES, ENTRIES, RESULTS, LABELS = "kernels", "queries", "entries", "results", "labels.parquet"


def open_season(folder: Path, kernels: Sequence[Kernel], dataset: Tables, gpu: str, now: datetime.datetime) -> Season:
    """Publish queries about kernels that nobody has measured.

    Args:
        folder: the season's; its name is the season's name.
        kernels: what is asked about; `fresh` has checked them.
        dataset: what surrogates may learn from.
        gpu: the GPU that is asked about.
        now: the date of opening.

    Raises:
        UserError: there is such a season already.
    """
    if folder.exists():
        raise UserError(f"season {folder.name!r} exists; choose another name")
    problems = sorted({kernel.problem_id for kernel in kernels})
    with whole_folder(folder) as aside:
        with CorpusWriter(aside / KERNELS) as writer:
            writer.append("problems", [listed(problem).record() for problem in problems])
            writer.append("kernels", kernels)
        corpus = asking.season_corpus(Corpus.open(aside / KERNELS), gpu, dataset)
        asked = asking.season_questions(corpus)
        season = Season(
            schema_version=Season.VERSION, name=folder.name, opened_at=written(now), gpu=gpu, kernels=len(kernels),
            queries=len(asked.queries), fingerprint=asking.fingerprint(asking.by_track(asked)),
            trained_on=dataset.fingerprint,
        )  # fmt: skip
        write_queries(dataclasses.replace(asked, dataset=season.fingerprint), aside / QUERIES)
        (aside / FILE).write_bytes(season.to_bytes())
    return season


def questions_of(folder: Path, season: Season, dataset: Tables, figures: Mapping[str, Any] | None = None) -> Questions:
    """The season's questions, with labels where there are figures.

    Raises:
        UserError: the dataset is another than the season was opened on.
        DataError: the published queries were changed, or are not about the season's kernels.
    """
    if dataset.fingerprint != season.trained_on:
        raise UserError(
            f"season {season.name!r} was opened on dataset {season.trained_on}, this is {dataset.fingerprint}; "
            "name that one with --dataset"
        )
    made = asking.season_questions(corpus_of(folder, season, dataset, figures))
    if {query.query_id for query in made.queries} != set(_expected(folder, season).query_ids):
        raise DataError(f"{folder / KERNELS} holds other kernels than the queries are about; restore both")
    return dataclasses.replace(made, dataset=season.fingerprint)


def corpus_of(folder: Path, season: Season, dataset: Tables, figures: Mapping[str, Any] | None = None) -> Tables:
    """The season's kernels to be asked about, with the dataset's training rows."""
    return asking.season_corpus(Corpus.open(folder / KERNELS), season.gpu, dataset, figures)


def _expected(folder: Path, season: Season) -> Expected:
    """What an entry must answer: the queries as they were published."""
    queries, _ = read_queries(folder / QUERIES)
    if asking.fingerprint(queries) != season.fingerprint:
        raise DataError(f"{folder / QUERIES} was changed after the season opened; restore it from the repository")
    ids = sorted({query.query_id for found in queries.values() for query in found})
    return Expected(season.fingerprint, ids, frozenset(query.query_id for query in queries[FORECAST.name]))


def enter(folder: Path, path: Path, now: datetime.datetime) -> SeasonEntry:
    """Copy a submission into an open season, and record its digest and the date.

    Raises:
        UserError: the season is closed, the submission has problems, or its name and version have entered before.
    """
    remove_leftovers(folder)
    season = read_season(folder)
    if season.closing is not None:
        raise UserError(f"season {season.name!r} closed on {season.closing.closed_at}; enter the next one")
    checked = check(path, _expected(folder, season))
    if checked.submission is None or not checked.ok:
        more = f" (and {len(checked.flaws) - 1} more)" if checked.flaws[1:] else ""
        raise UserError(f"{path}: {checked.flaws[0]}{more}")
    entry = SeasonEntry(entry_id=entry_id(checked.submission), digest=checked.digest, entered_at=written(now))
    before = next((one for one in season.entries if one.entry_id == entry.entry_id), None)
    if before is not None:
        how = "unchanged" if before.digest == entry.digest else "with other files"
        raise UserError(f"{entry.entry_id} entered {how} on {before.entered_at}; to enter again, raise the version")
    files: dict[str, bytes | None] = {f"{ENTRIES}/{entry.entry_id}/{name}": d for name, d in read_files(path).items()}
    files[FILE] = dataclasses.replace(season, entries=(*season.entries, entry)).to_bytes()
    replace_together(folder, files)
    return entry


def close(
    folder: Path,
    measured: Corpus,
    dataset: Tables,
    now: datetime.datetime,
    settings: BootstrapSettings | None = None,
    tell: Callable[[str], None] = lambda name: None,
) -> tuple[Season, list[Results]]:
    """Label the queries with measurements, score the entries, and publish both.

    Entries that changed since they entered, or entered after measuring began, are refused; the others are scored.

    Args:
        folder: the season's.
        measured: measurements of exactly its kernels, made after it opened.
        dataset: the dataset it was opened on.
        now: the date of closing.
        settings: of the bootstrap.
        tell: called with each entry's name before it is scored.

    Raises:
        UserError: the season is closed, or the measurements are not of its kernels, GPU and time.
    """
    remove_leftovers(folder)
    season = read_season(folder)
    if season.closing is not None:
        raise UserError(f"season {season.name!r} closed on {season.closing.closed_at}; its scores are in {RESULTS}/")
    ids = Corpus.open(folder / KERNELS).table("kernels", columns=["kernel_id"]).column("kernel_id").to_pylist()
    figures = _figures(measured, season, ids)
    began = _first_measured(measured, season, set(ids), now)
    asked = questions_of(folder, season, dataset, figures)
    paths, refused = _frozen(folder, season, began)
    results = score_all(paths, asked, settings, tell) if paths else []
    closing = Closing(
        closed_at=written(now), measured_from=written(began), measurements_fingerprint=measured.fingerprint,
        refused=tuple(refused),
    )  # fmt: skip
    season = dataclasses.replace(season, closing=closing)
    files: dict[str, bytes | None] = {LABELS: packed_labels(asked), FILE: season.to_bytes()}
    # Packed: the scores of all slices are a third of a megabyte per entry. No time stamp: the same bytes again.
    files |= {
        f"{RESULTS}/{result.entry_id}.json.gz": gzip.compress(results_text(result).encode(), mtime=0)
        for result in results
    }
    replace_together(folder, files)
    return season, results


def _figures(measured: Corpus, season: Season, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What was measured of every kernel on the season's GPU, by kernel id."""
    rows = measured.table("kernels", columns=["kernel_id", *UNMEASURED]).to_pylist()
    found = {row["kernel_id"]: row for row in rows if row["gpu"] == season.gpu and row["status"] is not None}
    missing, stray = sorted(set(ids) - set(found)), sorted({row["kernel_id"] for row in rows} - set(ids))
    if missing:
        raise UserError(
            f"{len(missing)} of {len(ids)} kernels were not measured on {season.gpu}, {missing[0]} for one; "
            f"measure all of {KERNELS}/: kbench measure --corpus"
        )
    if stray:
        raise UserError(f"the measurements hold {len(stray)} kernels that the season does not ask about, {stray[0]}")
    return found


def _first_measured(measured: Corpus, season: Season, ids: set[str], now: datetime.datetime) -> datetime.datetime:
    """When measuring began: after the opening, or the season asked about kernels whose speed was known."""
    columns = ["kernel_id", "gpu", "started_at", "trust"]
    rows = [row for row in measured.table("measurements", columns=columns).to_pylist() if row["gpu"] == season.gpu]
    undated = sorted(ids - {row["kernel_id"] for row in rows if row["started_at"]})
    if undated:
        raise UserError(f"kernel {undated[0]} has no dated measurement; take measurements with: kbench measure")
    beside = [row["kernel_id"] for row in rows if row["trust"] == Trust.PROCESS]
    if beside:
        raise UserError(f"kernel {beside[0]} ran beside its judge (trust is process); a season takes plans alone")
    began = min(instant(row["started_at"]) for row in rows if row["started_at"])
    if began < instant(season.opened_at):
        raise UserError(f"measuring began on {written(began)}, before the season opened on {season.opened_at}")
    if began > now:
        raise UserError(f"measuring began on {written(began)}, and it is {written(now)}; set the clocks right")
    return began


def _frozen(folder: Path, season: Season, began: datetime.datetime) -> tuple[list[Path], list[str]]:
    """Entries that are what they were when they entered, which was before measuring began; and why others are not."""
    kept, refused = [], []
    expected = _expected(folder, season)
    for entry in season.entries:
        path = folder / ENTRIES / entry.entry_id
        checked = check(path, expected)
        if checked.digest != entry.digest:
            refused.append(f"{entry.entry_id}: its files changed after it entered on {entry.entered_at}")
        elif not checked.ok:
            refused.append(f"{entry.entry_id}: {checked.flaws[0]}")
        elif instant(entry.entered_at) >= began:
            refused.append(
                f"{entry.entry_id}: entered on {entry.entered_at}, after measuring began on {written(began)}"
            )
        else:
            kept.append(path)
    present = {path.name for path in (folder / ENTRIES).glob("*")}
    never = sorted(present - {entry.entry_id for entry in season.entries})
    return kept, [*refused, *(f"{name}: never entered; its date is unknown" for name in never)]
