"""A contribution from a GPU: which kernels, how steady the GPU is, and what leaves the machine."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

from kbench.cli import cli
from kbench.harness.commands import contribute, measure
from kbench.harness.commands.contribute import ANCHORS, FOLDERS, anchors
from kbench.harness.device.environment import make_environment
from kbench.harness.device.gpu import Gpu
from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.merge import merge
from kbench.schemas import Environment, KernelSource, Measurement, Status, from_dict
from kbench.schemas.ids import content_hash

CARD = "NVIDIA GeForce RTX 4090"
FACTS: dict[str, Any] = {
    "gpu": CARD, "compute_capability": "8.9", "sm_count": 128, "memory_bytes": 1, "l2_bytes": 1,
    "shared_bytes_per_block": 1, "driver": "580", "cuda": "13.0",
}  # fmt: skip


class RecordedHarness:
    """Gives the figures of the dataset as another GPU's, with a factor for each session; the first kernel fails."""

    gpus = (0,)

    def __init__(self, factors: Iterator[float], lost: set[str]) -> None:
        self.factor, self.lost = next(factors), lost

    def __enter__(self) -> RecordedHarness:
        return self

    def __exit__(self, *raised: object) -> None:
        return None

    def environment(self, lane: int) -> Environment:
        return make_environment(FACTS, "none", None)

    def measure(self, kernels: Iterable[KernelSource], on_lost: Any, fragile: set[str]) -> Iterator[Measurement]:
        asked = {kernel.kernel_id: kernel for kernel in kernels}
        if not asked:
            return
        where = pc.field("kernel_id").isin(list(asked)) & (pc.field("gpu") == "NVIDIA H200")
        first = next(iter(anchors()))
        for row in Corpus.open(None).table("measurements", where=where).to_pylist():
            if row["kernel_id"] in self.lost:
                on_lost(asked[row["kernel_id"]], "the driver failed")
                continue
            changes: dict[str, Any] = {"gpu": CARD, "env_id": self.environment(0).env_id}
            changes["measurement_id"] = content_hash(row["measurement_id"], str(self.factor))
            changes |= {name: row[name] * self.factor for name in row if name.startswith("runtime_") and row[name]}
            if row["kernel_id"] == first:
                timed = {name: None for name in row if name.startswith(("runtime_", "speedup", "samples", "anchor"))}
                error = "/home/ann/my_kernels/build/x.cu(3): error"
                changes |= timed | {"status": Status.COMPILE_ERROR, "error": error}
            yield dataclasses.replace(from_dict(Measurement, row), **changes)


def test_the_anchors_are_fast_and_middling_kernels_of_both_backends_of_fifty_problems() -> None:
    chosen = anchors()
    assert list(chosen) == json.loads(ANCHORS.read_text())["kernels"]
    cells = Counter((one.kernel.problem_id, one.kernel.backend) for one in chosen.values())
    assert (len(chosen), len(cells), set(cells.values())) == (200, 100, {2})
    assert {row["status"] for one in chosen.values() for row in one.rows.values()} == {"ok"}


def test_a_contribution_goes_on_and_becomes_a_bundle_that_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {list(anchors())[7]}
    factors = iter((2.0, 2.01, 2.0, 2.02))
    monkeypatch.setattr(measure, "make_harness", lambda options: RecordedHarness(factors, lost))
    monkeypatch.setattr(contribute, "time_references", lambda *told: ["relu: not timed"])
    out = tmp_path / "bundle"
    done = contribute.contribute(Gpu(), out, 600, quiet=True)
    assert (done.bundle, done.left, done.kernels) == (None, 1, 199)
    assert any("the driver failed" in note for note in done.notes)
    lost.clear()
    done = contribute.contribute(Gpu(), out, 600, quiet=True)
    assert (done.bundle, done.left, done.gpus) == (str(out), 0, (CARD,))
    assert done.repeatable
    assert done.repeats["agreement"]["median |log ratio|"] == pytest.approx(0.005, abs=1e-3)
    assert done.dataset == {"compared": 0, "agreement": {}}
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    bundle = Corpus.open(out)
    assert validate(bundle) == []
    assert {row["error"] for row in bundle.table("kernels").to_pylist()} == {None, "x.cu(3): error"}
    assert b"ann" not in b"".join(path.read_bytes() for path in out.rglob("*.json"))
    merge([out], tmp_path / "imported")
    assert Corpus.open(tmp_path / "imported").rows("repeats") == bundle.rows("repeats") > 0
    assert "exists; send it" in str(CliRunner().invoke(cli, ["contribute", "--out", str(out)]).exception)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ann/x.cu(3): error", "x.cu(3): error"),
        ("in ~/work/a/b.py, line 3", "in b.py, line 3"),
        ("ratio 1/2 of a/b", "ratio 1/2 of a/b"),
    ],
)
def test_folders_are_taken_out_of_messages(text: str, left: str) -> None:
    assert FOLDERS.sub("", text) == left
