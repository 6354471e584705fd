"""Audit: what can be answered without understanding a kernel? Probes as floors of every headline.

A probe sees one thing alone and learns from the training questions what it is worth. It then answers the questions like
any entry, with trees: classes of bins for pairs and edits, places within the pool for levels. How much of its
distribution is kept, the rest being the prior, is chosen on validation. A headline that a probe reaches is no headline.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.metrics.forecast import rps_rows
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.questions.asked import QUESTION_COLUMNS, of_gpu
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.questions.versions import StatedCorpus
from kbench.benchmark.scoring.compare import Difference
from kbench.benchmark.scoring.score import BootstrapSettings, finite, score
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.schemas import AuthorClass, QuestionKind, bins

Row = dict[str, Any]
Features = Callable[[str], Sequence[float]]
"""Of a kernel, by its id."""
KEPT = (1.0, 0.5, 0.25, 0.0)
"""Shares of a probe's distribution that validation chooses from."""
WORDS = 48
"""Columns that names are hashed into."""
NAME = re.compile(r"[A-Za-z_]\w*")
POWER = 2.8
"""Standard errors of a difference that four of five samples of problems decide at 95 %: 1.96 + 0.84."""


@dataclasses.dataclass(frozen=True, slots=True)
class Probed:
    """The headlines of one probe, by track."""

    name: str
    sees: str
    headlines: Mapping[str, Figure]


def audit(corpus: StatedCorpus, questions: Questions, settings: BootstrapSettings | None = None) -> list[Probed]:
    """Every probe on some questions.

    Args:
        corpus: that states them, and the training questions.
        questions: what is asked.
        settings: of the bootstrap.
    """
    from threadpoolctl import threadpool_limits

    rows = {name: _rows(corpus, name) for name in ("train", "validation", questions.split)}
    kernels = corpus.table("kernels", columns=["kernel_id", "normalised"])
    texts = dict(zip(*(column.to_pylist() for column in kernels.columns), strict=True))
    asked = {query.query_id for query in questions.queries}
    rows[questions.split] = [row for row in rows[questions.split] if row["question_id"] in asked]
    probed = []
    for name, (sees, features) in _probes(rows, texts).items():
        # Threads of small trees wait for each other longer than they work.
        with threadpool_limits(1):
            answers = Probe(features, rows["train"], rows["validation"]).answers(rows[questions.split])
        scored = score(questions, _table(questions, answers), settings, sliced=False)
        found = {track: figures[headline(track).name] for track, figures in scored.figures.items()}
        probed.append(Probed(name, sees, found))
    return probed


def strongest(probed: Sequence[Probed]) -> dict[str, Probed]:
    """The probe that comes furthest on each track."""
    tracks = probed[0].headlines if probed else {}
    return {track: max(probed, key=lambda one: headline(track).sign * one.headlines[track].value) for track in tracks}


def least_difference(figures: Sequence[Figure]) -> float:
    """The difference between two of these entries that is decided in 80 % of samples: the median over their pairs."""
    errors = [float(np.std(one.minus(other).draws)) for at, one in enumerate(figures) for other in figures[:at]]
    return POWER * float(np.median(errors)) if errors else float("nan")


def audited(corpus: StatedCorpus, questions: Questions, entries: Mapping[str, ForecastTable]) -> dict[str, Any]:
    """By track: the headline of every probe and entry, the strongest probe, and how entries differ from it."""
    probed = audit(corpus, questions)
    scored = {name: score(questions, table, sliced=False).figures for name, table in entries.items()}
    found: dict[str, Any] = {}
    for track, probe in strongest(probed).items():
        metric = headline(track)
        figures = {name: of[track][metric.name] for name, of in scored.items()}
        found[track] = {
            "metric": metric.name,
            "probes": {one.name: _plain(one.headlines[track]) for one in probed},
            "strongest": probe.name,
            "entries": {
                name: _plain(figure)
                | {"over_probe": dataclasses.asdict(Difference.of(metric, figure, probe.headlines[track]))}
                for name, figure in figures.items()
            },
            "least_difference": finite(least_difference(list(figures.values()))),
        }
    return found


def _plain(figure: Figure) -> dict[str, float | None]:
    return {"value": finite(figure.value), "low": finite(figure.low), "high": finite(figure.high)}


def audit_text(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The audit for people."""
    lines = []
    for track, part in found.items():
        metric = headline(track)
        lines.append(f"{track.upper()} {metric.name} {metric.arrow}")
        for name, one in part["probes"].items():
            mark = "*" if name == part["strongest"] else " "
            lines.append(f" {mark} probe {name}: {_with_interval(metric, one)}")
        for name, one in part["entries"].items():
            over = one["over_probe"]
            lines.append(f"   {name}: {_with_interval(metric, one)}; over the strongest probe {over['verdict']}")
        if part["least_difference"] is not None:
            lines.append(
                f"   two entries differ by {metric.text(part['least_difference'])} before 4 of 5 samples decide"
            )
    return "\n".join(
        [*lines, "* strongest probe; where an entry is undecided, these questions do not tell it from the probe"]
    )


def _with_interval(metric: Metric, one: Mapping[str, float | None]) -> str:
    return f"{metric.text(one['value'])} [{metric.text(one['low'])}, {metric.text(one['high'])}]"


def _rows(corpus: StatedCorpus, split: str) -> list[Row]:
    return of_gpu(corpus.table("questions", split=split, columns=[*QUESTION_COLUMNS, "bin"]).to_pylist(), corpus)


def _probes(rows: Mapping[str, Sequence[Row]], texts: Mapping[str, str]) -> dict[str, tuple[str, Features]]:
    authors: dict[str, list[float]] = {}
    asked: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in (row for part in rows.values() for row in part):
        for side in ("anchor_id", "candidate_id"):
            if row[side] is not None:
                asked[row[side]][f"{side} of {row['kind']}"] += 1
                authors[row[side]] = [float(row["author"] == one) for one in AuthorClass] + [row["backend"] == "cuda"]
    places = [f"{side} of {kind}" for side in ("anchor_id", "candidate_id") for kind in QuestionKind]
    return {
        "source-free": ("how often and where a kernel is asked about", lambda key: [
            *(float(asked[key][place]) for place in places), int(key[:8], 16) / 2**32
        ]),
        "author": ("author class and backend", authors.__getitem__),
        "layout": ("lengths of lines and of the whole, nesting, blanks and marks", lambda key: _layout(texts[key])),
        "names": ("which identifiers occur, hashed", lambda key: _names(texts[key])),
    }  # fmt: skip


def _layout(text: str) -> list[float]:
    lines = text.split("\n")
    widths = np.array([len(line.strip()) for line in lines], dtype=np.float64)
    depths = np.array([len(line) - len(line.lstrip()) for line in lines], dtype=np.float64)
    size = max(len(text), 1)
    return [
        float(np.log(size)), float(np.log(len(lines))), float(widths.mean()), float(widths.max()),
        float(widths.std()), float(depths.mean()), float(depths.max()), float((widths < 4).mean()),
        *(text.count(mark) / size for mark in " _(,.="),
    ]  # fmt: skip


def _names(text: str) -> list[float]:
    counts = np.zeros(WORDS)
    for word in set(NAME.findall(text)):
        counts[zlib.crc32(word.encode()) % WORDS] += 1
    return counts.tolist()


class Probe:
    """What features of two kernels, or of a pool's, say about speed."""

    def __init__(self, features: Features, train: Sequence[Row], validation: Sequence[Row]) -> None:
        """Learn from training questions.

        Args:
            features: of a kernel.
            train: rows with answers.
            validation: rows on which the share of the distribution that is kept is chosen.
        """
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        trees = {"max_iter": 60, "max_leaf_nodes": 8, "learning_rate": 0.05, "min_samples_leaf": 60, "random_state": 0}
        # Rows name the same kernels again and again.
        self._features = functools.cache(features)
        self._models: dict[str, tuple[Any, Any, Floats, float]] = {}
        for kind in (QuestionKind.EDIT, QuestionKind.PAIR):
            rows = [row for row in train if row["kind"] == kind and row["workload"] is None]
            if not rows:
                continue
            table, numbers = self._pairs(rows), np.array([row["bin"] for row in rows])
            shares = (np.bincount(numbers - 1, minlength=bins.COUNT) + 1.0) / (len(numbers) + bins.COUNT)
            classes = HistGradientBoostingClassifier(**trees).fit(table, numbers)
            logs = np.clip([np.log2(row["speedup"]) for row in rows], -2, 2)
            points = HistGradientBoostingRegressor(**trees).fit(table, logs)
            held = [row for row in validation if row["kind"] == kind and row["workload"] is None]
            truth = np.array([row["bin"] for row in held], dtype=np.int64)
            told = self._distributions(classes, held)
            losses = {kept: rps_rows(kept * told + (1 - kept) * shares, truth).mean() for kept in KEPT} if held else {}
            self._models[kind] = classes, points, shares, min(losses, key=lambda kept: losses[kept], default=1.0)
        levels = [row for row in train if row["kind"] == QuestionKind.LEVEL and row["pool"] is not None]
        table, members = self._pools(levels)
        places = np.zeros(len(levels))
        for at in members:
            order = np.argsort(np.argsort([levels[one]["speedup"] for one in at]))
            places[at] = order / len(at) - 0.5
        self._places = HistGradientBoostingRegressor(**trees).fit(table, places) if levels else None

    def answers(self, rows: Sequence[Row]) -> dict[str, tuple[Floats, float]]:
        """Distribution and log2 speedup by question id."""
        given: dict[str, tuple[Floats, float]] = {}
        for kind, (classes, points, shares, kept) in self._models.items():
            asked = [row for row in rows if row["kind"] == kind]
            if asked:
                told = kept * self._distributions(classes, asked) + (1 - kept) * shares
                logs = points.predict(self._pairs(asked))
                given |= {row["question_id"]: (told[at], float(logs[at])) for at, row in enumerate(asked)}
        levels = [row for row in rows if row["kind"] == QuestionKind.LEVEL and row["pool"] is not None]
        if levels and self._places is not None:
            places = self._places.predict(self._pools(levels)[0])
            even = np.full(bins.COUNT, 1 / bins.COUNT)
            given |= {row["question_id"]: (even, float(places[at])) for at, row in enumerate(levels)}
        return given

    def _distributions(self, classes: Any, rows: Sequence[Row]) -> Floats:
        told = np.zeros((len(rows), bins.COUNT))
        if rows:
            told[:, np.asarray(classes.classes_, dtype=int) - 1] = classes.predict_proba(self._pairs(rows))
        return told

    def _pairs(self, rows: Sequence[Row]) -> Floats:
        """The candidate's features less the anchor's, and the anchor's."""
        anchor, candidate = (
            np.array([self._features(row[side]) for row in rows]) for side in ("anchor_id", "candidate_id")
        )
        return np.hstack([candidate - anchor, anchor])

    def _pools(self, rows: Sequence[Row]) -> tuple[Floats, list[list[int]]]:
        """Features relative to the pool's mean, and the positions of each pool's rows."""
        members: defaultdict[str, list[int]] = defaultdict(list)
        for at, row in enumerate(rows):
            members[row["pool"]].append(at)
        table = np.array([self._features(row["candidate_id"]) for row in rows], dtype=np.float64)
        for positions in members.values():
            table[positions] -= table[positions].mean(axis=0)
        # A feature that is constant up to rounding orders nothing.
        return np.round(table, 9), list(members.values())


def _table(questions: Questions, answers: Mapping[str, tuple[Floats, float]]) -> ForecastTable:
    even = np.full(bins.COUNT, 1 / bins.COUNT)
    given = [answers.get(query.query_id, (even, 0.0)) for query in questions.queries]
    probabilities = np.array([told for told, _ in given])[None]
    unknown = np.full((1, len(given)), np.nan)
    return ForecastTable(
        probabilities=probabilities, failed=np.zeros((1, len(given)), dtype=np.bool_),
        speedup=np.array([2.0**log for _, log in given])[None], p_valid=unknown,
        confidence=probabilities.max(axis=2), tokens=unknown, elapsed_s=unknown, reasons={},
    )  # fmt: skip
