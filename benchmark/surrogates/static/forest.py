"""Trees as plain arrays: read from a file without running anything, evaluated column by column."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.schemas import DataError

CHUNK = 4096
"""Rows walked at a time: their positions and features stay in cache."""
FEW = 64
"""Rows up to which all trees are walked at once: a call for every tree and level would take longer than its work."""


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
    """[trees, nodes, outputs]."""
    depth: npt.NDArray[np.int32]
    """[trees]."""

    def predict(self, rows: npt.NDArray[np.float32]) -> Floats:
        """The first output of every row."""
        return self.outputs(rows)[:, 0]

    def outputs(self, rows: npt.NDArray[np.float32]) -> Floats:
        """The sum of the trees' leaves for every row: [rows, outputs]."""
        result = np.full((len(rows), self.value.shape[2]), self.baseline)
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            result[start : start + CHUNK] += self._walk_at_once(part) if len(part) <= FEW else self._walk(part)
        return result

    def _walk_at_once(self, rows: npt.NDArray[np.float32]) -> Floats:
        (trees, width), count = self.feature.shape, len(rows)
        features, flat = rows.shape[1], np.ascontiguousarray(rows).ravel()
        feature, threshold, left, right = (
            part.ravel() for part in (self.feature, self.threshold, self.left, self.right)
        )
        root = np.repeat(np.arange(trees) * width, count)
        row = np.tile(np.arange(count) * features, trees)
        node = root
        for _ in range(int(self.depth.max())):
            goes_left = flat.take(row + feature.take(node)) <= threshold.take(node)
            node = root + np.where(goes_left, left.take(node), right.take(node))
        leaves = self.value.reshape(trees * width, -1).take(node, axis=0).reshape(trees, count, -1)
        # Tree by tree, as many rows are summed: in another order the sum would be another.
        return np.add.accumulate(leaves, axis=0, dtype=np.float64)[-1]

    def _walk(self, rows: npt.NDArray[np.float32]) -> Floats:
        count = len(rows)
        columns = np.ascontiguousarray(rows.T).ravel()
        offset = np.arange(count, dtype=np.int64)
        total = np.zeros((self.value.shape[2], count))
        for tree in range(len(self.depth)):
            base = self.feature[tree].astype(np.int64) * count
            threshold = self.threshold[tree]
            # Where a row goes from node n: at 2n to the right, at 2n + 1 to the left; one lookup instead of two.
            follows = np.stack([self.right[tree], self.left[tree]], axis=1).astype(np.int64).ravel()
            node = np.zeros(count, dtype=np.int64)
            for _ in range(int(self.depth[tree])):
                goes_left = columns.take(base.take(node) + offset) <= threshold.take(node)
                node = follows.take(node + node + goes_left)
            for output, leaves in zip(total, self.value[tree].T, strict=True):
                output += leaves.take(node)
        return total.T

    def arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Everything needed to rebuild it, by names that start with the prefix; where `right` is 0 there is a leaf."""
        here = np.arange(self.feature.shape[1])
        inner = self.right > here
        # scikit-learn numbers a node's left side right after it.
        assert np.array_equal(self.left, here + inner)
        # The first bytes of all thresholds before the second ones: they are much alike, and compress better so.
        planes = self.threshold[inner].view(np.uint8).reshape(-1, 4).T.copy()
        # Half precision moves a forecast by far less than trees of another seed would.
        values = self.value[~inner].astype(np.float16)
        parts: dict[str, npt.NDArray[Any]] = {
            "right": (self.right - here).astype(np.uint16), "feature": self.feature[inner].astype(np.uint16),
            "threshold": planes, "value": values, "depth": self.depth, "baseline": np.array(self.baseline),
        }  # fmt: skip
        return {f"{prefix}.{name}": part for name, part in parts.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Forest:
        """Rebuild what `arrays` gave."""
        right, values = (arrays[f"{prefix}.{name}"] for name in ("right", "value"))
        inner, here = right > 0, np.arange(right.shape[1], dtype=np.int32)
        feature, threshold = np.zeros(right.shape, np.int32), np.zeros(right.shape, np.float32)
        feature[inner] = arrays[f"{prefix}.feature"]
        threshold[inner] = arrays[f"{prefix}.threshold"].T.copy().view(np.float32)[:, 0]
        value = np.zeros((*right.shape, values.shape[1]), np.float32)
        value[~inner] = values
        depth, baseline = arrays[f"{prefix}.depth"], float(arrays[f"{prefix}.baseline"])
        return cls(baseline, feature, threshold, here + inner, here + right.astype(np.int32), value, depth)


@dataclasses.dataclass(frozen=True, slots=True)
class _Tree:
    """One tree of either kind, leaves marked by `inner` being false."""

    inner: npt.NDArray[np.bool_]
    feature: npt.NDArray[np.int64]
    threshold: Floats
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    value: Floats
    """[nodes, outputs]."""
    depth: int


def from_sklearn(model: Any, columns: npt.NDArray[np.int64] | None = None) -> Forest:
    """The trees of a fitted HistGradientBoosting model with one output, or of a fitted ExtraTreesRegressor."""
    if hasattr(model, "estimators_"):
        return _packed([_averaged(each.tree_, len(model.estimators_)) for each in model.estimators_], 0.0, columns)
    trees = [_boosted(stage[0].nodes) for stage in model._predictors]
    return _packed(trees, float(np.ravel(model._baseline_prediction)[0]), columns)


def _boosted(nodes: npt.NDArray[Any]) -> _Tree:
    inner = nodes["is_leaf"] == 0
    return _Tree(
        inner=inner,
        feature=nodes["feature_idx"].astype(np.int64),
        threshold=nodes["num_threshold"],
        left=nodes["left"].astype(np.int64),
        right=nodes["right"].astype(np.int64),
        value=np.where(inner, 0.0, nodes["value"])[:, None],
        depth=int(nodes["depth"].max()),
    )


def _averaged(tree: Any, trees: int) -> _Tree:
    inner = tree.children_left >= 0
    return _Tree(
        inner=inner,
        feature=tree.feature.astype(np.int64),
        threshold=tree.threshold,
        left=tree.children_left.astype(np.int64),
        right=tree.children_right.astype(np.int64),
        value=np.where(inner[:, None], 0.0, tree.value[:, :, 0]) / trees,
        depth=int(tree.max_depth),
    )


def _packed(trees: list[_Tree], baseline: float, columns: npt.NDArray[np.int64] | None) -> Forest:
    width = max(len(tree.inner) for tree in trees)
    shape = (len(trees), width)
    itself = np.tile(np.arange(width, dtype=np.int32), (len(trees), 1))
    feature, threshold = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    value = np.zeros((*shape, trees[0].value.shape[1]), np.float32)
    left, right = itself.copy(), itself.copy()
    for index, tree in enumerate(trees):
        at = np.flatnonzero(tree.inner)
        columns_used = tree.feature[at]
        feature[index, at] = columns_used if columns is None else columns[columns_used]
        threshold[index, at] = _down(tree.threshold[at])
        left[index, at], right[index, at] = tree.left[at], tree.right[at]
        value[index, : len(tree.inner)] = tree.value
    depth = np.array([tree.depth for tree in trees], dtype=np.int32)
    return Forest(baseline, feature, threshold, left, right, value, depth)


def constant(value: float) -> Forest:
    """A forest with one output for every row."""
    one = np.zeros((1, 1), dtype=np.int32)
    none = np.zeros((1, 1), dtype=np.float32)
    return Forest(value, one, none, one, one, none[:, :, None], np.zeros(1, dtype=np.int32))


def _down(thresholds: Floats) -> npt.NDArray[np.float32]:
    """Rounded to float32 towards −∞: a float32 feature is then at most the threshold exactly when it was before."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded.astype(np.float64) > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def write_model(path: Path, head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write numbers and one JSON text, nothing that runs, as a file that `numpy.load` reads.

    It is a tenth smaller than what numpy writes, and the same each time.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in {**arrays, "head": np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)}.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_LZMA)


def read_model(path: Path, version: int, command: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What `write_model` was given.

    Raises:
        DataError: it is no such file, or of another version; the message says by which command to make it again.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        head = json.loads(arrays.pop("head").tobytes())
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"model {path} cannot be read ({error}); make it with {command}") from None
    if head["version"] != version:
        raise DataError(f"model {path} is of version {head['version']}, not {version}; make it with {command}")
    return head, arrays
