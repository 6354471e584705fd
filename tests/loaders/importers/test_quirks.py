"""Files as they are in the wild: each has a quirk of a real one, with invented values, and loses no row unnamed."""

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kbench.loaders.checks.validate import validate
from kbench.loaders.cli import data
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.hub.repository import refuse_closed
from kbench.loaders.importers.inputs import gpu_named
from kbench.loaders.importers.reader import AGAIN, BAD, NEW, Report
from kbench.loaders.importers.traces import WORKLOAD_ALONE
from kbench.schemas import DataError, UserError

from .conftest import Run, foreign


def rows_of(folder: Path, config: str = "kernels") -> list[dict[str, Any]]:
    assert validate(Corpus.open(folder)) == []
    return load(folder, config=config).to_arrow().to_pylist()


def fates(report: Report) -> Counter[str]:
    """What all entries became."""
    return sum(report.sources.values(), Counter())


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("a100.json", "A100"), ("a100_pcie.json", "A100 PCIe"), ("h100_xsm.json", "H100 SXM"),
        ("3090.json", "RTX 3090"), ("rtx_3090.json", "RTX 3090"), ("RTX_2080_Ti.json.gz", "RTX 2080 Ti"),
        ("A100_T4.json.gz", "A100"), ("l40.json", "L40"), ("MI250X.json", "MI250X"),
        ("A6000_extended.json", "RTX A6000"), ("RTX_Titan.json", "Titan RTX"), ("eval_results.json", None),
        ("results_T4.json", None), ("baseline_time_torch.json", None), ("level_1.json", None),
    ],
)  # fmt: skip
def test_a_file_named_after_a_gpu_is_of_that_gpu(name: str, gpu: str | None) -> None:
    assert gpu_named(Path(name)) == gpu


def test_files_of_several_gpus_import_together_and_no_row_is_lost(run_import: Run, tmp_path: Path) -> None:
    """The same texts, measured on five GPUs that only the files' names tell."""
    paths = [foreign.cuda_l1(tmp_path / name) for name in ("a100.json", "h100_xsm.json", "l40.json", "3090.json")]
    paths.append(foreign.cuda_l1(tmp_path / "other.json"))
    folder, report = run_import(None, *paths, gpus={"other.json": "NVIDIA H20"})
    assert fates(report) == {NEW: 15, "entries without code: failed, or slower than every baseline; so the speedups "
                             "are truncated at 1": 5}  # fmt: skip
    assert Counter(row["gpu"] for row in rows_of(folder)) == dict.fromkeys(
        ("A100", "H100 SXM", "L40", "RTX 3090", "NVIDIA H20"), 3
    )


def test_the_command_takes_a_gpu_for_each_file(tmp_path: Path) -> None:
    one, two = foreign.cuda_l1(tmp_path / "x.json"), foreign.cuda_l1(tmp_path / "y.json")
    arguments = ["import", str(one), str(two), "-o", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(data, [*arguments, "--gpu", f"{one}=NVIDIA A100", "--gpu", "y.json=NVIDIA H100"])
    assert result.exit_code == 0, result.output
    assert {row["gpu"] for row in rows_of(tmp_path / "out")} == {"NVIDIA A100", "NVIDIA H100"}
    strange = CliRunner().invoke(data, [*arguments[:-2], str(tmp_path / "no"), "--gpu", "z.json=NVIDIA A100"])
    assert "names no file of this import" in str(strange.exception)


def test_runs_that_sampled_the_same_problems_stay_apart(run_import: Run, tmp_path: Path) -> None:
    """Lists of the best samples of several runs: run_name tells apart what sample_id does not."""
    runs = [{"sample_id": 3, "run_name": name} for name in ("IR_a", "IR_b", "best_of_n")] + [{"sample_id": 3}] * 2
    samples = [foreign.sample(True, True, 1.0 + place, **run) for place, run in enumerate(runs)]
    (tmp_path / "best_k_kernels_level1.json").write_text(json.dumps({"1": samples, "100": samples[:1]}))
    folder, report = run_import(None, tmp_path / "best_k_kernels_level1.json", suite="v0")
    assert fates(report) == {NEW: 6}
    assert len({row["kernel_id"] for row in rows_of(folder)}) == 6
    assert {row["problem_id"] for row in rows_of(folder)} == {"kernelbench_v0_l1_1", "kernelbench_v0_l1_100"}


def test_results_of_three_models_without_source_stay_apart(run_import: Run, tmp_path: Path) -> None:
    paths = []
    for place, model in enumerate(("gpt", "claude", "llama")):
        path = tmp_path / model / "eval_results.json"
        path.parent.mkdir()
        path.write_text(json.dumps({str(n): foreign.sample(True, True, 1.0 + place) for n in range(1, 5)}))
        paths.append(path)
    folder, report = run_import(None, *paths, level=1)
    assert fates(report) == {NEW: 12}
    assert {row["run_id"] for row in rows_of(folder)} == {"gpt", "claude", "llama"}


def test_flat_records_keep_errors_and_hardware_at_their_top(run_import: Run, tmp_path: Path) -> None:
    flat = {"device": "cuda:0", "compiled": True, "correct": False, "hardware": "NVIDIA L40S", "avg_runtime": -1.0}
    flat |= {"timestamp": 1731293588.46, "runtime_stats": {}}
    stats = {"mean": 0.02, "std": 0.002, "min": 0.018, "max": 0.035, "hardware": "NVIDIA L40S", "num_trials": 100}
    results = {
        "95": flat | {"correctness_issue": "Output mismatch", "max_difference": ["17.0"]},
        "25": flat | {"correct": True, "avg_runtime": 0.02, "runtime_stats": stats},
        "27": flat | {"compiled": False, "compilation_error": "Error building extension"},
        "30": flat | {"runtime_error": "\x1b[31millegal\x00 address\x1b[0m"},
        "31": flat | {"cuda_error": "CUDA Error: invalid argument"},
        "33": None,
    }
    path = tmp_path / "baseline_gpt-4o_level_1_L40S.json"
    path.write_text(json.dumps(results))
    folder, report = run_import(None, path)
    rows = rows_of(folder)
    assert {row["gpu"] for row in rows if row["status"]} == {"NVIDIA L40S"}
    assert Counter(row["status"] for row in rows) == {
        "incorrect": 1, "ok": 1, "compile_error": 1, "launch_error": 2, None: 1,
    }  # fmt: skip
    assert "illegal  address" in {row["error"] for row in rows}
    assert all("_l1_" in row["problem_id"] for row in rows)
    assert not any("level=N" in reason for reason in report.nulls)


@pytest.mark.parametrize("nest", ["folder", "keys", "list", "one"])
def test_levels_and_samples_are_found_where_files_keep_them(run_import: Run, tmp_path: Path, nest: str) -> None:
    sample = foreign.sample(True, True, 1.0, sample_id=2)
    path = tmp_path / ("level2" if nest == "folder" else "run") / "eval_results.json"
    content: Any = {"folder": {"100": [sample]}, "keys": {"level2": {"100": [sample]}}}.get(nest)
    if nest == "list":
        content = [sample | {"level": 2, "problem_id": 100}]
    if nest == "one":
        content = sample
        path = tmp_path / "level2" / "gpt-4o" / "problem_100" / "sample_2" / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    if nest == "one":
        (path.parent / "kernel.py").write_bytes(b"\xef\xbb\xbf" + foreign.CUDA.encode())
    folder, _ = run_import("kernelbench-eval", path, suite="v0")
    (row,) = rows_of(folder)
    assert row["problem_id"] == "kernelbench_v0_l2_100"
    assert (row["source"] == foreign.CUDA) == (nest == "one")


SAMPLE = foreign.sample(True, True, 1.0)
KTT = {"Results": [foreign.ktt_result(16, 900.0)], "Metadata": {"TimeUnit": "Microseconds", "Device": "NVIDIA L40"}}
WILD: dict[str, tuple[str, Any, dict[str, Any], dict[str, set[Any]], tuple[str, ...]]] = {
    "numbers that prove no way of counting, of no stated suite and level": (
        "e.json", {"3": {"0": SAMPLE}}, {}, {"problem_id": {"kernelbench_unstated_suite_unstated_level_entry_3"}},
        ("first-id=N", "suite=NAME", "state it with --kernelbench level=N"),
    ),
    "numbers from zero": (
        "e.json", {"0": SAMPLE, "22": SAMPLE}, {"suite": "v0.1", "level": 1},
        {"problem_id": {"kernelbench_v0_1_l1_1", "kernelbench_v0_1_l1_23"}}, (),
    ),
    "levels as text": (
        "e.json", [SAMPLE | {"problem_id": 1, "level": level} for level in (1, "2", "level_3")],
        {"suite": "v0", "first_id": 1}, {"problem_id": {f"kernelbench_v0_l{level}_1" for level in (1, 2, 3)}}, (),
    ),
    "references without a time": (
        "baseline_time_torch.json",
        {"level5": {"1_mla.py": foreign.timing(9.4), "11_mamba2.py": None, "gpt2_bs1.py": foreign.timing(2.0)}},
        {}, {"status": {"ok", None}}, (),
    ),
    "a cache that was never closed": (
        "c.json", foreign.cache_text(closed=False), {}, {"runtime_us": {1500.0, 750.0, None}}, ("never closed",),
    ),
    "a cache of before units and devices were stated": (
        "c.json", foreign.cache_text(schema_version=None, device_name=""), {}, {"runtime_us": {None}, "gpu": {None}},
        ("gpu: ", "license: ", "runtime_us: "),
    ),
    "a packed cache that was never closed, with an entry nobody measured": (
        "RTX_3090.json.gz", foreign.cache_text(closed=False, device_name="").replace('"InvalidConfig"', "null"), {},
        {"gpu": {"RTX 3090"}, "status": {"ok", None, "compile_error", "rejected"}}, (),
    ),
    "metadata after the results": ("k.json", KTT, {}, {"runtime_us": {900.0}, "gpu": {"NVIDIA L40"}}, ()),
}  # fmt: skip
"""Name and content of a file, what the caller states, values of columns, and what is said."""


@pytest.mark.parametrize("case", WILD)
def test_a_file_of_the_wild_is_read_and_what_it_lacks_is_said(run_import: Run, tmp_path: Path, case: str) -> None:
    name, content, settings, columns, said = WILD[case]
    text = (content if isinstance(content, str) else json.dumps(content)).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    folder, report = run_import(None, tmp_path / name, **settings)
    rows = rows_of(folder)
    assert {column: {row[column] for row in rows} for column in columns} == columns
    assert fates(report) == {NEW: len(rows)}
    told = "\n".join((*report.notes, *report.nulls))
    assert [words for words in said if words not in told] == []


def test_modes_of_torch_compile_are_not_one_kernel(run_import: Run, tmp_path: Path) -> None:
    names = ("torch", "torch_compile_inductor_default", "torch_compile_cudagraphs")
    paths = [foreign.kernelbench_timing(tmp_path / f"baseline_time_{name}.json") for name in names]
    folder, report = run_import(None, *paths)
    assert fates(report) == {NEW: 9}
    assert Counter(row["run_id"] for row in rows_of(folder)) == dict.fromkeys(
        ("eager", "inductor_default", "cudagraphs"), 3
    )


def test_problem_size_and_parameter_space_are_part_of_a_tuned_kernel(run_import: Run, tmp_path: Path) -> None:
    heads = [{"problem_size": [4096, 4096]}, {"problem_size": 80000000}, {"problem_size": 80000000}]
    paths = []
    for place, head in enumerate(heads):
        text = foreign.cache_text(**head, schema_version="1.1.0")
        paths.append(tmp_path / f"c{place}.json.gz")
        # The last has a further value in its space.
        paths[-1].write_bytes(gzip.compress(text.replace('"tile": [2]', '"tile": [2, 4]').encode() if place == 2 else
                                            text.encode()))  # fmt: skip
    folder, report = run_import(None, *paths)
    assert fates(report) == {NEW: 15}
    assert len({row["problem_id"] for row in rows_of(folder)}) == 3
    assert any("4096x4096" in row["problem_id"] for row in rows_of(folder))
    assert {row["runtime_us"] for row in rows_of(folder) if row["status"] == "ok"} == {750.0, 1500.0}


@pytest.mark.parametrize(
    ("unit", "us"), [("miliseconds", 1500.0), ("Microseconds", 1.5), ("milliseconds", 1500.0), ("nanoseconds", None)]
)
def test_t4_times_may_have_their_unit_at_the_end(run_import: Run, tmp_path: Path, unit: str, us: float | None) -> None:
    path = tmp_path / "convolution_milo" / "A100_T4.json.gz"
    path.parent.mkdir()
    score = foreign.t4_result(64, 1.0) | {"measurements": [{"name": "score", "value": -0.4, "unit": ""}]}
    results = [foreign.t4_result(32, 1.5, unit=""), score]
    path.write_bytes(gzip.compress(json.dumps({"results": results, "metadata": {"timeunit": unit}}).encode()))
    if us is None:
        with pytest.raises(DataError, match="is no time a kernel takes in ns"):
            run_import(None, path)
        return
    folder, _ = run_import(None, path)
    rows = rows_of(folder)
    assert {(row["gpu"], row["problem_id"]) for row in rows} == {("A100", "t4_convolution_milo")}
    assert {row["runtime_us"] for row in rows} == {us, None}


def test_traces_without_a_timed_reference_and_of_workloads_alone(run_import: Run, tmp_path: Path) -> None:
    timed = foreign.trace("1a")
    untimed = foreign.trace("2b", solution="zero")
    untimed["evaluation"]["performance"] |= {"reference_latency_ms": 0.0, "speedup_factor": "Infinity"}
    untimed["evaluation"]["correctness"] = {"max_relative_error": "Infinity", "max_absolute_error": "NaN"}
    early = [foreign.trace("x", solution="early") for _ in range(2)]
    for place, trace in enumerate(early):
        del trace["workload"]["uuid"]
        trace["workload"]["axes"] = {"M": place}
        trace["evaluation"]["environment"] = {"device": "NVIDIA B200"}
    alone = {"definition": "gemm_n4096", "workload": timed["workload"], "solution": None, "evaluation": None}
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (alone, timed, untimed, *early)))
    folder, report = run_import(None, path)
    assert fates(report) == {WORKLOAD_ALONE: 1, NEW: 3, AGAIN: 1}
    assert sorted(str(row["speedup"]) for row in rows_of(folder)) == ["2.0", "2.0", "None"]
    assert len({row["workload"] for row in rows_of(folder, "measurements")}) == 4


def kernelbot(path: Path) -> Path:
    """An export with a row per run, GPU and times of the cases in structs."""
    system = {"gpu": "NVIDIA H100", "cpu": "x", "torch": "2.7"}
    cases = {"benchmark-count": "2", "benchmark.0.mean": "400000.0", "benchmark.1.mean": "900000.0"}
    base = {"submission_id": 1, "leaderboard_id": 7, "code": foreign.TRITON, "run_passed": True, "run_score": None,
            "run_system_info": system, "run_result": json.dumps({})}  # fmt: skip
    rows = [
        base | {"run_id": 1, "run_mode": "test"},
        base | {"run_id": 2, "run_mode": "benchmark", "run_result": json.dumps(cases)},
        base | {"run_id": 3, "run_mode": "leaderboard", "run_score": 0.0006, "run_result": json.dumps(cases)},
        base | {"run_id": 4, "run_mode": "leaderboard", "run_score": 0.0015, "run_system_info": {"gpu": "NVIDIA A100"}},
        base | {"run_id": 5, "run_mode": "test", "run_passed": False, "code": foreign.CUDA.encode().decode()},
        base | {"run_id": 6, "run_mode": "test", "code": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    pq.write_table(
        pa.table({"id": [7], "name": ["vectoradd_v2"], "deadline": ["x"]}), path.parent / "leaderboards.parquet"
    )
    return path


def test_an_export_with_a_row_per_run_keeps_every_runtime(run_import: Run, tmp_path: Path) -> None:
    folder, report = run_import(None, kernelbot(tmp_path / "submissions.parquet"))
    assert fates(report) == {NEW: 3, AGAIN: 2, "runs without code": 1}
    rows = {row["gpu"]: row for row in rows_of(folder) if row["backend"] == "triton"}
    assert rows["NVIDIA H100"]["runtime_us"] == pytest.approx(600)
    assert rows["NVIDIA A100"]["runtime_us"] == pytest.approx(1500)
    assert {row["problem_id"] for row in rows.values()} == {"gpu_mode_vectoradd_v2"}
    times = [row["runtime_us"] for row in rows_of(folder, "measurements") if row["gpu"] == "NVIDIA H100"]
    assert sorted(filter(None, times)) == pytest.approx([400, 400, 900, 900])


def write_table(path: Path, records: list[dict[str, Any]]) -> Path:
    """A table in the format of its ending."""
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(pa.Table.from_pylist(records), path)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        lines = [json.dumps(record) for record in records]
        path.write_text("\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]")
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
def test_any_table_is_read_with_its_columns_mapped(tmp_path: Path, form: str) -> None:
    records = [
        {"code": foreign.TRITON, "task": "add", "level": 1, "time": 0.5, "card": "NVIDIA H100", "correct": True},
        {"code": foreign.TRITON + "x = 1\n", "task": "add", "level": 1, "time": 0.25, "card": "NVIDIA H100",
         "correct": True},
        {"code": foreign.CUDA + "#", "task": "add", "level": 1, "time": None, "card": "NVIDIA H100", "correct": False},
    ]  # fmt: skip
    path = write_table(tmp_path / f"table.{form}", records)
    if form == "csv":
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    mapping = "source=code,problem=level+task,runtime_us=time*1000,gpu=card,correct=correct,license='MIT'"
    result = CliRunner().invoke(data, ["import", str(path), "-o", str(tmp_path / "out"), "--map", mapping, "--json"])
    assert result.exit_code == 0, result.output
    rows = rows_of(tmp_path / "out")
    assert sorted(str(row["runtime_us"]) for row in rows) == ["250.0", "500.0", "None"]
    assert {(row["problem_id"], row["license"]) for row in rows} == {("imported_1_add", "MIT")}
    (question,) = rows_of(tmp_path / "out", "questions")
    assert question["kind"] == "pair"
    assert question["speedup"] in (2.0, 0.5)
    noted = " ".join(json.loads(result.output)["notes"])
    assert ("byte order mark (BOM)" in noted) == (form == "csv")


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
def test_a_bad_entry_is_counted_from_one_and_named_by_its_column(tmp_path: Path, form: str) -> None:
    records = [{"code": foreign.TRITON + f"x = {ms}\n", "task": "add", "ms": ms} for ms in (1, 2, -1)]
    path = write_table(tmp_path / f"t.{form}", records)
    arguments = ["import", str(path), "-o", str(tmp_path / "out"), "--on-bad-rows", "skip"]
    result = CliRunner().invoke(data, [*arguments, "--map", "source=code,problem=task,runtime_us=ms*1000"])
    assert result.exit_code == 0, result.output
    assert "1 bad row was skipped" in result.stderr
    assert "entry 3: ms is -1: must be a positive number (--map runtime_us=ms*1000)" in result.stderr.replace("'", "")
    assert ": 3 entries\n  2 kernels\n" in result.stdout


def test_the_shapes_of_a_table_are_those_that_its_reference_makes(tmp_path: Path) -> None:
    made = "import torch\nN = 64\ndef get_inputs():\n    return [torch.randn(N, 2 * N)]\n"
    rows = [{"code": foreign.TRITON, "task": name, "ms": 1, "ref": text} for name, text in (("add", made), ("sub", ""))]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    mapping = "source=code,problem=task,runtime_us=ms*1000,reference=ref"
    arguments = ["import", str(tmp_path / "t.json"), "-o", str(tmp_path / "out"), "--map", mapping]
    result = CliRunner().invoke(data, arguments)
    assert result.exit_code == 0, result.output
    problems = {row["problem_id"]: row["workloads"] for row in rows_of(tmp_path / "out", "problems")}
    assert [one["inputs"] for one in problems["imported_add"]] == [["float32[64,128]"]]
    assert problems["imported_sub"] == []
    assert "workloads: the table states no shapes" in result.stdout


@pytest.mark.parametrize(
    ("mapping", "complaint"),
    [
        ("source=code", "--map must name problem"), ("problem", "write field=column"), ("sauce=code", "did you mean"),
        ("problem=a,problem=b", "twice"), ("problem=nope,source=code", "the row has no such column; it has 'code'"),
    ],
)  # fmt: skip
def test_a_mapping_that_does_not_fit_is_one_line(tmp_path: Path, mapping: str, complaint: str) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({"code": foreign.TRITON}))
    arguments = ["import", str(tmp_path / "t.jsonl"), "-o", str(tmp_path / "out"), "--map", mapping]
    result = CliRunner().invoke(data, arguments)
    assert isinstance(result.exception, UserError)
    assert complaint in str(result.exception)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda path: path.symlink_to("/etc/passwd"), "is a link that leads out of the folder of the import"),
        (lambda path: path.write_text(""), "is empty"),
        (lambda path: path.write_text("#" * 1_000_001), "has 1,000,001 bytes"),
        (lambda path: path.write_text("a\0b"), "holds a NUL character"),
        (lambda path: path.write_text("x = 1", encoding="utf-16"), r"byte order mark \(BOM\) of UTF-16"),
        (lambda path: path.mkdir(), "is no regular file"),
        (os.mkfifo, "is no regular file"),
    ],
)
def test_kernel_files_that_may_not_be_read_are_named(
    run_import: Run, tmp_path: Path, make: Callable[[Path], object], complaint: str
) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "e.json"
    path.write_text(json.dumps({"3": foreign.sample(True, True, 1.0), "4": foreign.sample(True, True, 1.0)}))
    make(tmp_path / "in" / "level_1_problem_3_sample_0_kernel.py")
    with pytest.raises(DataError, match=rf"kernel file is 'level_1_problem_3_sample_0_kernel.py': .*{complaint}"):
        run_import(None, path, level=1)
    folder, report = run_import(None, path, level=1, on_bad_rows="skip")
    assert fates(report) == {NEW: 1, BAD: 1}
    assert len(rows_of(folder)) == 1


def test_solutions_are_not_read_through_links_out_of_the_trace_set(run_import: Run, tmp_path: Path) -> None:
    (tmp_path / "set" / "solutions").mkdir(parents=True)
    (tmp_path / "gemm_triton.json").write_text(json.dumps({"sources": [{"content": "secret = 1"}]}))
    (tmp_path / "set" / "solutions" / "gemm_triton.json").symlink_to(tmp_path / "gemm_triton.json")
    with pytest.raises(DataError, match="link that leads out"):
        run_import(None, foreign.flashinfer_trace(tmp_path / "set" / "t.jsonl"))


def test_folders_devices_and_damaged_packing_get_their_own_message(run_import: Run, tmp_path: Path) -> None:
    for path, complaint in (
        (tmp_path, "is a folder; name the files in it"),
        (Path("/dev/null"), "is a device, pipe or socket"),
        (tmp_path / "none", "does not exist"),
    ):
        with pytest.raises(UserError, match=complaint):
            run_import(None, path)
    packed = gzip.compress(foreign.cache_text().encode())
    (tmp_path / "c.json.gz").write_bytes(packed[:-40])
    with pytest.raises(DataError, match="is cut or damaged gzip"):
        run_import("kernel-tuner", tmp_path / "c.json.gz")
    path = foreign.kernel_tuner(tmp_path / "c.json")
    with pytest.raises(UserError, match="is given twice"):
        run_import(None, path, tmp_path / "." / "c.json")
    path.write_text(path.read_text(), encoding="utf-16")
    with pytest.raises(DataError, match=r"byte order mark \(BOM\) of UTF-16"):
        run_import(None, path)


def test_the_card_of_an_import_states_its_own_origin_and_licence(run_import: Run, tmp_path: Path) -> None:
    folder, _ = run_import(None, foreign.cuda_l1(tmp_path / "a100.json"))
    corpus = Corpus.open(folder)
    card, metadata = (folder / "README.md").read_text(), json.loads((folder / "croissant.json").read_text())
    assert card.startswith("---\nlicense: unknown\npretty_name: Imported kernels\n")
    assert "kbench measured none of them and verified none of them" in card
    assert "No licence is known for 3 of 3 kernels" in card
    assert "| cuda-l1 a100.json | not stated | 3 |" in card
    for claim in ("CC-BY-4.0", "kbench authors", "cold L2", "H200", "docs/evidence", "timings by the kbench harness"):
        assert claim not in card + json.dumps(metadata), claim
    assert metadata["license"] == "not stated"
    assert not (folder / "plots").exists()
    with pytest.raises(DataError, match="may not be pushed: their licence is not stated"):
        refuse_closed(corpus)


def test_a_stated_licence_is_the_cards(run_import: Run, tmp_path: Path) -> None:
    folder, _ = run_import(None, foreign.cuda_l1(tmp_path / "a100.json"), license="MIT")
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlicense: mit\n")
    assert "Licences stated for kernels: MIT." in card
    assert json.loads((folder / "croissant.json").read_text())["license"] == "MIT"
    refuse_closed(Corpus.open(folder))


def test_control_characters_never_reach_a_card(run_import: Run, tmp_path: Path) -> None:
    row = foreign.cuda_l1_rows()[0]
    path = tmp_path / "a\x1b[31m.json"
    path.write_text(json.dumps(row))
    with pytest.raises(UserError, match=r"--license is 'M.x1bIT': holds control characters"):
        run_import(None, path, license="M\x1bIT")
    folder, _ = run_import(None, path)
    for name in ("README.md", "croissant.json", "import.json"):
        text = (folder / name).read_text()
        assert not set(text) & set(map(chr, [*range(9), *range(11, 32), 127])), name
        assert "\\u001b" not in text
        assert "\\u0000" not in text
    named = {"code": foreign.TRITON, "score": 0.001, "leaderboard": "trimul", "gpu": "NVIDIA\x1b[2J"}
    pq.write_table(pa.Table.from_pylist([named]), tmp_path / "s.parquet")
    folder.rename(tmp_path / "first")
    with pytest.raises(DataError, match=r"gpu is .*: holds control characters"):
        run_import(None, tmp_path / "s.parquet")
