"""Boosted trees as plain arrays: read from a file without running anything, evaluated column by column."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats

CHUNK = 4096
"""Rows walked at a time: their positions and features stay in cache."""


@dataclasses.dataclass(frozen=True, slots=True)
class Forest:
    """A sum of trees. Node 0 of a tree is its root; a leaf points at itself."""

    baseline: float
    feature: npt.NDArray[np.int32]
    """[trees, nodes]."""
    threshold: npt.NDArray[np.float32]
    """A row goes left when its feature is at most this."""
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]
    depth: npt.NDArray[np.int32]
    """[trees]."""

    def predict(self, rows: npt.NDArray[np.float32]) -> Floats:
        """The sum of the trees' leaves for every row."""
        result = np.full(len(rows), self.baseline)
        for start in range(0, len(rows), CHUNK):
            result[start : start + CHUNK] += self._walk(rows[start : start + CHUNK])
        return result

    def _walk(self, rows: npt.NDArray[np.float32]) -> Floats:
        count = len(rows)
        columns = np.ascontiguousarray(rows.T).ravel()
        offset = np.arange(count, dtype=np.int64)
        total = np.zeros(count)
        for tree in range(len(self.depth)):
            base = self.feature[tree].astype(np.int64) * count
            threshold, left, right = self.threshold[tree], self.left[tree], self.right[tree]
            node = np.zeros(count, dtype=np.int32)
            for _ in range(int(self.depth[tree])):
                goes_left = columns.take(base.take(node) + offset) <= threshold.take(node)
                node = np.where(goes_left, left.take(node), right.take(node))
            total += self.value[tree].take(node)
        return total

    def arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Everything needed to rebuild it, under names that start with the prefix."""
        names = ("feature", "threshold", "left", "right", "value", "depth")
        kept: dict[str, npt.NDArray[Any]] = {f"{prefix}.{name}": getattr(self, name) for name in names}
        for name in ("feature", "left", "right"):
            kept[f"{prefix}.{name}"] = kept[f"{prefix}.{name}"].astype(np.int16)
        return kept | {f"{prefix}.baseline": np.array(self.baseline)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Forest:
        """Rebuild what `arrays` gave."""
        return cls(
            baseline=float(arrays[f"{prefix}.baseline"]),
            feature=arrays[f"{prefix}.feature"].astype(np.int32),
            threshold=arrays[f"{prefix}.threshold"].astype(np.float32),
            left=arrays[f"{prefix}.left"].astype(np.int32),
            right=arrays[f"{prefix}.right"].astype(np.int32),
            value=arrays[f"{prefix}.value"].astype(np.float32),
            depth=arrays[f"{prefix}.depth"].astype(np.int32),
        )


def from_sklearn(model: Any, columns: npt.NDArray[np.int64] | None = None) -> Forest:
    """The trees of a fitted HistGradientBoosting model with one output.

    Args:
        model: the model.
        columns: which of the row's columns each of its features is; its own numbering by default.
    """
    trees = [stage[0].nodes for stage in model._predictors]
    width = max(len(nodes) for nodes in trees)
    shape = (len(trees), width)
    itself = np.tile(np.arange(width, dtype=np.int32), (len(trees), 1))
    feature, threshold, value = np.zeros(shape, np.int32), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    left, right = itself.copy(), itself.copy()
    for index, nodes in enumerate(trees):
        inner = nodes["is_leaf"] == 0
        at = np.flatnonzero(inner)
        chosen = nodes["feature_idx"][inner].astype(np.int64)
        feature[index, at] = chosen if columns is None else columns[chosen]
        threshold[index, at] = _down(nodes["num_threshold"][inner])
        left[index, at], right[index, at] = nodes["left"][inner], nodes["right"][inner]
        value[index, : len(nodes)] = np.where(inner, 0.0, nodes["value"])
    depth = np.array([int(nodes["depth"].max()) for nodes in trees], dtype=np.int32)
    return Forest(float(np.ravel(model._baseline_prediction)[0]), feature, threshold, left, right, value, depth)


def _down(thresholds: Floats) -> npt.NDArray[np.float32]:
    """Rounded to float32 towards −∞: a float32 feature is then at most the threshold exactly when it was before."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded.astype(np.float64) > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
