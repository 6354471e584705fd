"""The trained model: forests, a line through problems and error shapes, kept in one file of plain arrays."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.static.calibration import ErrorShape, Recalibration, probabilities
from kbench.benchmark.surrogates.static.forest import Forest
from kbench.benchmark.surrogates.static.guesses import (
    Guesses,
    Level,
    Places,
    pair_inputs,
    pair_width_rows,
    reference_width_rows,
    turned,
    weighted,
)
from kbench.benchmark.surrogates.static.kernel_rows import KernelPool, RowLayout, Rows
from kbench.schemas import DataError, PairKind, Query

VERSION = 4
MODEL_FILE = Path(__file__).with_name("model.npz")
KERNEL_FORESTS = ("within", "total", "within_boosted", "rank_boosted", "total_boosted")
FORESTS = (*KERNEL_FORESTS, "valid", "pair", "reference_width", "pair_width")
"""within: log2 speed relative to the problem's median, and the same in units of the problem's spread; rank: place
among the problem's kernels; total: log2 speedup over the reference; valid: log-odds; pair: log2 ratio of two kernels;
widths: log of the expected error."""
TRAIN_COMMAND = "python -m kbench.benchmark.surrogates.static.train"


@dataclasses.dataclass(frozen=True, slots=True)
class Forecasts:
    """What the model says of some queries, as columns."""

    probabilities: Floats
    log2_speedup: Floats
    p_valid: Floats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StaticModel:
    """Everything `static` knows."""

    layout: RowLayout
    forests: dict[str, Forest]
    order: float
    """How many log2 one unit of `rank` is, where kernels of a problem are told apart."""
    pair_blend: Floats
    """Weights of `pair` and of the differences of `total`, `within` and `rank` for the ratio of two kernels."""
    level: Level
    reference_shape: ErrorShape
    pair_shape: ErrorShape
    recalibration: Recalibration
    facts: dict[str, Any]
    """What it was trained on."""

    def forecast(self, queries: Sequence[Query]) -> Forecasts:
        """Answers to queries, each independent of the others."""
        pool = KernelPool(queries)
        rows = self.layout.rows(pool)
        guesses = self._guesses(rows)
        valid = 1.0 / (1.0 + np.exp(-self.forests["valid"].predict(rows)))
        is_reference = np.array([query.kind is PairKind.REFERENCE for query in queries], dtype=np.bool_)
        point, given = np.zeros(len(queries)), np.zeros((len(queries), 8))
        for mask, answer in ((is_reference, self._reference), (~is_reference, self._pair)):
            if mask.any():
                point[mask], given[mask] = answer(rows, guesses, pool.candidate[mask], pool.anchor[mask])
        given = self.recalibration.applied(given, [query.kind for query in queries])
        return Forecasts(given, point, valid[pool.candidate])

    def _guesses(self, rows: Rows) -> Guesses:
        said = {name: self.forests[name].outputs(rows) for name in KERNEL_FORESTS}
        columns = {name: found if found.shape[1] > 1 else found[:, 0] for name, found in said.items()}
        return Guesses.of(**columns, level=self.level.predict(rows[:, self.layout.problem]))

    def _reference(self, rows: Rows, guesses: Guesses, candidate: Places, _: Places) -> tuple[Floats, Floats]:
        middle = guesses.middle
        inputs = reference_width_rows(rows[:, self.layout.numbers], guesses, middle)[candidate]
        width = np.exp(self.forests["reference_width"].predict(inputs))
        # The middle is near the truth over all problems; the level plus the order tells a problem's kernels apart
        # better, which is what a single figure is for.
        point = guesses.level + self.order * guesses.rank
        return point[candidate], probabilities(middle[candidate], width, self.reference_shape)

    def _pair(self, rows: Rows, guesses: Guesses, candidate: Places, anchor: Places) -> tuple[Floats, Floats]:
        ways = ((candidate, anchor), (anchor, candidate))
        there, back = (pair_inputs(rows, guesses, self.layout, *way) for way in ways)
        forest = self.forests["pair"]
        changes = guesses.differences(turned(forest.predict(there), forest.predict(back)), candidate, anchor)
        point = weighted(changes, self.pair_blend)
        width = np.exp(self.forests["pair_width"].predict(pair_width_rows(there, point, changes, self.layout)))
        return point, probabilities(point, width, self.pair_shape)

    def save(self, path: Path) -> None:
        """Write the file; it holds numbers and one JSON text, nothing that runs."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, forest in self.forests.items():
            arrays |= forest.arrays(name)
        head = {"version": VERSION, "facts": self.facts}
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
        arrays |= self.level.arrays() | self.recalibration.arrays()
        arrays |= {"pair_blend": self.pair_blend, "order": np.array(self.order)}
        arrays |= {"reference_shape": self.reference_shape.quantiles, "pair_shape": self.pair_shape.quantiles}
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

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
            layout=RowLayout(),
            forests={name: Forest.from_arrays(arrays, name) for name in FORESTS},
            order=float(arrays["order"]),
            pair_blend=arrays["pair_blend"],
            level=Level.from_arrays(arrays),
            reference_shape=ErrorShape(arrays["reference_shape"]),
            pair_shape=ErrorShape(arrays["pair_shape"]),
            recalibration=Recalibration.from_arrays(arrays),
            facts=head["facts"],
        )
