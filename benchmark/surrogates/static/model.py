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
from kbench.benchmark.surrogates.static.rows import OWN, KernelRows, Pool, Rows, pair_rows
from kbench.schemas import DataError, PairKind, Query

VERSION = 1
FORESTS = ("within", "total", "valid", "pair", "reference_width", "pair_width")
"""within: log2 speed relative to the problem's mean; total: log2 speedup over the reference; valid: log-odds;
pair: log2 ratio of two kernels; the widths: log of the expected absolute error."""


@dataclasses.dataclass(frozen=True, slots=True)
class Forecasts:
    """What the model says of some queries, as columns."""

    probabilities: Floats
    log2_speedup: Floats
    p_valid: Floats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StaticModel:
    """Everything `static` knows."""

    vocabulary: tuple[str, ...]
    forests: dict[str, Forest]
    blend: Floats
    """Intercept and weights of `total` and `within` for the speedup over the reference."""
    reference_shape: ErrorShape
    pair_shape: ErrorShape
    facts: dict[str, Any]
    """What it was trained on."""

    def forecast(self, queries: Sequence[Query]) -> Forecasts:
        """Answers to queries, each independent of the others."""
        pool = Pool(queries)
        rows = KernelRows(self.vocabulary).rows(pool.sources, pool.queries)
        within, total = self.forests["within"].predict(rows), self.forests["total"].predict(rows)
        valid = 1.0 / (1.0 + np.exp(-self.forests["valid"].predict(rows)))
        is_reference = np.array([query.kind is PairKind.REFERENCE for query in queries], dtype=np.bool_)
        point, given = np.zeros(len(queries)), np.zeros((len(queries), 8))
        for mask, answer in ((is_reference, self._reference), (~is_reference, self._pair)):
            if mask.any():
                point[mask], given[mask] = answer(rows, within, total, pool.candidate[mask], pool.anchor[mask])
        return Forecasts(given, point, valid[pool.candidate])

    def _reference(
        self, rows: Rows, within: Floats, total: Floats, candidate: npt.NDArray[np.int64], _: npt.NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        point = blended(self.blend, total[candidate], within[candidate])
        inputs = reference_width_rows(rows[candidate], point, total[candidate], within[candidate])
        width = np.exp(self.forests["reference_width"].predict(inputs))
        return point, probabilities(point, width, self.reference_shape)

    def _pair(
        self, rows: Rows, within: Floats, total: Floats, candidate: npt.NDArray[np.int64], anchor: npt.NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        inputs = pair_inputs(rows, within, total, candidate, anchor)
        point = self.forests["pair"].predict(inputs)
        width = np.exp(self.forests["pair_width"].predict(pair_width_rows(inputs, point)))
        return point, probabilities(point, width, self.pair_shape)

    def save(self, path: Path) -> None:
        """Write the file; it holds numbers and one JSON text, nothing that runs."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, forest in self.forests.items():
            arrays |= forest.arrays(name)
        head = {"version": VERSION, "vocabulary": self.vocabulary, "facts": self.facts}
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
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
            reference_shape=ErrorShape(arrays["reference_shape"]),
            pair_shape=ErrorShape(arrays["pair_shape"]),
            facts=head["facts"],
        )


TRAIN_COMMAND = "python -m kbench.benchmark.surrogates.static.train"


def blended(blend: Floats, total: Floats, within: Floats) -> Floats:
    """log2 speedup over the reference from the two kernel models."""
    result: Floats = blend[0] + blend[1] * total + blend[2] * within
    return result


def reference_width_rows(rows: Rows, point: Floats, total: Floats, within: Floats) -> Rows:
    """What the width of a forecast over the reference may depend on."""
    guesses = np.stack([point, np.abs(point), total - within, within], axis=1).astype(np.float32)
    return np.concatenate([guesses, rows], axis=1)


def pair_inputs(
    rows: Rows, within: Floats, total: Floats, candidate: npt.NDArray[np.int64], anchor: npt.NDArray[np.int64]
) -> Rows:
    """Rows of pairs of kernels."""
    guesses = {
        "within": within[candidate] - within[anchor],
        "total": total[candidate] - total[anchor],
        "candidate": within[candidate],
        "anchor": within[anchor],
    }
    return pair_rows(rows[candidate], rows[anchor], guesses, OWN)


def pair_width_rows(inputs: Rows, point: Floats) -> Rows:
    """What the width of a pair's forecast may depend on."""
    size = np.abs(inputs[:, 4 : 4 + OWN]).sum(axis=1)
    extra = np.stack([point, np.abs(point), size], axis=1).astype(np.float32)
    return np.concatenate([extra, inputs], axis=1)
