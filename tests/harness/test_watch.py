"""Watching a file: versions as an editor saves them, what is shown of each, and how it ends."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.harness.cli import measure
from kbench.harness.commands import watch as watching
from kbench.harness.commands.doctor import gpu_count
from kbench.harness.commands.measure import MeasureOptions
from kbench.harness.commands.watch import History, Versions, watch
from kbench.harness.harness import Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.schemas import Measurement, Status, UserError

KERNEL = Path(__file__).parent / "kernels" / "gelu_triton.py"


def test_each_save_is_a_version_however_the_editor_saves(tmp_path: Path) -> None:
    path, told = tmp_path / "kernel.py", list[str]()
    path.write_bytes(KERNEL.read_bytes())
    versions = Versions(path, lambda: read_kernel(path, "gelu_tanh"), told.append)
    source = iter(versions)
    assert next(source) is not None
    versions.busy = False
    assert next(source) is None, "nothing was saved since"
    os.utime(path, ns=(1, 1))
    assert next(source) is not None, "touched"
    versions.busy = False
    path.unlink()
    assert next(source) is None
    (tmp_path / "new").write_text("def run(x): return x")
    os.replace(tmp_path / "new", path)
    versions.busy = True
    assert next(source) is None, "the version before it is being measured"
    versions.busy = False
    found = next(source)
    assert found is not None
    assert found.source == "def run(x): return x"
    versions.busy = False
    path.write_bytes(b"\xff\xfe")
    assert next(source) is None
    assert "cannot read kernel file" in told[0]


def measured(speedup: float, *, half: float = 0.001, workload: str = "large", status: Status = Status.OK) -> Any:
    interval = {"speedup_low": speedup * (1 - half), "speedup_high": speedup * (1 + half)}
    figures = {"runtime_us": 10.0 / speedup, "speedup": speedup, **interval}
    return SimpleNamespace(gpu="some gpu", workload=workload, status=status, **figures)


@pytest.mark.parametrize(
    ("speedup", "half", "said"),
    [(2.2, 0.001, "1.100x last version, FASTER"), (1.8, 0.001, "0.900x last version, SLOWER"),
     (2.0, 0.001, "1.000x last version, SAME"), (2.02, 0.02, "1.010x last version, UNDECIDED")],
)  # fmt: skip
def test_a_version_is_compared_with_the_last_and_with_the_best(speedup: float, half: float, said: str) -> None:
    history = History(best_us={("some gpu", "large"): 2.5})
    assert history.change(measured(2.0)) == "  0.500x best of the dataset"
    found = history.change(measured(speedup, half=half))
    assert said in found
    assert f"{2.5 * speedup / 10.0:.3f}x best of the dataset" in found
    assert "last" not in history.change(measured(1.0, workload="other")), "another workload has no last version"
    assert history.change(measured(1.0, status=Status.INCORRECT)) == ""
    assert history.last["large"].speedup == speedup


@pytest.mark.skipif(gpu_count() > 0, reason="measures on the CPU")
def test_watching_survives_a_broken_version_and_ends_at_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, right = tmp_path / "kernel.py", KERNEL.read_text()
    path.write_text(right)
    made = [Harness(gpu=None, cache=tmp_path / "cache", workloads=("tiny",), builders=1)]
    monkeypatch.setattr(watching, "make_harness", lambda options: made[0])
    rows: list[tuple[Status, str]] = []

    def show(row: Measurement, change: str) -> str:
        rows.append((row.status, change))
        if len(rows) == 1:
            path.write_text("def run(x:\n")
        elif len(rows) == 2:
            (tmp_path / "saved").write_text(f"# again\n{right}")
            os.replace(tmp_path / "saved", path)
        else:
            raise KeyboardInterrupt
        return ""

    told: list[str] = []
    watch(path, lambda: read_kernel(path, "gelu_tanh"), "gelu_tanh", MeasureOptions(quiet=True), show, told.append)
    assert [status for status, _ in rows] == [Status.OK, Status.COMPILE_ERROR, Status.OK]
    assert "x last version" in rows[2][1]
    assert not told
    assert not made[0]._queues, "all workers have ended"


@pytest.mark.parametrize("others", [["--json"], ["--check-only"], ["--out", "x"], [str(KERNEL)]])
def test_watching_takes_one_file_and_shows_it(others: list[str]) -> None:
    arguments: list[Any] = [str(KERNEL), "--problem", "gelu_tanh", "--watch", *others]
    with pytest.raises(UserError, match="--watch takes one FILE"):
        CliRunner().invoke(measure, arguments, catch_exceptions=False)
