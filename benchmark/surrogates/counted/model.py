"""The fitted model: constants of the time, trees over columns, the reference's time, and how far off all that is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.counted.columns import COLUMNS, TIME, UNCERTAIN
from kbench.benchmark.surrogates.static.calibration import ErrorShape, probabilities
from kbench.benchmark.surrogates.static.forest import Forest
from kbench.benchmark.surrogates.static.level import Level
from kbench.benchmark.work.times import Fitted
from kbench.schemas import DataError

VERSION = 1
MODEL_FILE = Path(__file__).with_name("model.npz")
FIT_COMMAND = "python -m kbench.benchmark.surrogates.counted.fit"
KERNELS, REFERENCE = "kernels", "reference"
SPREADS = (KERNELS, REFERENCE)
"""Kinds of question: one kernel against another, and against PyTorch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """How a difference of two forecast times becomes a distribution over the bins."""

    slope: float
    """Share of the difference that is believed."""
    least: float
    """The width of a difference of nothing,"""
    grows: float
    """how much wider one octave is,"""
    unsure: float
    """and work that rests on branches which depend on data."""
    quantiles: tuple[float, ...]
    """Of errors, in units of the width."""
    prior: tuple[float, ...]
    """Frequencies of the bins, where nothing could be counted."""

    def answer(self, difference: Floats, uncertain: Floats) -> tuple[Floats, Floats]:
        """log2 speedups that are believed, and probabilities of the bins: [rows, 8]."""
        point = self.slope * difference
        shape = ErrorShape(np.asarray(self.quantiles))
        return point, probabilities(point, self.width(point, uncertain), shape)

    def width(self, point: Floats, uncertain: Floats) -> Floats:
        """How far off points usually are, up to a factor."""
        width: Floats = self.least + self.grows * np.abs(point) + self.unsure * uncertain
        return width


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CountedModel:
    """Everything `static-compiler` knows."""

    fitted: Fitted
    forest: Forest
    """log2 of how much longer a kernel takes than its white-box time."""
    level: Level
    """log2 of how much longer PyTorch takes than the problem's least time."""
    spreads: Mapping[str, Spread]
    facts: Mapping[str, Any]
    """What it was fitted on."""

    def times(self, rows: Floats) -> Floats:
        """log2 microseconds of kernels, from rows of COLUMNS."""
        times: Floats = rows[:, TIME] + self.forest.predict(rows.astype(np.float32))
        return times

    def interval_us(self, row: Floats) -> tuple[float, float, float]:
        """Microseconds of a kernel with this row, and the ends of the interval that holds four in five."""
        time = float(self.times(row[None])[0])
        low, high = self.facts["cross_validation"]["time_log2_error"]
        return 2.0**time, 2.0 ** (time + low), 2.0 ** (time + high)

    def answer(self, kind: str, difference: float, *rows: Floats) -> tuple[float, tuple[float, ...]]:
        """log2 speedup and probabilities of the bins for a difference of log2 times of kernels with these rows."""
        uncertain = np.array([max(row[UNCERTAIN] for row in rows)])
        point, shares = self.spreads[kind].answer(np.array([difference]), uncertain)
        return float(point[0]), tuple(shares[0].tolist())

    def save(self, path: Path) -> None:
        """Write the file; it holds numbers and one JSON text, nothing that runs."""
        head = {
            "version": VERSION, "columns": COLUMNS, "fitted": dataclasses.asdict(self.fitted), "facts": self.facts,
            "spreads": {name: dataclasses.asdict(spread) for name, spread in self.spreads.items()},
        }  # fmt: skip
        arrays: dict[str, npt.NDArray[Any]] = {"head": np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)}
        arrays |= self.forest.arrays("forest") | self.level.arrays()
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path = MODEL_FILE) -> CountedModel:
        """Read the file.

        Raises:
            DataError: it is not such a file, or of other columns.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            head = json.loads(arrays["head"].tobytes())
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"model {path} cannot be read ({error}); fit it with {FIT_COMMAND}") from None
        if head["version"] != VERSION or tuple(head["columns"]) != COLUMNS:
            raise DataError(f"model {path} is of version {head['version']} or has other columns; {FIT_COMMAND}")
        return cls(
            fitted=Fitted(**head["fitted"]),
            forest=Forest.from_arrays(arrays, "forest"),
            level=Level.from_arrays(arrays),
            spreads={name: Spread(**spread) for name, spread in head["spreads"].items()},
            facts=head["facts"],
        )
