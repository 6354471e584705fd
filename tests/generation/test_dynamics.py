"""Search dynamics: figures of a log made by hand, the shipped dataset, and the command that prints them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.cli import cli
from kbench.generation.log import LogEntry, LogWriter
from kbench.generation.search.settings import RunSettings
from kbench.generation.study.attempts import MODEL, SEVERAL, attempts_in, edit_kind
from kbench.generation.study.dynamics import dynamics
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Backend, UserError

SETTINGS = RunSettings(problem_id="softmax", backend=Backend.TRITON, method="hill_climb")
STEPS: list[list[tuple[str, str | None, str, float | None, str | None]]] = [
    [("a", None, "one", 1.0, None), ("b", None, "two", None, None)],
    [("c", "a", "one", 2.0, "warps: 4 -> 8"), ("d", "a", "one", 0.5, "warps: 4 -> 2")],
    [("e", "c", "three", None, "warps: 8 -> 16"), ("f", "c", "one", 2.05, "stages: 2 -> 3")],
]
"""Kernel, parent, niche, speedup and edit of every candidate, step by step."""


def written_log(folder: Path) -> Path:
    facts: list[tuple[str, int, dict[str, Any]]] = [("run_started", 0, {"settings": SETTINGS.to_json()})]
    for step, candidates in enumerate(STEPS):
        operators = ["mutate" if parent else "fresh" for _, parent, *_ in candidates]
        requests = [{"operator": one, "parent_id": None, "other_id": None} for one in operators]
        facts.append(("step_started", step, {"requests": requests}))
        for slot, (kernel, parent, niche, speedup, edit) in enumerate(candidates):
            told = {"kernel_id": kernel, "parent_id": parent, "other_id": None, "niche": niche, "edit": edit}
            facts.append(("candidate_proposed", step, told | {"slot": slot, "proposer": "genome", "recipe": None}))
            outcome = {"status": "ok" if speedup else "incorrect", "error": None, "runtime_us": None, "workloads": []}
            facts.append(("kernel_reused", step, {"kernel_id": kernel, "outcome": outcome | {"speedup": speedup}}))
        facts.append(("step_completed", step, {}))
    folder.mkdir(exist_ok=True)
    with LogWriter(folder) as log:
        entries = [
            LogEntry(SETTINGS.run_id, index, kind, step, "2026-01-01T00:00:00.000Z", payload)
            for index, (kind, step, payload) in enumerate(facts)
        ]
        log.append(entries)
    return folder


def test_figures_of_a_search_are_what_its_log_says(tmp_path: Path) -> None:
    found = dynamics(attempts_in([written_log(tmp_path / "run")]))
    assert (found.searches, found.attempts) == (1, 6)
    assert [step.gain_octaves for step in found.steps] == pytest.approx([None, 1.0, math.log2(2.05 / 2.0)])
    assert [step.improved for step in found.steps] == [None, 1.0, 1.0]
    assert [step.distinct for step in found.steps] == pytest.approx([1.0, 2 / 4, 3 / 6])
    fresh, mutate = found.operators
    assert (fresh.name, fresh.attempts, fresh.correct, fresh.beat_parent) == ("fresh (genome)", 2, 0.5, None)
    # c and f beat their parents; d is slower and e failed.
    assert (mutate.attempts, mutate.correct, mutate.beat_parent, mutate.beat_best) == (4, 0.75, 0.5, 0.5)
    assert mutate.gain_octaves == pytest.approx(math.log2(2.05 / 2.0))
    assert mutate.beat_parent_low is not None
    assert mutate.beat_parent_high is not None
    assert 0 < mutate.beat_parent_low < 0.5 < mutate.beat_parent_high < 1
    (method,) = found.methods
    # The third kernel measured, 2.0, is within 5 % of the final 2.05.
    assert (method.method, method.measurements, method.near_after, method.near_share) == ("hill_climb", 6, 3, 0.5)


def test_edits_are_listed_by_family_once_tried_often_enough(tmp_path: Path) -> None:
    runs = attempts_in([written_log(tmp_path / "run")])
    often = {f"{name}-{copy}": run for name, run in runs.items() for copy in range(4)}
    edits = dynamics(often).edits
    assert [(one.family, one.name, one.attempts) for one in edits] == [("norm", "warps", 12)]
    assert edits[0].beat_parent == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("proposer", "edit", "kind"),
    [
        ("genome", None, None),
        ("genome", "warps: 4 -> 8", "warps"),
        ("genome", "taps: unrolled -> looped", "taps"),
        ("genome", "warps: 4 -> 8, stages: 2 -> 3", SEVERAL),
        ("rewrite", "lines 4 and 9 swapped", "lines swapped"),
        ("rewrite", "line 7: #pragma unroll 4", "#pragma unroll"),
        ("rewrite", "line 7: launch bounds (THREADS, 2)", "launch bounds"),
        ("rewrite", 'tl.load at line 12: cache_modifier ".cg"', 'tl.load: cache_modifier ".cg"'),
        ("rewrite", "loop at line 3: num_stages 4", "loop: num_stages"),
        ("rewrite", "max_registers: -> 64", "max_registers"),
        ("llm", "keeps the row in registers", MODEL),
    ],
)
def test_an_edit_is_named_by_what_it_changes(proposer: str, edit: str | None, kind: str | None) -> None:
    assert edit_kind(proposer, edit) == kind


def test_attempts_of_the_shipped_dataset_have_its_speedups() -> None:
    shipped = Corpus.open()
    found = attempts_in([shipped.folders[0]])
    table = shipped.table("kernels", columns=["speedup"], status="ok", gpu="NVIDIA H200")
    speedups = {one.speedup for run in found.values() for one in run if one.speedup is not None}
    held = set(table.column("speedup").to_pylist())
    # One kernel is another search's, reused with the figure it had then.
    assert (held - speedups, len(speedups - held)) == (set(), 1)


def test_the_command_prints_tables_or_json_and_writes_plots(tmp_path: Path) -> None:
    run, out = written_log(tmp_path / "run"), tmp_path / "out"
    shown = CliRunner().invoke(cli, ["generate", "report", str(run), "--out", str(out)])
    assert shown.exit_code == 0, shown.exception
    assert "1 searches, 6 measured kernels" in shown.output
    assert (out / "report.md").read_text() == shown.output
    as_json = json.loads(CliRunner().invoke(cli, ["generate", "report", str(run), "--json"]).output)
    assert as_json == json.loads((out / "report.json").read_text())
    assert as_json["attempts"] == 6
    assert {path.name for path in out.iterdir()} == {"report.md", "report.json", "steps.png", "edits.png"}


def test_a_folder_without_searches_is_one_clear_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["generate", "report", str(tmp_path)])
    assert isinstance(result.exception, UserError)
