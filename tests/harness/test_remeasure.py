"""A corpus measured on another device: which kernels, until when, and what the rows say."""

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
import stand_in
from click.testing import CliRunner

from kbench.cli import cli
from kbench.harness.commands import contribute, measure
from kbench.harness.commands.contribute import FOLDERS, anchors
from kbench.harness.commands.measure import MeasureOptions
from kbench.harness.commands.selection import EACH, Selection, StoredKernel, endless_last, rotation, spread
from kbench.harness.device.gpu import Gpu
from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.merge import merge
from kbench.schemas import Backend, KernelSource, Measurement, Status, UserError, from_dict
from kbench.schemas.ids import content_hash

DATASET = Path(__file__).parents[2] / "benchmark" / "dataset"


def stored(problems: int, each: int) -> Selection:
    """Kernels of some problems of three families in both backends, faster with their number."""
    found: Selection = {}
    for problem, backend, number in itertools.product(range(problems), (Backend.TRITON, Backend.CUDA), range(each)):
        kernel = KernelSource(f"p{problem}", backend, f"# {number}")
        row = {"speedup": number / 4 or None, "family": f"f{problem % 3}", "split": "test" if problem == 4 else "train"}
        found[kernel.kernel_id] = StoredKernel(kernel, {"G": row})
    return found


def test_a_limited_selection_has_every_problem_and_backend_and_then_whole_pools_of_test_problems() -> None:
    everything = stored(6, 20)
    chosen = spread(everything, 12 * EACH + 24)
    cells = Counter((one.kernel.problem_id, one.kernel.backend) for one in chosen.values())
    assert len(cells) == 12
    assert {problem for (problem, _), count in cells.items() if count == 20} == {"p4"}
    assert sorted(set(cells.values())) == [EACH, 20]
    for problem, backend in cells:
        cell = [one for one in chosen.values() if (one.kernel.problem_id, one.kernel.backend) == (problem, backend)]
        assert {19 / 4, None} <= {one.first["speedup"] for one in cell}


def test_a_selection_depends_on_the_rows_and_not_on_their_order() -> None:
    everything = stored(6, 20)
    backwards = dict(reversed(everything.items()))
    assert list(spread(everything, 150)) == list(spread(backwards, 150))
    assert [len(spread(everything, limit)) for limit in (1, 5, 12, 100, 240, 999)] == [1, 5, 12, 100, 240, 240]


def test_every_family_has_its_turn_before_one_has_its_second() -> None:
    order = rotation({"a1": "a", "a2": "a", "a3": "a", "b1": "b", "c1": "c", "c2": "c"})
    assert {name[0] for name in order[:3]} == {"a", "b", "c"}
    assert order[-1][0] == "a"


def test_a_deadline_stops_and_the_same_command_goes_on_with_the_lineage_of_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part = "NVIDIA H200 (48 of 132 SMs)"
    harness = stand_in.StandIn(part)
    monkeypatch.setattr(measure, "make_harness", lambda options: harness)
    told: dict[str, Any] = {"corpus": str(DATASET), "where": "problem_id = 'softmax'", "limit": 5}
    told |= {"out": tmp_path / "out"}
    report = measure.remeasure(MeasureOptions(**told, deadline_s=1e-9))
    assert (report["kernels"], report["chosen"], report["gpus"]) == (1, 5, [part])
    assert "the deadline left 4 of 5 kernels" in capsys.readouterr().err
    monkeypatch.setattr(measure, "make_harness", lambda options: stand_in.StandIn("another"))
    with pytest.raises(UserError, match=r"is being filled on NVIDIA H200 \(48 of 132 SMs\)"):
        measure.remeasure(MeasureOptions(**told))
    monkeypatch.setattr(measure, "make_harness", lambda options: harness)
    before = harness.asked
    report = measure.remeasure(MeasureOptions(**told))
    assert (report["kernels"], report["compared"], harness.asked - before) == (5, 0, 4)
    assert report["agreement"] == {}, "figures of another GPU are not compared"
    rows = load(tmp_path / "out").to_arrow().to_pylist()
    old = {row["kernel_id"]: row for row in load(str(DATASET), where="problem_id = 'softmax'").to_arrow().to_pylist()}
    assert len(rows) == 5
    for row in rows:
        for name in ("run_id", "step", "parent_id", "search_method", "proposer", "split", "cluster_id", "license"):
            assert row[name] == old[row["kernel_id"]][name]
        assert (row["gpu"], row["status"], row["runtime_us"]) == (part, "incorrect", None)


def test_kernels_that_ended_their_worker_before_are_named_to_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = stand_in.StandIn("NVIDIA H200")
    monkeypatch.setattr(measure, "make_harness", lambda options: harness)
    where = "problem_id = 'causal_attention' and status in ('launch_error', 'nondeterministic')"
    measure.remeasure(MeasureOptions(corpus=str(DATASET), where=where, limit=40))
    rows = load(str(DATASET), where="problem_id = 'causal_attention'", columns=["kernel_id", "status"]).to_arrow()
    broken = {row["kernel_id"] for row in rows.to_pylist() if row["status"] == "launch_error"}
    assert harness.fragile
    assert harness.fragile <= broken
    assert harness.asked > len(harness.fragile)


def test_kernels_that_did_not_end_before_come_last_and_the_others_keep_their_order() -> None:
    everything = stored(2, 3)
    fates = itertools.cycle(["ok", "launch_error", None, "timeout"])
    for one, status in zip(everything.values(), fates, strict=False):
        one.first["status"] = status
    ordered = endless_last(everything)
    statuses = [one.first["status"] for one in ordered.values()]
    assert statuses == ["ok", "launch_error", None] * 3 + ["timeout"] * 3
    assert sorted(ordered) == sorted(everything)


CARD = "NVIDIA GeForce RTX 4090"


class RecordedHarness(stand_in.StandIn):
    """Gives the figures of the dataset as another GPU's, with a factor for each session; the first kernel fails."""

    def __init__(self, factors: Iterator[float], lost: set[str]) -> None:
        super().__init__(CARD)
        self.factor, self.lost = next(factors), lost

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


def test_a_contribution_goes_on_and_becomes_a_bundle_that_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {list(anchors())[7]}
    factors = iter((2.0, 2.01, 2.0, 2.02))
    monkeypatch.setattr(measure, "make_harness", lambda options: RecordedHarness(factors, lost))
    monkeypatch.setattr(contribute, "time_references", lambda *told: ["relu: not timed"])
    out = tmp_path / "bundle"
    done = contribute.measure_anchors(Gpu(), out, 600, quiet=True)
    assert (done.bundle, done.left, done.kernels) == (None, 1, 199)
    assert any("the driver failed" in note for note in done.notes)
    lost.clear()
    done = contribute.measure_anchors(Gpu(), out, 600, quiet=True)
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
    stated = json.loads(json.dumps(dataclasses.asdict(done)))
    assert sum(stated["statuses"].values()) == done.kernels
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
