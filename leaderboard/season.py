"""Seasons: forecasts about kernels that nobody has measured yet, frozen before anyone does.

A season is a private edition whose answers nobody has: it opens with questions, lets entries in, and closes with
measurements that were made afterwards. Then its entries are scored like any others, and beside them what copying the
nearest public kernel would have scored. The clock is passed in.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.problems.registry import listed
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.answers import UNMEASURED, packed_answers, read_answers, with_answer, without_figures
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.corpus_view import CorpusView
from kbench.benchmark.questions.draw import draw_unanswered
from kbench.benchmark.questions.transfer import TrainedOn
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.leaderboard.board import score_all
from kbench.leaderboard.scoring.results import Results, entry_id
from kbench.leaderboard.season_record import (
    ANSWERS,
    EDITION,
    ENTRIES,
    FILE,
    LOOK_UP,
    RESULTS,
    Closing,
    Season,
    SeasonEntry,
    packed_entries,
    packed_results,
    read_entry_files,
    read_season,
)
from kbench.leaderboard.season_rules import check_rules, looked_up, public_kernels
from kbench.leaderboard.submission.archive import read_files
from kbench.leaderboard.submission.check import check
from kbench.leaderboard.submission.forecast_rows import Expected
from kbench.leaderboard.submission.metadata import skeleton
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.kernel_folder import read_folder
from kbench.loaders.source.normalise import normalised
from kbench.loaders.source.structure import structure_id
from kbench.loaders.splits import cluster_id
from kbench.loaders.storage.atomic import WAIT_S, remove_leftovers, replace_together, whole_folder
from kbench.loaders.storage.lock import held
from kbench.loaders.storage.scratch import temporary_folder
from kbench.schemas import DataError, Kernel, Question, QuestionKind, Trust, UserError, from_dict, to_dict
from kbench.schemas.ids import kernel_id

SPLIT = "test"
Row = dict[str, Any]


def proposed_kernels(place: Path, proposer: str, run: str) -> list[Kernel]:
    """Kernels that nobody has measured: those of a corpus, or of files named PROBLEM__BACKEND__NAME.py.

    Args:
        place: a corpus folder, or a folder of such files.
        proposer: who wrote the files; a corpus says it itself.
        run: what the files' run is called.

    Raises:
        UserError: a kernel of the corpus was measured.
    """
    if any(place.glob("*.py")) or not (place / "manifest.json").is_file():
        return [
            Kernel(
                kernel_id=kernel_id(file.problem_id, file.backend, file.source), problem_id=file.problem_id,
                family=listed(file.problem_id).family, backend=file.backend, search_method="written",
                proposer=proposer, run_id=run, step=step, parent_id=None, edit=None,
                structure_id=(shape := structure_id(file.source)), cluster_id=cluster_id(shape), split=SPLIT,
                source=file.source, normalised=normalised(file.source), origin="kbench", license="CC-BY-4.0",
                gpu=None, **dict.fromkeys(UNMEASURED),
            )
            for step, file in enumerate(read_folder(place))
        ]  # fmt: skip
    rows = Corpus.open(place).table("kernels").to_pylist()
    measured = [row["kernel_id"] for row in rows if row["status"] is not None]
    if measured:
        raise UserError(
            f"{len(measured)} of {len(rows)} kernels were measured, {measured[0]} for one; "
            "a season asks about kernels that nobody has measured"
        )
    return [
        from_dict(Kernel, row | {"split": SPLIT, "normalised": row["normalised"] or normalised(row["source"])})
        for row in rows
    ]


def open_season(folder: Path, kernels: Iterable[Kernel], dataset: Tables, gpu: str, now: datetime.datetime) -> Season:
    """Publish questions about kernels that nobody has measured.

    Args:
        folder: the season's; its name is the season's name.
        kernels: what is asked about, each once.
        dataset: what surrogates may learn from.
        gpu: the GPU that is asked about.
        now: the date of opening.

    Raises:
        UserError: there is such a season already, a kernel has a public relative, or too few problems are new.
    """
    if folder.exists():
        raise UserError(f"season {folder.name!r} exists; choose another name")
    unmeasured = [without_figures(one, gpu=gpu) for one in {one.kernel_id: one for one in kernels}.values()]
    check_rules(unmeasured, dataset, public_kernels(dataset, folder.parent))
    questions = draw_unanswered(unmeasured)
    with whole_folder(folder) as aside:
        with CorpusWriter(aside / EDITION) as writer:
            problems = sorted({kernel.problem_id for kernel in unmeasured})
            writer.append("problems", [listed(problem).record() for problem in problems])
            writer.append("kernels", unmeasured)
            writer.append("questions", questions)
        season = Season(
            schema_version=Season.VERSION, name=folder.name, opened_at=_utc(now),
            gpu=gpu, kernels=len(unmeasured), queries=len(questions),
            fingerprint=Corpus.open(aside / EDITION).fingerprint, trained_on=dataset.fingerprint,
        )  # fmt: skip
        (aside / FILE).write_bytes(season.to_bytes())
    return season


def season_corpus(folder: Path, season: Season, dataset: Tables) -> Tables:
    """A season's edition to be asked about, with its answers once it is closed, and the dataset to learn from.

    Raises:
        UserError: the dataset is another than the season was opened on.
        DataError: the edition was changed after the season opened.
    """
    if dataset.fingerprint != season.trained_on:
        raise UserError(
            f"season {season.name!r} was opened on dataset {season.trained_on}, this is {dataset.fingerprint}; "
            "name that one with --dataset"
        )
    edition = _edition(folder, season)
    answers = read_answers(folder / ANSWERS) if season.closing else None
    return TrainedOn(CorpusView(edition, season.gpu, answers), dataset)


def season_questions(corpus: Tables, season: Season) -> Questions:
    """What a season asks."""
    return dataclasses.replace(build_questions(corpus, SPLIT), dataset=season.fingerprint)


def _edition(folder: Path, season: Season) -> Corpus:
    edition = Corpus.open(folder / EDITION, verified=True)
    if edition.fingerprint != season.fingerprint:
        raise DataError(f"{folder / EDITION} was changed after the season opened; restore it from the repository")
    return edition


def _expected(folder: Path, season: Season) -> Expected:
    """What an entry must answer: the questions as they were published."""
    table = _edition(folder, season).table("questions", columns=["question_id", "kind"])
    kinds = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    pairs = [key for key, kind in kinds.items() if kind != QuestionKind.LEVEL]
    return Expected(season.fingerprint, sorted(kinds), pairs)


def enter_season(folder: Path, path: Path, now: datetime.datetime) -> SeasonEntry:
    """Copy a submission into an open season, and record its digest and the date; one at a time, in turn.

    Raises:
        UserError: the season is closed, the submission has problems, or its name and version have entered before.
    """
    read_season(folder, to_change=True)
    with held(folder, wait_s=WAIT_S):
        remove_leftovers(folder)
        season = read_season(folder, to_change=True)
        checked = check(path, _expected(folder, season))
        if checked.submission is None or not checked.ok:
            more = f" (and {len(checked.flaws) - 1} more)" if checked.flaws[1:] else ""
            raise UserError(f"{path}: {checked.flaws[0]}{more}")
        entry = SeasonEntry(entry_id=entry_id(checked.submission), digest=checked.digest, entered_at=_utc(now))
        before = next((one for one in season.entries if one.entry_id == entry.entry_id), None)
        if before is not None:
            how = "unchanged" if before.digest == entry.digest else "with other files"
            raise UserError(f"{entry.entry_id} entered {how} on {before.entered_at}; to enter again, raise the version")
        alike = next((one for one in season.entries if skeleton(one.entry_id) == skeleton(entry.entry_id)), None)
        if alike is not None:
            raise UserError(f"{entry.entry_id} looks like {alike.entry_id}, which has entered; choose another name")
        entries = {**read_entry_files(folder), entry.entry_id: dict(read_files(path))}
        record = dataclasses.replace(season, entries=(*season.entries, entry))
        replace_together(folder, {ENTRIES: packed_entries(entries), FILE: record.to_bytes()})
        return entry


def close_season(
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
        UserError: the season is closed, another process is changing it, or the measurements are not of its kernels, GPU
            and time.
    """
    read_season(folder, to_change=True)
    with held(folder):
        remove_leftovers(folder)
        season = read_season(folder, to_change=True)
        edition = _edition(folder, season)
        ids = edition.table("kernels", columns=["kernel_id"]).column("kernel_id").to_pylist()
        figures = _figures(measured, season, ids)
        began = _first_measured(measured, season, set(ids), now)
        published = [from_dict(Question, row) for row in edition.table("questions").to_pylist()]
        answers = [with_answer(one, figures) for one in published]
        corpus = TrainedOn(CorpusView(edition, season.gpu, {one.question_id: to_dict(one) for one in answers}), dataset)
        questions = season_questions(corpus, season)
        with temporary_folder() as scratch:
            paths, refused = _frozen(folder, season, began, scratch)
            results = list(score_all(paths, questions, settings, tell)) if paths else []
        closing = Closing(
            closed_at=_utc(now), measured_from=_utc(began), measurements_fingerprint=measured.fingerprint,
            refused=tuple(refused),
        )  # fmt: skip
        season = dataclasses.replace(season, closing=closing)
        tell(LOOK_UP)
        scores = {one.entry_id: one.scores for one in results} | {
            LOOK_UP: looked_up(questions, dataset, settings).scores()
        }
        files = {ANSWERS: packed_answers(answers), RESULTS: packed_results(scores), FILE: season.to_bytes()}
        replace_together(folder, files)
        return season, results


def _figures(measured: Corpus, season: Season, ids: Sequence[str]) -> dict[str, Row]:
    """What was measured of every kernel on the season's GPU, by kernel id."""
    rows = measured.table("kernels", columns=["kernel_id", "gpu", *UNMEASURED]).to_pylist()
    figures = {row["kernel_id"]: row for row in rows if row["gpu"] == season.gpu and row["status"] is not None}
    missing, stray = sorted(set(ids) - set(figures)), sorted({row["kernel_id"] for row in rows} - set(ids))
    if missing:
        raise UserError(
            f"{len(missing)} of {len(ids)} kernels were not measured on {season.gpu}, {missing[0]} for one; "
            f"measure all of {EDITION}/: kbench measure --corpus"
        )
    if stray:
        raise UserError(f"the measurements hold {len(stray)} kernels that the season does not ask about, {stray[0]}")
    return figures


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
    began = min(_instant(row["started_at"]) for row in rows if row["started_at"])
    if began < _instant(season.opened_at):
        raise UserError(f"measuring began on {_utc(began)}, before the season opened on {season.opened_at}")
    if began > now:
        raise UserError(f"measuring began on {_utc(began)}, and it is {_utc(now)}; set the clocks right")
    return began


def _frozen(folder: Path, season: Season, began: datetime.datetime, scratch: Path) -> tuple[list[Path], list[str]]:
    """Entries that are what they were when they entered, which was before measuring began; and why others are not.

    Args:
        folder: the season's.
        season: its record.
        began: when measuring began.
        scratch: folder that the entries' files are laid out in.
    """
    kept, refused = [], []
    expected, present = _expected(folder, season), read_entry_files(folder)
    for entry in season.entries:
        path = scratch / entry.entry_id
        path.mkdir()
        for name, content in present.pop(entry.entry_id, {}).items():
            (path / Path(name).name).write_bytes(content)
        checked = check(path, expected)
        if checked.digest != entry.digest:
            refused.append(f"{entry.entry_id}: its files changed after it entered on {entry.entered_at}")
        elif not checked.ok:
            refused.append(f"{entry.entry_id}: {checked.flaws[0]}")
        elif _instant(entry.entered_at) >= began:
            refused.append(f"{entry.entry_id}: entered on {entry.entered_at}, after measuring began on {_utc(began)}")
        else:
            kept.append(path)
    return kept, [*refused, *(f"{name}: never entered; its date is unknown" for name in sorted(present))]


def _instant(text: str) -> datetime.datetime:
    """A stated instant; UTC where no zone is stated."""
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _utc(moment: datetime.datetime) -> str:
    """An instant as records hold it."""
    return moment.astimezone(datetime.UTC).isoformat()
