"""The trained model: forests, vocabulary and error shapes, kept in one file of plain arrays."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.static.calibration import ErrorShape, probabilities
from kbench.benchmark.surrogates.static.forest import Forest
from kbench.benchmark.surrogates.static.level import Level, weighted
from kbench.benchmark.surrogates.static.rows import OWN, PROBLEM, KernelRows, Pool, Rows, pair_rows
from kbench.schemas import DataError, PairKind, Query

Places = npt.NDArray[np.int64]

VERSION = 2
FORESTS = ("within", "total", "rank", "valid", "pair", "reference_width", "pair_width")
"""within: log2 speed relative to the problem's median; total: log2 speedup over the reference; rank: `within` in units
of the problem's spread; valid: log-odds; pair: log2 ratio of two kernels; widths: log of the expected error."""


@dataclasses.dataclass(frozen=True, slots=True)
class Forecasts:
    """What the model says of some queries, as columns."""

    probabilities: Floats
    log2_speedup: Floats
    p_valid: Floats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What the kernel models say of each kernel, in log2."""

    total: Floats
    within: Floats
    rank: Floats
    level: Floats

    def columns(self) -> Floats:
        """[kernels, 5]: what the blend over the reference weighs."""
        return np.stack([np.ones(len(self.total)), self.total, self.within, self.rank, self.level], axis=1)

    def reference(self, blend: Floats) -> Floats:
        """log2 speedup over the reference."""
        return weighted(self.columns(), blend)

    def differences(self, pair: Floats, candidate: Places, anchor: Places) -> Floats:
        """[pairs, 4]: what the blend of a pair weighs."""
        changes = [each[candidate] - each[anchor] for each in (self.total, self.within, self.rank)]
        return np.stack([pair, *changes], axis=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StaticModel:
    """Everything `static` knows."""

    vocabulary: tuple[str, ...]
    forests: dict[str, Forest]
    blend: Floats
    """Weights of 1, `total`, `within`, `rank` and the level for the speedup over the reference."""
    pair_blend: Floats
    """Weights of `pair` and of the differences of `total`, `within` and `rank` for the ratio of two kernels."""
    level: Level
    reference_shape: ErrorShape
    pair_shape: ErrorShape
    facts: dict[str, Any]
    """What it was trained on."""

    def forecast(self, queries: Sequence[Query]) -> Forecasts:
        """Answers to queries, each independent of the others."""
        pool = Pool(queries)
        rows = KernelRows(self.vocabulary).rows(pool.sources, pool.queries)
        guesses = Guesses(
            total=self.forests["total"].predict(rows),
            within=self.forests["within"].predict(rows),
            rank=self.forests["rank"].predict(rows),
            level=self.level.predict(problem_columns(rows)),
        )
        valid = 1.0 / (1.0 + np.exp(-self.forests["valid"].predict(rows)))
        is_reference = np.array([query.kind is PairKind.REFERENCE for query in queries], dtype=np.bool_)
        point, given = np.zeros(len(queries)), np.zeros((len(queries), 8))
        for mask, answer in ((is_reference, self._reference), (~is_reference, self._pair)):
            if mask.any():
                point[mask], given[mask] = answer(rows, guesses, pool.candidate[mask], pool.anchor[mask])
        return Forecasts(given, point, valid[pool.candidate])

    def _reference(self, rows: Rows, guesses: Guesses, candidate: Places, _: Places) -> tuple[Floats, Floats]:
        point = guesses.reference(self.blend)[candidate]
        inputs = reference_width_rows(rows, guesses, guesses.reference(self.blend))[candidate]
        width = np.exp(self.forests["reference_width"].predict(inputs))
        return point, probabilities(point, width, self.reference_shape)

    def _pair(self, rows: Rows, guesses: Guesses, candidate: Places, anchor: Places) -> tuple[Floats, Floats]:
        inputs = pair_inputs(rows, guesses, candidate, anchor)
        point = weighted(guesses.differences(self.forests["pair"].predict(inputs), candidate, anchor), self.pair_blend)
        width = np.exp(self.forests["pair_width"].predict(pair_width_rows(inputs, point)))
        return point, probabilities(point, width, self.pair_shape)

    def save(self, path: Path) -> None:
        """Write the file; it holds numbers and one JSON text, nothing that runs."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, forest in self.forests.items():
            arrays |= forest.arrays(name)
        head = {"version": VERSION, "vocabulary": self.vocabulary, "facts": self.facts}
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
        arrays |= self.level.arrays() | {"pair_blend": self.pair_blend}
        arrays |= {"blend": self.blend, "reference_shape": self.reference_shape.quantiles}
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays, pair_shape=self.pair_shape.quantiles)

    @classmethod
    def load(cls, path: Path) -> StaticModel:
        """Read the file.

        Raises:
            DataError: it is not such a file, or of another version.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            head = json.loads(arrays["head"].tobytes())
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"model {path} cannot be read ({error}); train it with {TRAIN_COMMAND}") from None
        if head["version"] != VERSION:
            raise DataError(f"model {path} is of version {head['version']}, not {VERSION}; {TRAIN_COMMAND}")
        return cls(
            vocabulary=tuple(head["vocabulary"]),
            forests={name: Forest.from_arrays(arrays, name) for name in FORESTS},
            blend=arrays["blend"],
            pair_blend=arrays["pair_blend"],
            level=Level.from_arrays(arrays),
            reference_shape=ErrorShape(arrays["reference_shape"]),
            pair_shape=ErrorShape(arrays["pair_shape"]),
            facts=head["facts"],
        )


TRAIN_COMMAND = "python -m kbench.benchmark.surrogates.static.train"


def problem_columns(rows: Rows) -> Rows:
    """The columns that describe the problem."""
    return rows[:, OWN : OWN + PROBLEM]


def reference_width_rows(rows: Rows, guesses: Guesses, point: Floats) -> Rows:
    """What the width of a forecast over the reference may depend on."""
    columns = (point, np.abs(point), guesses.total - guesses.within, guesses.within, guesses.level - guesses.total)
    return np.concatenate([np.stack(columns, axis=1).astype(np.float32), rows], axis=1)


def pair_inputs(rows: Rows, guesses: Guesses, candidate: Places, anchor: Places) -> Rows:
    """Rows of pairs of kernels."""
    columns = {
        "within": guesses.within[candidate] - guesses.within[anchor],
        "total": guesses.total[candidate] - guesses.total[anchor],
        "candidate": guesses.within[candidate],
        "anchor": guesses.within[anchor],
    }
    return pair_rows(rows[candidate], rows[anchor], columns, OWN)


def pair_width_rows(inputs: Rows, point: Floats) -> Rows:
    """What the width of a pair's forecast may depend on."""
    size = np.abs(inputs[:, 4 : 4 + OWN]).sum(axis=1)
    extra = np.stack([point, np.abs(point), size], axis=1).astype(np.float32)
    return np.concatenate([extra, inputs], axis=1)
