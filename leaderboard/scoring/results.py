"""Results: a scored submission, as the page shows it, rounded so that every machine publishes the same figures.

Logarithms, exponentials and products of matrices differ in their last bits from processor to processor. A figure is
rounded to twelve decimals and the outcome to six. The first step takes those bits away. Figures that lie exactly
between two sixth decimals, as a share of 128 rows can, would otherwise fall to either side; after it they fall to one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import kbench
from kbench.loaders.storage.atomic import replace_together, write_atomically
from kbench.loaders.storage.scratch import cache_folder
from kbench.schemas import DataError, Score, Submission, from_dict, to_dict
from kbench.schemas.ids import content_hash

T = TypeVar("T")
VERSION = "1.0.0"
SCORING = ("schemas", "benchmark/metrics", "benchmark/scoring", "benchmark/questions", "leaderboard/scoring")
"""Folders whose code decides a score."""
DECIMALS = 6
SAFE_DECIMALS = 12
"""Above the bits processors differ in, far below what is published."""


FIGURES = ("value", "low", "high", "ceiling")
"""Of a score."""
DECIDE = ("tracks", "repeats", "total_seconds", "total_tokens")
"""Metadata that figures depend on."""


def rounded_figure(value: float) -> float:
    """A figure as it is published."""
    # Adding zero makes a negative zero positive, so that both are written alike.
    return round(round(float(value), SAFE_DECIMALS), DECIMALS) + 0.0


def each_figure(value: Any, change: Callable[[float], Any] = rounded_figure) -> Any:
    """The same with every figure in it rounded, or changed otherwise."""
    if isinstance(value, float):
        return change(value)
    if isinstance(value, Mapping):
        return {key: each_figure(one, change) for key, one in value.items()}
    return [each_figure(one, change) for one in value] if isinstance(value, list | tuple) else value


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything computed from one submission's forecasts."""

    submission: Submission
    dataset_fingerprint: str
    kbench: str
    """Version of the scoring code."""
    seed: int
    resamples: int
    """Bootstrap resamples of the intervals over all queries."""
    answered_share: float
    """Share of queries with a usable forecast; the rest were scored as the uniform forecast and as deferred."""
    cost: Mapping[str, float | None]
    """seconds_per_1000 and tokens_per_1000 forecasts."""
    flags: Sequence[str] = ()
    """What a reader should know before trusting the entry; never acted on silently."""
    scores: Sequence[Score]
    """Every metric of every track and slice."""
    curves: Mapping[str, Sequence[Sequence[float]]]
    """reliability, risk_coverage and regret, as [x, y] points."""
    draws: Mapping[str, Sequence[float]]
    """By track the headline, overall, and by track.metric every other metric of the page, in every bootstrap draw;
    paired over entries because seed and problems are the same."""
    core_draws: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    """The headlines and overall on core, on which entries that answer no more are compared with all others."""

    @property
    def entry_id(self) -> str:
        """Stable id made from name and version; safe as a file name."""
        return entry_id(self.submission)

    def value(self, track: str, metric: str, part: str = "all") -> float | None:
        """The value of a metric over all queries, or over a slice such as core; None when the entry has none."""
        for score in self.scores:
            if (score.track, score.metric, score.slice) == (track, metric, part):
                return score.value
        return None

    def rounded(self) -> Results:
        """As they are published."""
        scores = [
            dataclasses.replace(score, **{name: each_figure(getattr(score, name)) for name in FIGURES})
            for score in self.scores
        ]
        parts = ("answered_share", "cost", "curves", "draws", "core_draws")
        return dataclasses.replace(self, scores=scores, **{name: each_figure(getattr(self, name)) for name in parts})

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, in a fixed order."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain |= {"submission": to_dict(self.submission), "scores": [to_dict(score) for score in self.scores]}
        return {"version": VERSION, "entry_id": self.entry_id, **plain}


def entry_id(submission: Submission) -> str:
    """Name and version in lower case, other characters as dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{submission.name} {submission.version}".lower()).strip("-")


def read_results(path: Path) -> Results:
    """Read a results file.

    Raises:
        DataError: the file is not a results file of this version.
    """
    try:
        data = json.loads(path.read_bytes())
        if data["version"] != VERSION:
            raise DataError(f"version is {data['version']!r}, this kbench reads {VERSION!r}")
        records = {
            "submission": from_dict(Submission, data["submission"]),
            "scores": [from_dict(Score, score) for score in data["scores"]],
        }
        return Results(**{name: data[name] for name in data.keys() - {"version", "entry_id"}} | records)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a results file ({type(error).__name__}: {error}); score it again") from None


def write_results(results: Sequence[Results], folder: Path) -> list[Path]:
    """One JSON file per entry, all of them or none: results of one scoring belong together."""
    names = [f"{result.entry_id}.json" for result in results]
    # Made when they are written: those of thousands of entries do not fit into memory.
    files = {
        name: functools.partial(lambda at: results_text(results[at]).encode(), at) for at, name in enumerate(names)
    }
    replace_together(folder, files)
    return [folder / name for name in files]


def results_text(result: Results) -> str:
    """The content of a results file."""
    return json.dumps(result.to_json(), ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def differences(results: Sequence[Results], folder: Path) -> list[str]:
    """Where a folder's results files are not, byte for byte, what these results would be written as."""
    fix = "score the submissions again and keep what comes out"
    stored = {path.name: path for path in folder.glob("*.json")}
    missing, changed = [], []
    for result in results:
        path = stored.pop(name := f"{result.entry_id}.json", None)
        if path is None:
            missing.append(f"{name} is missing; {fix}")
        elif path.read_text("utf-8") != results_text(result):
            changed.append(f"{name} is not what its submission scores; {fix}")
    stray = [f"{name} belongs to no submission; remove it" for name in stored]
    return [*sorted(missing), *sorted(stray), *sorted(changed)]


def summary(result: Results) -> str:
    """An entry's headlines, each with its value on core beside it, and flags on one line."""
    from kbench.benchmark.metrics.registry import METRICS
    from kbench.benchmark.tracks import OVERALL

    overall = result.value(OVERALL, OVERALL)
    parts = [] if overall is None else [f"overall {overall:.3f}"]
    for metric in (metric for metric in METRICS if metric.headline):
        whole, core = (result.value(metric.track.name, metric.name, part) for part in ("all", "core"))
        if whole is not None:
            beside = "" if core is None else f" (core {metric.text(core)})"
            parts.append(f"{metric.label} {metric.text(whole)}{beside}")
    flagged = f"  flags: {'; '.join(result.flags)}" if result.flags else ""
    return f"{result.submission.name} {result.submission.version}: {', '.join(parts)}{flagged}"


def hub_rows(result: Results, dataset_id: str) -> list[dict[str, Any]]:
    """An entry's results as the Hugging Face Hub reads them: the rows of a model repository's .eval_results file.

    Args:
        result: the scored entry.
        dataset_id: the dataset on the Hub; the fingerprint in the notes names its content.
    """
    from kbench.benchmark.metrics.metric import Shown
    from kbench.benchmark.metrics.registry import of_track
    from kbench.loaders.card.card import TASKS

    rows = []
    for track in TASKS:
        # The Hub shows one value per task, and higher ones as better.
        metric = next(one.name for one in of_track(track) if one.shown is Shown.BOARD and one.sign > 0)
        value = result.value(track, metric)
        if value is not None:
            notes = f"{metric}; kbench {result.kbench}, content {result.dataset_fingerprint}, seed {result.seed}"
            dataset, date = {"id": dataset_id, "task_id": track}, result.submission.created_at[:10]
            rows.append({"dataset": dataset, "value": round(value, 6), "date": date, "notes": notes})
    return rows


def cached_results(
    folder: Path, key: Sequence[str], submission: Submission, score: Callable[[], Results]
) -> tuple[Path, Results]:
    """The kept results of a submission, or newly made ones, and their file.

    Args:
        folder: keeps one file per entry and state of everything that its scores depend on; made when it is needed.
        key: digest of the forecasts, the questions and the settings.
        submission: its metadata; of kept results they may be replaced, where they decide no figure.
        score: makes the results where none are kept.
    """
    decide = (entry_id(submission), *(str(getattr(submission, name)) for name in DECIDE))
    path = folder / f"{content_hash('results', *key, *decide, _code_digest(*SCORING))}.json"
    if path.is_file():
        try:
            kept = read_results(path)
        except DataError:
            path.unlink()
        else:
            if kept.submission != submission:
                kept = dataclasses.replace(kept, submission=submission)
                write_atomically(path, results_text(kept))
            return path, kept
    result = score()
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, results_text(result))
    return path, result


class KeptResults(Sequence[Results]):
    """Results with their flags, read from files when they are needed: those of thousands do not fit into memory."""

    def __init__(self, kept: Sequence[Results | Path], flags: Sequence[Sequence[str]]) -> None:
        """Of each entry its results, or the file that holds them, and its flags."""
        self._kept, self._flags = kept, flags

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, at: int) -> Results:  # type: ignore[override]  # nobody takes a slice of a board
        """One of them."""
        kept = self._kept[at]
        result = read_results(kept) if isinstance(kept, Path) else kept
        return dataclasses.replace(result, flags=self._flags[at])

    def followed_by(self, more: Sequence[Results]) -> KeptResults:
        """These and then others, which are few."""
        return KeptResults([*self._kept, *more], [*self._flags, *(one.flags for one in more)])


def kept_between_builds(keep: bool, name: str, key: Sequence[str], code: Sequence[str], make: Callable[[], T]) -> T:
    """A value that a build of the site keeps, or makes and keeps in place of an earlier one.

    It lies in the user's own cache folder: a pickle that came with somebody's files could run code.

    Args:
        keep: whether it is kept at all.
        name: of the value; one of each name is kept.
        key: what it depends on.
        code: folders of kbench whose code makes it.
        make: makes it; it must be picklable.
    """
    if not keep:
        return make()
    folder = cache_folder() / "leaderboard"
    file = folder / f"{name}-{content_hash('kept', *key, _code_digest(*code))}.pickle"
    with contextlib.suppress(Exception):
        # What is missing or damaged, whatever it raises, is made again.
        value: T = pickle.loads(file.read_bytes())
        return value
    value = make()
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, pickle.dumps(value))
    for old in folder.glob(f"{name}-*.pickle"):
        if old != file:
            old.unlink(missing_ok=True)  # another build may be here too
    return value


@functools.cache
def _code_digest(*parts: str) -> str:
    """Digest of all code of these folders."""
    package = Path(kbench.__file__).parent
    digest = hashlib.sha256(kbench.__version__.encode())
    for part in parts:
        for path in sorted((package / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
