"""Results: a scored submission, as stored in leaderboard/results/ and shown on the page."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.schemas import DataError, Score, Submission, from_dict, to_dict

VERSION = "1.0.0"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything computed from one submission's forecasts."""

    submission: Submission
    dataset_fingerprint: str
    kbench: str
    """Version of the scoring code."""
    seed: int
    resamples: int
    """Bootstrap resamples behind the intervals over all queries."""
    answered_share: float
    """Share of queries with a usable forecast; the rest were scored as the uniform forecast and as deferred."""
    cost: Mapping[str, float | None]
    """seconds_per_1000 and tokens_per_1000 forecasts."""
    scores: Sequence[Score]
    """Every metric of every track and slice."""
    draws: Mapping[str, Sequence[float]]
    """Per track, the headline in every bootstrap draw; paired over entries because seed and problems are the same."""
    curves: Mapping[str, Sequence[Sequence[float]]]
    """reliability, risk_coverage and regret, as [x, y] points."""
    flags: Sequence[str] = ()
    """What a reader should know before trusting the entry; never acted on silently."""

    @property
    def entry_id(self) -> str:
        """Stable id made of name and version; safe as a file name."""
        return entry_id(self.submission)

    def value(self, track: str, metric: str) -> float | None:
        """The overall value of a metric; None when the entry has none."""
        for score in self.scores:
            if (score.track, score.metric, score.slice) == (track, metric, "all"):
                return score.value
        return None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, in a fixed order."""
        return {
            "version": VERSION,
            "entry_id": self.entry_id,
            "submission": to_dict(self.submission),
            "dataset_fingerprint": self.dataset_fingerprint,
            "kbench": self.kbench,
            "seed": self.seed,
            "resamples": self.resamples,
            "answered_share": self.answered_share,
            "cost": dict(self.cost),
            "flags": list(self.flags),
            "scores": [to_dict(score) for score in self.scores],
            "curves": {name: [list(point) for point in points] for name, points in self.curves.items()},
            "draws": {track: list(values) for track, values in self.draws.items()},
        }


def entry_id(submission: Submission) -> str:
    """Name and version in lower case, other characters as dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{submission.name} {submission.version}".lower()).strip("-")


def read_results(path: Path) -> Results:
    """Read a results file.

    Raises:
        DataError: the file is not a results file of this version.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        if data["version"] != VERSION:
            raise DataError(f"{path}: version is {data['version']!r}; this kbench reads {VERSION!r}: score it again")
        return Results(
            submission=from_dict(Submission, data["submission"]),
            dataset_fingerprint=data["dataset_fingerprint"],
            kbench=data["kbench"],
            seed=data["seed"],
            resamples=data["resamples"],
            answered_share=data["answered_share"],
            cost=data["cost"],
            scores=[from_dict(Score, score) for score in data["scores"]],
            draws=data["draws"],
            curves=data["curves"],
            flags=data["flags"],
        )
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); give a file that `leaderboard score --out` wrote"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not a results file ({type(error).__name__}: {error}); score it again") from None
