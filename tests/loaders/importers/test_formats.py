"""Other people's formats: what they say is read, what they do not say is null with a reason, traps are survived."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kbench.loaders.checks.validate import validate
from kbench.loaders.cli import data
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.hub.repository import refuse_closed
from kbench.loaders.importers import formats
from kbench.loaders.importers.kernelbench import NO_CODE
from kbench.loaders.importers.reader import Report
from kbench.loaders.importers.run import whole_folder
from kbench.loaders.importers.stated_inputs import workload_of
from kbench.loaders.importers.table import Table
from kbench.schemas import DataError, InfrastructureError, UserError

from .conftest import Run, foreign, rows_of

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB"


@pytest.mark.parametrize("name", [name for name in formats.FORMATS if name != Table.NAME])
def test_every_format_is_told_and_becomes_a_valid_corpus(run_import: Run, tmp_path: Path, name: str) -> None:
    make, file = foreign.MAKERS[name]
    path = make(tmp_path / file)
    assert formats.sniff(path) == name
    folder, report = run_import(None, path)
    assert validate(Corpus.open(folder)) == []
    assert report.rows["kernels"] > 0
    assert report.bad_count == 0
    assert {row["license"] for row in rows_of(folder)} == {None}


def test_kernelbench_results_are_milliseconds_and_marks_are_not_times(run_import: Run, tmp_path: Path) -> None:
    folder, report = run_import(None, foreign.kernelbench_eval(tmp_path / "e.json"), suite="v0", level=1)
    rows = rows_of(folder)
    assert Counter(row["status"] for row in rows) == {"ok": 3, "incorrect": 1, "launch_error": 1, "compile_error": 1}
    assert sorted(row["runtime_us"] for row in rows if row["runtime_us"]) == [500.0, 1250.0]
    assert sum(row["status"] == "ok" and row["runtime_us"] is None for row in rows) == 1
    assert {row["gpu"] for row in rows} == {H100, None}
    assert {row["problem_id"] for row in rows} == {
        "kernelbench_v0_l1_1", "kernelbench_v0_l1_2", "kernelbench_v0_l1_100",
    }, "the number 100 proves that numbering begins at 1"  # fmt: skip
    assert any("was not measured" in reason for reason in report.nulls)


def test_kernelbench_sources_beside_the_results_are_taken(run_import: Run, tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    path.write_text(json.dumps({"3": {"0": foreign.sample(True, True, 1.0)}}))
    (tmp_path / "level_1_problem_3_sample_0_kernel.py").write_text(foreign.CUDA)
    folder, _ = run_import(None, path, level=1, license="MIT")
    assert [(row["backend"], row["source"], row["license"]) for row in rows_of(folder)] == [
        ("cuda", foreign.CUDA, "MIT")
    ]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"runtime": -3, "runtime_stats": {}}, "runtime is -3: must be a positive number"),
        ({"runtime": 1250.0}, "contradicts runtime_stats.mean"),
        ({"runtime": "fast"}, "runtime is 'fast'"),
        ({"compiled": "yes"}, "compiled is 'yes': must be true or false"),
        ({"correct": False}, "correctness and correct differ"),
        ({"runtime": 1e9, "runtime_stats": {}}, "is no time a kernel takes in ms"),
    ],
)
def test_a_contradiction_is_a_bad_row(run_import: Run, tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    path = tmp_path / "e.json"
    path.write_text(json.dumps({"3": {"0": foreign.sample(True, True, 1.0) | change}}))
    with pytest.raises(DataError, match=rf"e\.json, entry \d+ \(3/0\): .*{complaint}"):
        run_import("kernelbench-eval", path)


def test_timing_baselines_trust_the_hardware_field_and_not_the_folder(run_import: Run, tmp_path: Path) -> None:
    (tmp_path / "B200").mkdir()
    folder, report = run_import(None, foreign.kernelbench_timing(tmp_path / "B200" / "t.json"), suite="v0")
    rows = {row["problem_id"]: row for row in rows_of(folder)}
    assert rows["kernelbench_v0_l1_19"]["runtime_us"] == pytest.approx(50)
    assert rows["kernelbench_v0_l1_19"]["gpu"] == H100
    assert rows["kernelbench_v0_l2_3"]["gpu"] is None
    assert any("folder's name is not trusted" in reason for reason in report.nulls)


def test_a_timing_file_that_cannot_be_in_milliseconds_has_no_times(run_import: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"level1": {f"{n}_x.py": foreign.timing(2500.0) for n in range(1, 5)}}))
    folder, report = run_import("kernelbench-timing", path)
    assert {row["runtime_us"] for row in rows_of(folder)} == {None}
    assert any("--unit" in note for note in report.notes)
    stated = tmp_path / "stated"
    result = CliRunner().invoke(data, ["import", str(path), "-o", str(stated), "--unit", "us", "--json"])
    assert result.exit_code == 0, result.output
    assert {row["runtime_us"] for row in rows_of(stated)} == {2500.0}


def test_cuda_l1_leaves_out_what_has_no_code_and_says_so(run_import: Run, tmp_path: Path) -> None:
    folder, report = run_import(None, foreign.cuda_l1(tmp_path / "a100.json"), gpu=A100, first_id=1)
    rows = {row["problem_id"]: row for row in rows_of(folder)}
    assert [row["backend"] for row in rows.values()] == ["cuda", "torch", "triton"]
    assert [row["speedup"] for row in rows.values()] == [2.5, 130.0, None]
    (fates,) = report.sources.values()
    assert fates == {"kernels": 3, NO_CODE: 1}
    assert "truncated at 1" in NO_CODE
    assert any("artefacts" in note for note in report.notes)


def test_a_tuning_cache_becomes_a_pool_of_configurations(run_import: Run, tmp_path: Path) -> None:
    folder, _ = run_import(None, foreign.kernel_tuner(tmp_path / "c.json"))
    rows = rows_of(folder)
    assert Counter(row["status"] for row in rows) == {"ok": 2, "rejected": 2, "compile_error": 1}
    assert {row["backend"] for row in rows} == {"config"}
    assert len({row["cluster_id"] for row in rows}) == 1, "configurations of one space are near-duplicates"
    assert json.loads(next(row["source"] for row in rows if row["runtime_us"] == 750.0)) == {
        "block_size_x": 64, "tile": 2,
    }  # fmt: skip
    assert [700.0, 800.0] in [row["samples_us"] for row in rows_of(folder, "measurements")]


def test_a_cache_that_ends_inside_an_entry_is_refused(run_import: Run, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(foreign.cache_text()[:-30])
    with pytest.raises(DataError, match="ends inside a value"):
        run_import("kernel-tuner", path)


def test_t4_times_have_the_unit_they_state(run_import: Run, tmp_path: Path) -> None:
    folder, _ = run_import(None, foreign.t4(tmp_path / "r.json"))
    rows = rows_of(folder)
    assert sorted(row["runtime_us"] for row in rows if row["status"] == "ok") == [800.0, 1500.0]
    assert Counter(row["status"] for row in rows) == {"ok": 2, "compile_error": 1, "rejected": 1}


def test_traces_of_one_solution_are_one_kernel(run_import: Run, tmp_path: Path) -> None:
    (tmp_path / "solutions").mkdir()
    solution = {"name": "gemm_triton", "sources": [{"path": "main.py", "content": foreign.TRITON}]}
    (tmp_path / "solutions" / "gemm_triton.json").write_text(json.dumps(solution))
    folder, _ = run_import(None, foreign.flashinfer_trace(tmp_path / "t.jsonl"))
    rows = {row["backend"]: row for row in rows_of(folder)}
    assert rows["triton"]["runtime_us"] == pytest.approx(1000 * (0.5 * 0.25) ** 0.5)
    assert rows["triton"]["speedup"] == pytest.approx(8**0.5)
    assert rows["config"]["status"] == "incorrect"
    assert len(rows_of(folder, "measurements")) == 3


def test_gpu_mode_scores_are_seconds(run_import: Run, tmp_path: Path) -> None:
    folder, report = run_import(None, foreign.gpu_mode(tmp_path / "s.parquet"))
    rows = {row["problem_id"]: row for row in rows_of(folder)}
    assert rows["trimul"]["runtime_us"] == pytest.approx(1500)
    assert rows["gpu_mode_vector_add"]["status"] is None
    assert any("changed over time" in reason for reason in report.nulls)


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}')
    with pytest.raises(UserError, match=r"format of .* is unclear: it looks like none that is known; name it with --f"):
        formats.sniff(tmp_path / "x.json")
    pq.write_table(pa.table({"code": ["x"], "score": [1.0], "leaderboard": ["a"], "g_speedup": [1.0]}), tmp_path / "p")
    with pytest.raises(UserError, match="it could be gpu-forecasters or gpu-mode"):
        formats.sniff(tmp_path / "p")


def test_the_command_reports_bad_rows_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    rows = [*foreign.cuda_l1_rows(), {"level_id": "one", "task_id": 1, "custom_code": "x"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["import", str(path), "-o", str(tmp_path / "out"), "--on-bad-rows", "skip"]
    result = CliRunner().invoke(data, arguments)
    assert result.exit_code == 0, result.output
    assert "entry 5: level_id is 'one': must be an integer of at least 1" in result.output
    again = CliRunner().invoke(data, arguments)
    assert isinstance(again.exception, UserError), "a folder that holds something is not overwritten"


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with whole_folder(tmp_path / "out") as folder:
            (folder / "half").write_text("x")
            raise OSError(28, "No space left on device")

    with pytest.raises(InfrastructureError, match="failed: No space left on device; nothing was kept"):
        fill()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stated", "problem", "wrong"),
    [
        ("suite=v0.1, level=1,first-id=0", "kernelbench_v0_1_l1_", None),
        ("suite=v2", None, "--kernelbench holds 'suite=v2'; suite is one of v0, v0.1"),
        ("level=0", None, "level is one of 1, 2"),
        ("levels=1", None, "did you mean 'level'"),
    ],
)
def test_the_command_takes_what_kernelbench_files_do_not_state(
    tmp_path: Path, stated: str, problem: str | None, wrong: str | None
) -> None:
    path = foreign.kernelbench_eval(tmp_path / "e.json")
    result = CliRunner().invoke(data, ["import", str(path), "-o", str(tmp_path / "out"), "--kernelbench", stated])
    if wrong is not None:
        assert wrong in str(result.exception)
        return
    assert result.exit_code == 0, result.output
    assert all(name.startswith(problem) for name in load(tmp_path / "out").to_arrow().column("problem_id").to_pylist())


STATING = [name for name in formats.FORMATS if name not in ("cuda-l1", "openevolve", "table")]
"""Formats whose files name a GPU and a unit; CUDA-L1 and OpenEvolve state neither, and of tables the caller says it."""
OTHER = {"gpu": "NVIDIA Other", "unit": "ns"}


def facts(folder: Path) -> list[tuple[Any, ...]]:
    rows = load(folder).to_arrow().to_pylist()
    return sorted((row["source"], str(row["gpu"]), str(row["runtime_us"])) for row in rows)


@pytest.mark.parametrize("name", STATING)
def test_a_stated_gpu_is_kept_and_contradictions_are_counted(run_import: Run, tmp_path: Path, name: str) -> None:
    make, file = foreign.MAKERS[name]
    path = make(tmp_path / file)
    plain, quiet = run_import(None, path, license="MIT")
    plain = plain.rename(tmp_path / "plain")
    assert {row["license"] for row in rows_of(plain)} == {"MIT"}
    assert not [note for note in quiet.notes if "was not used" in note], "what fills a gap contradicts nothing"
    told, report = run_import(None, path, **OTHER)
    stated = [row for row in facts(plain) if row[1] != "None"]
    assert stated
    assert [row for row in facts(told) if row[1] != OTHER["gpu"]] == stated
    notes = {note.split(" was not used")[0]: count for note, count in report.notes.items() if "was not used" in note}
    assert set(notes) == {"--gpu NVIDIA Other", "--unit ns"}
    assert all(count > 0 for count in notes.values())


def test_a_unit_nobody_knows_is_refused_whatever_the_caller_says(run_import: Run, tmp_path: Path) -> None:
    path = foreign.t4(tmp_path / "r.json")
    path.write_text(path.read_text().replace('"microseconds"', '"fortnights"'))
    with pytest.raises(DataError, match="unit is 'fortnights': must be one of"):
        run_import("t4", path, unit="us")


def test_a_stated_licence_cannot_be_overruled_to_push_a_row(run_import: Run, tmp_path: Path) -> None:
    rows = [
        {"code": foreign.TRITON, "score": 0.001, "leaderboard": "trimul", "license": "Proprietary"},
        {"code": foreign.CUDA, "score": 0.001, "leaderboard": "trimul", "license": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "s.parquet")
    folder, report = run_import("gpu-mode", tmp_path / "s.parquet", license="MIT")
    assert sorted(load(folder).to_arrow().column("license").to_pylist()) == ["MIT", "Proprietary"]
    assert report.notes["--license MIT was not used: 'Proprietary' is stated"] == 1
    with pytest.raises(DataError, match="their licence is 'Proprietary', which is not known to allow it"):
        refuse_closed(Corpus.open(folder))


def test_searches_of_the_published_release_keep_the_gpu_that_its_pairs_name(
    release_files: list[Path], imported: tuple[Path, Report], run_import: Run
) -> None:
    told, report = run_import(None, *release_files, gpu="NVIDIA Other")
    known = {row[0]: row[1] for row in facts(imported[0]) if row[1] != "None"}
    assert known
    assert {source: gpu for source, gpu, _ in facts(told) if source in known} == known
    assert any(note.startswith("--gpu NVIDIA Other was not used") for note in report.notes)


HEAD = "import torch\nbatch, dim = 16, 4 * 8\nshape = (dim, 3)\n\n"


def inputs(body: str, *, head: str = HEAD) -> list[str] | None:
    text = "".join(f"    {line}\n" for line in body.splitlines())
    found = workload_of(f"{head}def get_inputs():\n{text}")
    return None if found is None else list(found["inputs"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return [torch.randn(batch, *shape)]", ["float32[16,32,3]"]),
        ("x = torch.rand(batch, dim, device='cuda').half()\nreturn [x.T, 3.14]", ["float16[32,16]", "float32[]"]),
        ("return [torch.randint(0, 9, (batch,)), torch.zeros((dim,), dtype=torch.bfloat16)]",
         ["int64[16]", "bfloat16[32]"]),
        ("a = torch.randn(batch, 1) * torch.rand(dim)\nreturn a > 0, torch.softmax(a, dim=-1)",
         ["bool[16,32]", "float32[16,32]"]),
    ],
)  # fmt: skip
def test_shapes_and_types_follow_from_the_text(body: str, expected: list[str]) -> None:
    assert inputs(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "return [torch.randn(unknown, 4)]",
        "for n in range(3):\n    pass\nreturn [torch.randn(4)]",
        "return [__import__('os').system('true')]",
        "return [torch.randn(10 ** 9 ** 9)]",
        "return [torch.randn(-1)]",
        "return [torch.arange(), torch.randn(4)]",
        "return [torch.randn(4).transpose(1, 7)]",
        "return []",
        "return " + "(" * 300 + "1" + ")" * 300,
    ],
)
def test_what_is_not_plain_to_see_is_no_workload(body: str) -> None:
    assert inputs(body) is None


def test_branches_on_stated_arguments_are_followed() -> None:
    source = (
        "import torch\n\ndef generate_input(size: int, masked: bool, seed: int):\n"
        "    weights = {}\n    weights['w'] = torch.randn(size, 2 * size)\n"
        "    if masked:\n        mask = torch.ones(size)\n    else:\n        mask = torch.zeros(size, size)\n"
        "    return mask, weights\n"
    )
    found = workload_of(source, "generate_input", "case_0", {"size": 8, "masked": True, "seed": 1})
    assert list(found["inputs"]) == ["float32[8]", "float32[8,16]"]
    assert found["min_bytes"] == 4 * (8 + 128)
