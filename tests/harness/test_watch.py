"""Watching a file: versions as an editor saves them, what is shown of each, and how it ends."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbench.harness.commands import watch as watching
from kbench.harness.commands.doctor import gpu_count
from kbench.harness.commands.measure import MeasureOptions
from kbench.harness.commands.watch import History, versions, watch
from kbench.harness.harness import Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.schemas import Measurement, Status

KERNEL = Path(__file__).parent / "kernels" / "gelu_triton.py"


def test_each_save_is_a_version_however_the_editor_saves(tmp_path: Path) -> None:
    path, told = tmp_path / "kernel.py", list[str]()
    path.write_bytes(KERNEL.read_bytes())

    def replace() -> None:
        (tmp_path / "new").write_text("def run(x): return x")
        os.replace(tmp_path / "new", path)

    changes = iter([lambda: os.utime(path, ns=(1, 1)), path.unlink, replace, lambda: path.write_bytes(b"\xff"),
                    lambda: path.write_text(""), lambda: path.write_text("def run(x): return 2 * x")])  # fmt: skip
    source = versions(path, lambda: read_kernel(path, "gelu_tanh"), told.append, lambda: next(changes)())
    found = [next(source).source for _ in range(4)]
    assert found[0] == found[1] == KERNEL.read_text(), "touched"
    assert found[2:] == ["def run(x): return x", "def run(x): return 2 * x"]
    (said,) = told
    assert "cannot read kernel file" in said


def measured(speedup: float, workload: str = "large", status: Status = Status.OK) -> Any:
    figures = {"runtime_us": 10.0 / speedup, "speedup": speedup}
    return SimpleNamespace(gpu="some gpu", workload=workload, status=status, **figures)


def test_a_version_is_compared_with_the_last_and_with_the_best() -> None:
    history = History(best_us={("some gpu", "large"): 2.5})
    assert history.change(measured(2.0)) == "  0.500x best of the dataset"
    assert history.change(measured(2.2)) == "  1.100x last version  0.550x best of the dataset"
    assert history.change(measured(1.0, "other")) == "", "another workload has no last version"
    assert history.change(measured(1.0, status=Status.INCORRECT)) == ""
    assert history.change(measured(1.1)) == "  0.500x last version  0.275x best of the dataset"


@pytest.mark.skipif(gpu_count() > 0, reason="measures on the CPU")
def test_watching_survives_a_broken_version_and_ends_at_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
        elif len(rows) == 3:
            path.write_text("# the last")
        else:
            raise KeyboardInterrupt
        return ""

    told: list[str] = []
    watch(path, lambda: read_kernel(path, "gelu_tanh"), "gelu_tanh", MeasureOptions(quiet=True), show, told.append)
    assert [status for status, _ in rows[:3]] == [Status.OK, Status.COMPILE_ERROR, Status.OK]
    assert "tiny  " in capsys.readouterr().out, "the paired verdict"
    assert "x last version" in rows[2][1]
    assert not told
    assert not made[0]._queues, "all workers have ended"
