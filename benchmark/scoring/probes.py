"""Probes: what can be answered without understanding a kernel? They stand beside every headline.

A probe sees one thing alone and learns from the training questions what it is worth. It then answers the questions like
any entry, with trees: classes of bins for pairs and edits, places within the pool for levels. How much of its
distribution is kept, the rest being the prior, is chosen on validation. A headline that the strongest reaches is none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.forecast import rps_rows
from kbench.benchmark.questions.asked import QUESTION_COLUMNS, Tables, of_gpu
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings, Bounds, Scored, score
from kbench.benchmark.surrogates.forecasts import align, forecasts_file, read_forecasts, to_arrow
from kbench.loaders.corpus.places import data_home
from kbench.loaders.storage.atomic import replace_together
from kbench.schemas import AuthorClass, Forecast, QuestionKind, bins
from kbench.schemas.ids import content_hash

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Features = Callable[[str], Sequence[float]]
"""Of a kernel, by its id."""
NAMES = ("source-free", "author", "layout", "names")
KEPT = (1.0, 0.5, 0.25, 0.0)
"""Shares of a probe's distribution that validation chooses from."""
WORDS = 48
"""Columns that names are hashed into."""
NAME = re.compile(r"[A-Za-z_]\w*")


def probe_scores(
    corpus: Tables,
    questions: Questions,
    settings: BootstrapSettings | None = None,
    bounds: Bounds | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Scored]:
    """What every probe scores; nothing on kernels of others, of which nobody knows who writes alike."""
    if questions.imported:
        return {}
    ids = [query.query_id for query in questions.queries]
    return {
        name: score(questions, align(answers, ids), settings, sliced=False, bounds=bounds, headlines_alone=True)
        for name, answers in _answers(corpus, questions, tell).items()
    }


def _answers(corpus: Tables, questions: Questions, tell: Callable[[str], None]) -> dict[str, pa.Table]:
    """The probes' forecasts of the whole split, learnt for the first that asks and then kept."""
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    key = content_hash("probes", corpus.fingerprint, questions.split, str(questions.gpu), code)
    folder = data_home() / "probes" / key
    paths = {name: folder / f"{name}.parquet" for name in NAMES}
    if all(path.is_file() for path in paths.values()):
        tell("probes")
        return {name: read_forecasts(path) for name, path in paths.items()}
    tell(f"probes learn {questions.split}, which takes a minute once; their answers are kept")
    import sklearn.ensemble  # noqa: F401
    from threadpoolctl import threadpool_limits

    columns = [*QUESTION_COLUMNS, "bin"]
    rows = {
        split: of_gpu(corpus.table("questions", split=split, columns=columns).to_pylist(), corpus)
        for split in ("train", "validation", questions.split)
    }
    kernels = corpus.table("kernels", columns=["kernel_id", "normalised"])
    texts = dict(zip(*(column.to_pylist() for column in kernels.columns), strict=True))
    # Threads of small trees wait for each other longer than they work; what is not loaded yet cannot be limited.
    with threadpool_limits(1):
        forecasts = {
            name: Probe(features, rows["train"], rows["validation"]).forecasts(rows[questions.split])
            for name, features in _probes(rows, texts).items()
        }
    # Where the folder cannot be written, the next evaluation learns again.
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        files = {paths[name].name: forecasts_file(answers, corpus.fingerprint) for name, answers in forecasts.items()}
        replace_together(folder, files)
    return {name: to_arrow(answers) for name, answers in forecasts.items()}


def _probes(rows: Mapping[str, Sequence[Row]], texts: Mapping[str, str]) -> dict[str, Features]:
    authors: dict[str, list[float]] = {}
    asked: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in (row for part in rows.values() for row in part):
        for side in ("anchor_id", "candidate_id"):
            if row[side] is not None:
                asked[row[side]][f"{side} of {row['kind']}"] += 1
                authors[row[side]] = [float(row["author"] == one) for one in AuthorClass] + [row["backend"] == "cuda"]
    places = [f"{side} of {kind}" for side in ("anchor_id", "candidate_id") for kind in QuestionKind]
    # How often and where a kernel is asked about; who wrote it; what its text looks like; which identifiers occur.
    columns: tuple[Features, ...] = (
        lambda key: [*(float(asked[key][place]) for place in places), int(key[:8], 16) / 2**32],
        authors.__getitem__,
        lambda key: _layout(texts[key]),
        lambda key: _names(texts[key]),
    )
    return dict(zip(NAMES, columns, strict=True))


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
        """Learn from training questions."""
        # Rows name the same kernels again and again.
        self._features = functools.cache(features)
        self._models: dict[str, tuple[Any, Any, Floats, float]] = {}
        for kind in (QuestionKind.EDIT, QuestionKind.PAIR):
            rows, held = (
                [row for row in part if row["kind"] == kind and row["workload"] is None] for part in (train, validation)
            )
            if rows:
                self._models[kind] = self._learn(rows, held)
        levels = [row for row in train if row["kind"] == QuestionKind.LEVEL and row["pool"] is not None]
        table, members = self._pools(levels)
        places = np.zeros(len(levels))
        for at in members:
            order = np.argsort(np.argsort([levels[one]["speedup"] for one in at]))
            places[at] = order / len(at) - 0.5
        self._places = _fitted(table, places) if levels else None

    def _learn(self, rows: Sequence[Row], held: Sequence[Row]) -> tuple[Any, Any, Floats, float]:
        """Classes of bins, log2 speedups, the prior, and how much of the classes' distribution is kept."""
        table, numbers = self._pairs(rows), np.array([row["bin"] for row in rows])
        shares = (np.bincount(numbers - 1, minlength=bins.COUNT) + 1.0) / (len(numbers) + bins.COUNT)
        classes = _fitted(table, numbers, of_classes=True)
        points = _fitted(table, np.clip([np.log2(row["speedup"]) for row in rows], -2, 2))
        truth = np.array([row["bin"] for row in held], dtype=np.int64)
        probabilities = self._distributions(classes, held)
        losses = (
            {kept: rps_rows(kept * probabilities + (1 - kept) * shares, truth).mean() for kept in KEPT} if held else {}
        )
        return classes, points, shares, min(losses, key=lambda kept: losses[kept], default=1.0)

    def forecasts(self, rows: Sequence[Row]) -> list[Forecast]:
        """Answers to those questions that it can answer."""
        forecasts: list[Forecast] = []
        for kind, (classes, points, shares, kept) in self._models.items():
            asked = [row for row in rows if row["kind"] == kind]
            if asked:
                probabilities = kept * self._distributions(classes, asked) + (1 - kept) * shares
                forecasts += _forecasts(asked, probabilities, points.predict(self._pairs(asked)))
        levels = [row for row in rows if row["kind"] == QuestionKind.LEVEL and row["pool"] is not None]
        if levels and self._places is not None:
            even = np.full((len(levels), bins.COUNT), 1 / bins.COUNT)
            forecasts += _forecasts(levels, even, self._places.predict(self._pools(levels)[0]))
        return forecasts

    def _distributions(self, classes: Any, rows: Sequence[Row]) -> Floats:
        probabilities = np.zeros((len(rows), bins.COUNT))
        if rows:
            probabilities[:, np.asarray(classes.classes_, dtype=int) - 1] = classes.predict_proba(self._pairs(rows))
        return probabilities

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


def _fitted(table: Floats, target: Floats, of_classes: bool = False) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    trees = HistGradientBoostingClassifier if of_classes else HistGradientBoostingRegressor
    return trees(max_iter=60, max_leaf_nodes=8, learning_rate=0.05, min_samples_leaf=60, random_state=0).fit(
        table, target
    )


def _forecasts(rows: Sequence[Row], probabilities: Floats, logs: Floats) -> list[Forecast]:
    probabilities = probabilities / probabilities.sum(axis=1, keepdims=True)
    return [
        Forecast(query_id=row["question_id"], probabilities=tuple(map(float, shares)), speedup=float(2.0**log))
        for row, shares, log in zip(rows, probabilities, logs, strict=True)
    ]
