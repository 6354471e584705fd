from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.problems import problem
from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.schemas import UserError

SCRIPT = Path(__file__).parents[3] / "docs" / "evidence" / "scripts" / "references.py"


table = import_file(SCRIPT.with_name("reference_table.py"))
BEGIN, END, insert_table = table.BEGIN, table.END, table.insert_table
rates, render_table, shares = table.rates, table.render_table, table.shares

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


def test_rates_are_counted_work_over_time() -> None:
    chosen = problem("softmax")
    work = chosen.workload(chosen.sizes[0])
    found = rates(work, 10.0)
    assert found["gbps"] == pytest.approx(work.min_bytes / 10e-6 / 1e9)
    assert found["tflops"] == pytest.approx(work.flops / 10e-6 / 1e12)


def test_a_reference_faster_than_the_ceiling_is_marked() -> None:
    row = {"compute_unit": "fp32", "gbps": 900.0, "tflops": 1.0}
    ceiling: dict[str, float | None] = {"fp32": 2.0}
    assert shares(row, {"copy": 1000.0}, ceiling)["within_ceilings"] is True
    assert shares(row, {"copy": 800.0}, ceiling)["within_ceilings"] is False
    assert shares(row, {"copy": 1000.0}, {"fp32": 0.5})["within_ceilings"] is False
    assert shares(row, {"copy": 1000.0}, {"fp32": None})["share_of_peak"] is None


def script(*arguments: object) -> dict[str, Any]:
    done = subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout)) if done.stdout else {}


def test_the_script_times_references_as_the_harness_does_and_renders_what_it_recorded(tmp_path: Path) -> None:
    record, page = tmp_path / "r.json", tmp_path / "page.md"
    told = script("--cpu", "--problem", "softmax", "--out", record)
    assert told == {"measured": 1, "failed": [], "over_ceiling": told["over_ceiling"], "waiting": []}
    (row,) = json.loads(record.read_text())["references"]
    assert row["workload"] == "tiny"
    assert row["median_us"] > 0.0
    page.write_text(f"{BEGIN}\n{END}\n")
    script("--render", record, "--docs", page)
    assert "| softmax |" in page.read_text()


@pytest.mark.gpu
def test_a_reference_stays_within_the_ceilings_on_the_gpu(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    assert script("--problem", "softmax", "--out", out)["over_ceiling"] == []
    assert all(row["within_ceilings"] for row in json.loads(out.read_text())["references"])
