from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.benchmark.problems import measure_references as module
from kbench.benchmark.problems import problem
from kbench.benchmark.problems.reference_table import BEGIN, END, insert_table, render_table
from kbench.schemas import UserError

ROW = {
    "problem_id": "softmax", "family": "norm", "workload": "large", "compute_unit": "fp32", "median_us": 71.25,
    "gbps": 3767.0, "tflops": 2.35, "share_of_bandwidth": 0.84, "share_of_peak": 0.05, "within_ceilings": True,
}  # fmt: skip
RECORD = {
    "environment": {"gpu": "a GPU", "torch": "2.x"},
    "bandwidth_gbps": {"copy": 4200.0, "read": 4500.0},
    "peak_tflops": {"fp32": 50.0, "fp8": None},
    "references": [ROW, {**ROW, "workload": "kb_v0", "error": "RuntimeError: a | b"}],
}


def test_the_table_has_a_row_a_workload_and_names_failures() -> None:
    table = render_table(RECORD)
    assert "| softmax | norm | large | 71.2 | 3767 | 84% | 2.35 | fp32 | 5% |" in table
    assert "failed: RuntimeError: a / b" in table
    assert "copy 4,200, read 4,500 GB/s" in table


def test_the_table_replaces_what_stands_between_the_marks_and_nothing_else() -> None:
    page = insert_table(f"before\n{BEGIN}\nold\n{END}\nafter\n", "new\n")
    assert page == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(UserError, match="no marks"):
        insert_table("a page", "new\n")


def test_rendering_from_the_command_line_updates_a_page(tmp_path: Path) -> None:
    record, page = tmp_path / "r.json", tmp_path / "page.md"
    record.write_text(json.dumps(RECORD))
    page.write_text(f"{BEGIN}\n{END}\n")
    result = CliRunner().invoke(module.main, ["--render", str(record), "--docs", str(page)])
    assert result.exit_code == 0
    assert "| softmax |" in page.read_text()


def fail(*inputs: Any) -> Any:
    raise RuntimeError("out of luck\nand more")


class StillClock(module.Clock):
    """Times nothing and needs no GPU."""

    def __init__(self, us: float) -> None:
        self.us = us

    def time_us(self, function: Callable[[], Any], repeats: int = 3) -> list[float]:
        return [self.us] * repeats


def test_a_broken_reference_becomes_a_row_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = dataclasses.replace(problem("softmax"), inputs=fail)
    row = module._row(StillClock(1.0), broken, broken.sizes[0], {"copy": 1.0}, {})
    assert row["error"] == "RuntimeError: out of luck"


def test_a_reference_faster_than_the_ceiling_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = problem("softmax")
    work = chosen.workload(chosen.sizes[0])
    found = {"gbps": 900.0, "tflops": 1.0, "median_us": 1.0, "flops": work.flops, "min_bytes": work.min_bytes}
    monkeypatch.setattr(module, "measure_size", lambda *_: found)
    ceiling: dict[str, float | None] = {"fp32": 2.0}
    assert module._row(StillClock(1.0), chosen, chosen.sizes[0], {"copy": 1000.0}, ceiling)["within_ceilings"] is True
    assert module._row(StillClock(1.0), chosen, chosen.sizes[0], {"copy": 800.0}, ceiling)["within_ceilings"] is False


@pytest.mark.gpu
def test_references_run_on_the_gpu(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    result = CliRunner().invoke(module.main, ["--out", str(out), "--problem", "softmax"])
    assert result.exit_code == 0
    assert all(row["within_ceilings"] for row in json.loads(out.read_text())["references"])
