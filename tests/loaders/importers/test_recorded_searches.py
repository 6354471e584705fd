"""Searches that other people recorded: whole, in order, with their failures; and how they are fetched."""

import dataclasses
import http.server
import io
import json
import shutil
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbench.loaders.cli import data
from kbench.loaders.hub import pull
from kbench.loaders.importers.reader import AGAIN, NEW
from kbench.loaders.importers.traces import NO_TEXT
from kbench.schemas import DataError, InfrastructureError, UserError

from .conftest import Run, foreign, rows_of


def test_a_trajectory_keeps_order_failures_and_the_shapes_of_its_workloads(run_import: Run, tmp_path: Path) -> None:
    folder, report = run_import(None, foreign.sol_execbench(tmp_path / "artifacts"))
    kernels = sorted(rows_of(folder), key=lambda row: row["step"])
    assert [(row["step"], row["backend"], row["status"]) for row in kernels] == [
        (0, "triton", "ok"), (1, "cuda", "rejected"), (3, "torch", "launch_error"),
    ]  # fmt: skip
    assert kernels[0]["runtime_us"] == pytest.approx(1000.0)
    assert kernels[0]["speedup"] == pytest.approx(1.0)
    assert {row["gpu"] for row in kernels} == {"AMD Instinct MI350X"}
    assert next(iter(report.sources.values())) == {NEW: 3, AGAIN: 1, NO_TEXT: 1}
    assert sorted(row["runtime_us"] for row in rows_of(folder, "measurements") if row["runtime_us"]) == [
        500.0, 500.0, 500.0, 2000.0, 2000.0,
    ]  # fmt: skip
    (problem,) = rows_of(folder, "problems")
    (workload,) = problem["workloads"]
    assert workload["inputs"] == ["bfloat16[64,256]", "float32[]"]
    assert workload["min_bytes"] == 2 * 64 * 256 * 2 + 4


def test_an_evolution_keeps_parents_and_counts_each_text_once(run_import: Run, tmp_path: Path) -> None:
    folder, report = run_import(None, foreign.openevolve(tmp_path / "traces"), gpu="B200")
    by_backend = {row["backend"]: row for row in rows_of(folder)}
    assert {name: row["status"] for name, row in by_backend.items()} == {
        "triton": "ok", "cuda": "incorrect", "torch": "ok",
    }  # fmt: skip
    assert by_backend["cuda"]["parent_id"] == by_backend["torch"]["parent_id"] == by_backend["triton"]["kernel_id"]
    assert by_backend["triton"]["runtime_us"] == pytest.approx(1500.0)
    assert by_backend["torch"]["step"] == 7
    assert next(iter(report.sources.values())) == {NEW: 3}


def programs(folder: Path, *metrics: dict[str, Any] | None) -> Path:
    """A checkpoint of OpenEvolve: programs with the metrics of their evaluator, and no evaluations beside them."""
    place = folder / "openevolve_output" / "checkpoints" / "checkpoint_4" / "programs"
    place.mkdir(parents=True)
    for number, found in enumerate(metrics):
        code = f"import triton\n\ndef run(x):\n    return x + {'x * ' * number}x\n"
        program = {"id": str(number), "code": code, "parent_id": None, "iteration_found": number, "metrics": found}
        (place / f"{number}.json").write_text(json.dumps(program))
    return folder / "openevolve_output"


def test_the_metrics_of_a_checkpoint_are_its_verdicts_speedups_and_times(run_import: Run, tmp_path: Path) -> None:
    checkpoint = programs(
        tmp_path, {"combined_score": 1.0, "speedup": 2.0}, {"combined_score": -5.0, "speedup": 0.0},
        {"combined_score": -5.0, "speedup": 0.0, "compiled": 1.0, "correct": 0.0},
        {"combined_score": -5.0, "speedup": 0.0, "compiled": 0.0, "correct": 0.0},
        {"runtime_us": 12.5, "correct": True, "readability": 3}, {"combined_score": 1.0}, None,
    )  # fmt: skip
    folder, report = run_import(None, checkpoint, gpu="NVIDIA H200", problem="softmax")
    rows = sorted(rows_of(folder), key=lambda row: row["step"])
    assert [(row["status"], row["speedup"], row["runtime_us"]) for row in rows] == [
        ("ok", 2.0, None), (None, None, None), ("incorrect", None, None), ("compile_error", None, None),
        ("ok", None, 12.5), (None, None, None), (None, None, None),
    ]  # fmt: skip
    assert {row["problem_id"] for row in rows} == {"softmax"}
    assert len(rows_of(folder, "measurements")) == 4
    assert report.notes["metrics found and not read: combined_score"] == 5
    assert report.notes["metrics found and not read: readability"] == 1
    assert sum(count for text, count in report.nulls.items() if "a time or speedup of 0" in text) == 1


def test_a_problem_is_named_only_where_the_format_may_lack_it(run_import: Run, tmp_path: Path) -> None:
    make, name = foreign.MAKERS["t4"]
    with pytest.raises(UserError, match="--problem changes nothing for format t4; it is for openevolve"):
        run_import(None, make(tmp_path / name), problem="softmax")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        (json.dumps({"per_workload": [{"workload_uuid": "1", "status": "MAYBE"}]}), "must be one of"),
        (json.dumps({"per_workload": [{"workload_uuid": "1", "status": "PASSED", "latency_ms": -1}]}), "positive"),
        (json.dumps({"per_workload": "none"}), "must be a list"),
    ],
)
def test_a_damaged_evaluation_is_refused_in_one_line(run_import: Run, tmp_path: Path, text: str, message: str) -> None:
    folder = foreign.sol_execbench(tmp_path / "artifacts")
    next(folder.rglob("eval-11.json")).write_text(text)
    with pytest.raises(DataError, match=message):
        run_import(None, folder)
    _, report = run_import(None, folder, on_bad_rows="skip")
    assert report.bad_count == 1
    assert report.rows["kernels"] == 3


def test_files_and_folders_are_not_taken_for_each_other(run_import: Run, tmp_path: Path) -> None:
    folder = foreign.sol_execbench(tmp_path / "artifacts")
    with pytest.raises(UserError, match="is read by folder"):
        run_import("sol-execbench", next(folder.rglob("eval-11.json")))
    with pytest.raises(UserError, match="is a folder; name the files"):
        run_import("t4", folder)


@pytest.fixture
def known_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of a set whose recipe is known."""
    checkout = foreign.openevolve(tmp_path / "checkout" / "traces").parent
    recipe = pull.ForeignSet(
        name="toy", about="a toy", places=(pull.Place(repository="owner/toy", commit="c0ffee", folders=("traces",)),),
        digest=pull.folder_digest(checkout), format="openevolve", license="MIT", gpu="B200",
    )  # fmt: skip
    monkeypatch.setattr(pull, "foreign_sets", lambda: {"toy": recipe})
    monkeypatch.setenv("KBENCH_HOME", str(tmp_path / "home"))
    return checkout


def test_a_set_is_fetched_twice_to_the_same_rows(known_set: Path) -> None:
    once = pull.fetch_set("toy", checkouts=[known_set])
    before = rows_of(once.folder)
    assert rows_of(pull.fetch_set("toy", checkouts=[known_set]).folder) == before
    assert len(before) == 3
    assert {row["license"] for row in before} == {"MIT"}


def test_a_changed_set_and_a_dead_network_are_one_line(known_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "ARCHIVE", "http://127.0.0.1:9/{repository}/{commit}")
    for arguments, message in (
        (["nope"], "unknown corpus or set 'nope'"),
        (["toy"], "does not answer"),
        (["toy", "--checkout", str(known_set / "traces")], "has no folder traces"),
    ):
        result = CliRunner().invoke(data, ["fetch", *arguments])
        assert result.exit_code != 0, arguments
        assert message in str(result.exception), arguments
    next(known_set.rglob("llm_code_a.py")).write_text("other")
    with pytest.raises(DataError, match="is not owner/toy at c0ffee"):
        pull.fetch_set("toy", checkouts=[known_set])


def test_order_and_time_of_evaluations_are_kept_where_no_question_shows_them(run_import: Run, tmp_path: Path) -> None:
    artifacts = foreign.sol_execbench(tmp_path / "artifacts")
    path = next(artifacts.rglob("eval-11.json"))
    record = json.loads(path.read_text())
    record["_provenance"]["utc"] = "2026-08-04T18:52:54+00:00"
    path.write_text(json.dumps(record))
    folder, _ = run_import(None, artifacts)
    events = sorted(rows_of(folder, "events"), key=lambda row: row["index"])
    assert [row["step"] for row in events] == [0, 1, 2, 3]
    assert events[0]["at"] == "2026-08-04T18:52:54+00:00"
    same = [json.loads(row["payload_json"])["kernel_id"] for row in events]
    assert same[0] == same[2] != same[1]


def test_a_definition_is_found_by_its_own_name_and_computes_axes(run_import: Run, tmp_path: Path) -> None:
    artifacts = foreign.sol_execbench(tmp_path / "artifacts")
    path = next(artifacts.rglob("definition.json"))
    definition = json.loads(path.read_text())
    definition["name"] = "001_softmax"
    definition["axes"] |= {
        "half": {"type": "expr", "expression": "(cols + 2 * 8) // 2 - 1"},
        "wrong": {"type": "expr", "expression": "cols ** cols"},
    }
    definition["inputs"]["z"] = {"shape": ["half"], "dtype": "int32"}
    definition["inputs"]["lost"] = {"shape": ["wrong"], "dtype": "int32"}
    elsewhere = artifacts / "problems" / "7" / "definition.json"
    elsewhere.parent.mkdir(parents=True)
    path.unlink()
    elsewhere.write_text(json.dumps(definition))
    (problem,) = rows_of(run_import(None, artifacts)[0], "problems")
    assert problem["workloads"][0]["inputs"] == ["bfloat16[64,256]", "float32[]", "int32[71]"]
    assert "bfloat16[64,256]" in problem["prompt"]
    shutil.rmtree(tmp_path / "out")
    elsewhere.write_text("{")
    with pytest.raises(DataError, match="is no JSON"):
        run_import(None, artifacts)


def archived(checkout: Path, top: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(checkout, arcname=top)
    return buffer.getvalue()


def test_a_set_of_two_repositories_is_fetched(known_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = tmp_path / "more" / "problems" / "7"
    more.mkdir(parents=True)
    (more / "moe_fp8.json").write_text(json.dumps({"reference": "def run(x):\n    return x\n"}))
    archives = {
        "/owner/toy/c0ffee": archived(known_set, "toy-c0ffee"),
        "/owner/more/feed": archived(tmp_path / "more", "m"),
    }

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = archives.get(self.path)
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(pull, "ARCHIVE", f"http://127.0.0.1:{server.server_port}/{{repository}}/{{commit}}")
    toy = pull.foreign_sets()["toy"]
    places = (*toy.places, pull.Place(repository="owner/more", commit="feed", folders=("problems/*/*.json",)))
    whole = tmp_path / "whole"
    shutil.copytree(known_set, whole)
    shutil.copytree(tmp_path / "more", whole, dirs_exist_ok=True)
    two = dataclasses.replace(toy, places=places, digest=pull.folder_digest(whole))
    try:
        monkeypatch.setattr(pull, "foreign_sets", lambda: {"toy": two})
        fetched = pull.fetch_set("toy")
        gone = dataclasses.replace(two, places=(dataclasses.replace(places[0], commit="gone"),))
        monkeypatch.setattr(pull, "foreign_sets", lambda: {"toy": gone})
        with pytest.raises(InfrastructureError, match="answers 404"):
            pull.fetch_set("toy")
    finally:
        server.shutdown()
        server.server_close()
    (problem,) = rows_of(fetched.folder, "problems")
    assert "def run(x)" in problem["reference_source"]
    assert len(rows_of(fetched.folder)) == 3
