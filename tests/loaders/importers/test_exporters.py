"""What is exported to another format imports again with the same figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.benchmark.training.cli import export as export_command
from kbench.loaders.corpus.corpus import load
from kbench.loaders.exporters import T4_INVALIDITY, TRACE_STATUSES, export
from kbench.loaders.importers.formats import sniff
from kbench.loaders.importers.reader import Report
from kbench.schemas import Status, UserError

Run = Callable[..., tuple[Path, Report]]


def figures(folder: Path, config: str = "kernels") -> list[tuple[Any, ...]]:
    rows = load(folder, config=config).to_arrow().to_pylist()
    return sorted((row["gpu"], row["status"], round(row["runtime_us"] or 0, 6)) for row in rows)


def test_t4_survives_the_round_trip(foreign: Any, run_import: Run, tmp_path: Path) -> None:
    first, _ = run_import(None, foreign.t4(tmp_path / "r.json"))
    back = tmp_path / "back.json"
    result = CliRunner().invoke(export_command, [str(first), "-o", str(back), "--format", "t4"])
    assert result.exit_code == 0, result.output
    assert sniff(back) == "t4"
    first = first.rename(tmp_path / "first")
    second, _ = run_import(None, back)
    assert figures(first) == figures(second)
    assert sorted(load(first).to_arrow().column("source").to_pylist()) == sorted(
        load(second).to_arrow().column("source").to_pylist()
    )


def test_traces_survive_the_round_trip(foreign: Any, run_import: Run, tmp_path: Path) -> None:
    first, _ = run_import(None, foreign.flashinfer_trace(tmp_path / "t.jsonl"))
    back = tmp_path / "back.jsonl"
    assert export(load(first, config="measurements"), back, "flashinfer-trace") == 3
    assert sniff(back) == "flashinfer-trace"
    first = first.rename(tmp_path / "first")
    second, _ = run_import(None, back)
    assert figures(first, "measurements") == figures(second, "measurements")
    assert figures(first) == figures(second)


def test_every_status_has_a_word_in_both_formats() -> None:
    assert set(T4_INVALIDITY) == set(TRACE_STATUSES) == set(Status) - {Status.INFRASTRUCTURE_ERROR}
    assert [status for status, word in T4_INVALIDITY.items() if word == "correct"] == [Status.OK]


def test_rows_that_do_not_fit_a_format_are_refused(imported: tuple[Path, Report], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="takes one problem on one GPU"):
        export(load(imported[0], where="status is not None"), tmp_path / "x.json", "t4")
    with pytest.raises(UserError, match="takes whole rows of --config measurements"):
        export(load(imported[0]), tmp_path / "x.jsonl", "flashinfer-trace")
    assert list(tmp_path.iterdir()) == []
