"""Seasons: forecasts about kernels that nobody has measured yet, frozen before anyone does.

A season opens with queries, lets entries in, and closes with measurements that were made afterwards. Then it has
labels, as a private split has them, and its entries are scored like any others. The clock is passed in.
"""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from kbench.benchmark.problems.registry import listed
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.benchmark_2.lineage_corpus import VERSION
from kbench.benchmark.questions.benchmark_2.sample import pair_row
from kbench.benchmark.questions.build import TRAIN_SPLITS
from kbench.benchmark.questions.trained import TrainedOn
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.tracks import FORECAST
from kbench.leaderboard.board import score_all
from kbench.leaderboard.scoring.results import Results, entry_id, results_text
from kbench.leaderboard.submission.archive import read_files
from kbench.leaderboard.submission.check import check
from kbench.leaderboard.submission.forecast_rows import Expected
from kbench.leaderboard.submission.labels import packed_labels, queries_by_track, read_queries, write_queries
from kbench.leaderboard.submission.metadata import skeleton
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.kernel_folder import read_folder
from kbench.loaders.source.structure import structure_id
from kbench.loaders.splits.problems import cluster_id
from kbench.loaders.storage.atomic import WAIT_S, remove_leftovers, replace_together, whole_folder
from kbench.loaders.storage.lock import held
from kbench.schemas import DataError, Kernel, Pair, Query, Record, Trust, UserError, arrow_schema, from_dict, to_dict
from kbench.schemas.ids import content_hash, kernel_id
from kbench.schemas.record import Count, Limit, Sha

if TYPE_CHECKING:
    import pyarrow as pa

SEASONS = Path(__file__).parent / "seasons"
"""Where seasons are published, one folder each."""
FILE, KERNELS, QUERIES, ENTRIES = "season.json", "kernels", "queries", "entries"
LABELS, RESULTS = "labels.parquet", "results"
SPLIT = "test"
UNMEASURED = (
    "gpu", "status", "error", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low",
    "speedup_high", "compile_ms", "registers", "shared_bytes", "spill_bytes", "env_id",
)  # fmt: skip
"""Columns of a kernel that only a measurement fills."""
Slug = Annotated[str, Limit(pattern="^[a-z0-9][a-z0-9-]{0,99}$")]
Instant = Annotated[str, Limit(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)$")]
Row = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeasonEntry(Record):
    """A submission as it was when it entered."""

    TYPE: ClassVar[str] = "season_entry"
    VERSION: ClassVar[str] = "1.0.0"

    entry_id: Slug
    """Name and version; its folder under entries/."""
    digest: Sha
    """SHA-256 of its files."""
    entered_at: Instant
    """When it entered, ISO 8601 in UTC."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Closing(Record):
    """How a season ended."""

    TYPE: ClassVar[str] = "season_closing"
    VERSION: ClassVar[str] = "1.0.0"

    closed_at: Instant
    """When, ISO 8601 in UTC."""
    measured_from: Instant
    """When the first of its measurements began; entries are older."""
    measurements_fingerprint: Sha
    """The corpus of measurements that the labels come from."""
    refused: tuple[str, ...]
    """Entries that were not scored, and why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Season(Record):
    """A season: queries about kernels that nobody had measured when they were published."""

    TYPE: ClassVar[str] = "season"
    VERSION: ClassVar[str] = "1.0.0"

    schema_version: str
    """Version of this schema."""
    name: Slug
    """Its name and folder."""
    opened_at: Instant
    """When its queries were published, ISO 8601 in UTC."""
    gpu: str
    """The GPU that is asked about, as the driver reports it."""
    kernels: Count
    """Kernels asked about."""
    queries: Count
    """Queries about them."""
    fingerprint: Sha
    """Hash of every query's text by track; entries state it as the dataset they forecast."""
    trained_on: Sha
    """Fingerprint of the dataset that held none of the kernels, and that priors come from."""
    entries: tuple[SeasonEntry, ...] = ()
    """In the order they entered."""
    closing: Closing | None = None
    """Null while the season is open."""

    def to_bytes(self) -> bytes:
        """The content of season.json."""
        return (json.dumps(to_dict(self), indent=1, ensure_ascii=False) + "\n").encode()


def read_season(folder: Path, *, to_change: bool = False) -> Season:
    """Read a season's record.

    Args:
        folder: the season's.
        to_change: whether the season must still be open.

    Raises:
        UserError: there is no such season, or it is closed and must not be.
        DataError: its record is damaged or of another version.
    """
    path = folder / FILE
    try:
        season = from_dict(Season, json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise UserError(f"no season in {str(folder)!r}; open one: kbench leaderboard season open") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no season's record ({error}); restore it from the repository") from None
    if season.schema_version != Season.VERSION:
        raise DataError(f"{path}: schema_version is {season.schema_version!r}; this kbench reads {Season.VERSION!r}")
    if to_change and season.closing is not None:
        raise UserError(f"season {season.name!r} closed on {season.closing.closed_at}; enter the next one")
    return season


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
                source=file.source, origin="kbench", license="CC-BY-4.0", **dict.fromkeys(UNMEASURED),
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
    return [from_dict(Kernel, row | {"gpu": None, "split": SPLIT}) for row in rows]


def fresh_kernels(kernels: Iterable[Kernel], dataset: Tables) -> tuple[list[Kernel], list[str]]:
    """Kernels that a season may ask about, each once; and why the others are left out.

    A kernel is left out when the dataset holds it, or one that is equal but for names and literals, or when a surrogate
    may learn from its problem or from one of the same lineage.

    Raises:
        UserError: none is left.
    """
    rows = dataset.table("kernels", columns=["kernel_id", "structure_id", "problem_id", "split"]).to_pylist()
    ids, structures = ({row[name] for row in rows} for name in ("kernel_id", "structure_id"))
    trained = {row["problem_id"] for row in rows if row["split"] in (*TRAIN_SPLITS, "test_near")}
    fresh: dict[str, Kernel] = {}
    left_out: list[str] = []
    for kernel in kernels:
        if kernel.kernel_id in ids:
            reason = "is in the dataset"
        elif kernel.structure_id in structures:
            reason = "is in the dataset but for names and literals"
        elif kernel.problem_id in trained:
            reason = "solves a problem that the dataset trains on, or one near to those"
        else:
            fresh.setdefault(kernel.kernel_id, kernel)
            continue
        left_out.append(f"kernel {kernel.kernel_id} of {kernel.problem_id} {reason}")
    if not fresh:
        first = f" ({left_out[0]}, for one)" if left_out else ""
        raise UserError(f"there is no kernel to ask about{first}; propose others")
    return list(fresh.values()), left_out


class SeasonTables:
    """A season's kernels as a corpus to be asked about, before they are measured and after."""

    benchmark = VERSION
    configs: Sequence[str] = ("kernels", "pairs", "problems")
    folders: Sequence[Path] = ()
    """A surrogate is kept from folders with answers; these hold none."""

    def __init__(self, kernels: Corpus, gpu: str, figures: Mapping[str, Row] | None = None) -> None:
        """Look at kernels.

        Args:
            kernels: the season's, without figures.
            gpu: the GPU that is asked about.
            figures: what was measured of each, by kernel id; none while the season is open.
        """
        self._kernels, measured = kernels, figures or {}
        self.fingerprint = kernels.fingerprint
        place = {"gpu": gpu, "split": SPLIT}
        self._rows = [row | measured.get(row["kernel_id"], {}) | place for row in kernels.table("kernels").to_pylist()]

    def table(self, name: str, *, columns: list[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered by equality."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if name not in ("kernels", "pairs"):
            return self._kernels.table(name, columns=columns, **filters)
        if name == "kernels":
            table = pa.Table.from_pylist(self._rows, schema=self._kernels.table("kernels").schema)
        else:
            fields = (field.with_nullable(True) for field in arrow_schema(Pair))
            schema = pa.schema([*fields, ("relation", pa.string())])
            table = pa.Table.from_pylist(list(self._pairs()), schema=schema)
        for column, wanted in filters.items():
            table = table.filter(pc.field(column).isin([wanted] if isinstance(wanted, str) else list(wanted)))
        return table if columns is None else table.select(columns)

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """The same columns; a season is small and comes in one part."""
        yield self.table(name, columns=list(columns), **filters)

    def _pairs(self) -> Iterator[Row]:
        """Each kernel against the reference, and half of the kernels of a problem and backend against the other half.

        Nobody knows yet which kernels are correct, so hashes of ids decide who is an anchor. A pair whose anchor turns
        out to fail has no answer and is not scored.
        """
        cells: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in self._rows:
            cells[row["problem_id"], row["backend"]].append(row)
        for _, members in sorted(cells.items()):
            yield from (pair_row(None, row) for row in members)
            order = sorted(members, key=lambda row: content_hash("side", row["kernel_id"]))
            half = len(order) // 2
            for candidate, anchor in zip(order[:half], order[half:], strict=False):
                yield pair_row(anchor, candidate)


def season_corpus(folder: Path, gpu: str, dataset: Tables, figures: Mapping[str, Row] | None = None) -> Tables:
    """A season's kernels to be asked about, and the training rows of the dataset to learn from."""
    return TrainedOn(SeasonTables(Corpus.open(folder / KERNELS), gpu, figures), dataset)


def questions_fingerprint(queries: Mapping[str, Sequence[Query]]) -> str:
    """Names every word of every track's queries."""
    texts = [json.dumps([track, *map(to_dict, queries[track])], sort_keys=True) for track in sorted(queries)]
    return content_hash("season", *texts)


def open_season(folder: Path, kernels: Sequence[Kernel], dataset: Tables, gpu: str, now: datetime.datetime) -> Season:
    """Publish queries about kernels that nobody has measured.

    Args:
        folder: the season's; its name is the season's name.
        kernels: what is asked about, as `fresh_kernels` left them.
        dataset: what surrogates may learn from.
        gpu: the GPU that is asked about.
        now: the date of opening.

    Raises:
        UserError: there is such a season already.
    """
    if folder.exists():
        raise UserError(f"season {folder.name!r} exists; choose another name")
    with whole_folder(folder) as aside:
        with CorpusWriter(aside / KERNELS) as writer:
            problems = sorted({kernel.problem_id for kernel in kernels})
            writer.append("problems", [listed(problem).record() for problem in problems])
            writer.append("kernels", kernels)
        questions = build_questions(season_corpus(aside, gpu, dataset), SPLIT, measured_only=False)
        season = Season(
            schema_version=Season.VERSION, name=folder.name, opened_at=_utc(now), gpu=gpu, kernels=len(kernels),
            queries=len(questions.queries), fingerprint=questions_fingerprint(queries_by_track(questions)),
            trained_on=dataset.fingerprint,
        )  # fmt: skip
        write_queries(dataclasses.replace(questions, dataset=season.fingerprint), aside / QUERIES)
        (aside / FILE).write_bytes(season.to_bytes())
    return season


def season_questions(
    folder: Path, season: Season, dataset: Tables, figures: Mapping[str, Row] | None = None
) -> Questions:
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
    corpus = season_corpus(folder, season.gpu, dataset, figures)
    questions = build_questions(corpus, SPLIT, measured_only=False)
    if {query.query_id for query in questions.queries} != set(_expected(folder, season).query_ids):
        raise DataError(f"{folder / KERNELS} holds other kernels than the queries are about; restore both")
    return dataclasses.replace(questions, dataset=season.fingerprint)


def _expected(folder: Path, season: Season) -> Expected:
    """What an entry must answer: the queries as they were published."""
    queries, _ = read_queries(folder / QUERIES)
    if questions_fingerprint(queries) != season.fingerprint:
        raise DataError(f"{folder / QUERIES} was changed after the season opened; restore it from the repository")
    ids = sorted({query.query_id for of_track in queries.values() for query in of_track})
    return Expected(season.fingerprint, ids, frozenset(query.query_id for query in queries[FORECAST.name]))


def enter_season(folder: Path, path: Path, now: datetime.datetime) -> SeasonEntry:
    """Copy a submission into an open season, and record its digest and the date; one at a time, in turn.

    Raises:
        UserError: the season is closed, the submission has problems, or its name and version have entered before.
    """
    read_season(folder, to_change=True)
    with held(folder, wait_s=WAIT_S):
        return _enter(folder, path, now)


def _enter(folder: Path, path: Path, now: datetime.datetime) -> SeasonEntry:
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
    files: dict[str, bytes | None] = {f"{ENTRIES}/{entry.entry_id}/{name}": d for name, d in read_files(path).items()}
    files[FILE] = dataclasses.replace(season, entries=(*season.entries, entry)).to_bytes()
    replace_together(folder, files)
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
        return _close(folder, measured, dataset, now, settings, tell)


def _close(
    folder: Path,
    measured: Corpus,
    dataset: Tables,
    now: datetime.datetime,
    settings: BootstrapSettings | None,
    tell: Callable[[str], None],
) -> tuple[Season, list[Results]]:
    remove_leftovers(folder)
    season = read_season(folder, to_change=True)
    ids = Corpus.open(folder / KERNELS).table("kernels", columns=["kernel_id"]).column("kernel_id").to_pylist()
    figures = _figures(measured, season, ids)
    began = _first_measured(measured, season, set(ids), now)
    questions = season_questions(folder, season, dataset, figures)
    paths, refused = _frozen(folder, season, began)
    results = score_all(paths, questions, settings, tell) if paths else []
    closing = Closing(
        closed_at=_utc(now), measured_from=_utc(began), measurements_fingerprint=measured.fingerprint,
        refused=tuple(refused),
    )  # fmt: skip
    season = dataclasses.replace(season, closing=closing)
    files: dict[str, bytes | None] = {LABELS: packed_labels(questions), FILE: season.to_bytes()}
    # Packed: the scores of all slices are a third of a megabyte per entry. No time stamp: the same bytes again.
    files |= {
        f"{RESULTS}/{result.entry_id}.json.gz": gzip.compress(results_text(result).encode(), mtime=0)
        for result in results
    }
    replace_together(folder, files)
    return season, results


def _figures(measured: Corpus, season: Season, ids: Sequence[str]) -> dict[str, Row]:
    """What was measured of every kernel on the season's GPU, by kernel id."""
    rows = measured.table("kernels", columns=["kernel_id", *UNMEASURED]).to_pylist()
    figures = {row["kernel_id"]: row for row in rows if row["gpu"] == season.gpu and row["status"] is not None}
    missing, stray = sorted(set(ids) - set(figures)), sorted({row["kernel_id"] for row in rows} - set(ids))
    if missing:
        raise UserError(
            f"{len(missing)} of {len(ids)} kernels were not measured on {season.gpu}, {missing[0]} for one; "
            f"measure all of {KERNELS}/: kbench measure --corpus"
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
        elif _instant(entry.entered_at) >= began:
            refused.append(f"{entry.entry_id}: entered on {entry.entered_at}, after measuring began on {_utc(began)}")
        else:
            kept.append(path)
    present = {path.name for path in (folder / ENTRIES).glob("*")}
    never = sorted(present - {entry.entry_id for entry in season.entries})
    return kept, [*refused, *(f"{name}: never entered; its date is unknown" for name in never)]


def _instant(text: str) -> datetime.datetime:
    """A stated instant; UTC where no zone is stated."""
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _utc(moment: datetime.datetime) -> str:
    """An instant as records hold it."""
    return moment.astimezone(datetime.UTC).isoformat()
