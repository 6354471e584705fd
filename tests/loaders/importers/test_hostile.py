"""Files that nobody should send, and entries that a name or a table easily makes one: what broke an import once."""

import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbench.loaders.corpus.corpus import load
from kbench.loaders.importers import table
from kbench.loaders.importers.fields import slug
from kbench.loaders.importers.reader import AGAIN, BAD, NEW
from kbench.loaders.importers.rows import backend_of, kernel_row
from kbench.loaders.source.strip import strip_comments
from kbench.loaders.source.structure import structure_id
from kbench.schemas import Backend, DataError

from .conftest import Run, foreign, rows_of

HALF = "\ud800"
MAPPING = {"problem": "task", "source": "code", "runtime_us": "us", "reference": "ref"}
ROW = {"task": "t", "code": "x = 1", "us": 2.0, "ref": "y"}


def test_a_key_twice_in_a_cache_is_a_further_measurement(run_import: Run, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    key, entry = foreign.cache_entry(64, 3.0)
    path.write_text(foreign.cache_text().replace('"cache": {', f'"cache": {{"{key}": {json.dumps(entry)},'))
    folder, report = run_import(None, path)
    assert report.sources[str(path)] == {NEW: 5, AGAIN: 1}
    runtimes, each = ([row["runtime_us"] for row in rows_of(folder, config)] for config in ("kernels", "measurements"))
    assert sorted(filter(None, runtimes)) == pytest.approx([1500.0, 1500.0])  # sqrt(0.75 * 3) ms
    assert {750.0, 3000.0} <= set(each)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "1" + "0" * 400])
def test_a_number_that_only_python_writes_is_a_bad_row(number: str, run_import: Run, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    key, entry = foreign.cache_entry(96, 3.0)
    text = json.dumps(entry | {"times": ["number"]}).replace('"number"', number)
    path.write_text(foreign.cache_text().replace('"cache": {', f'"cache": {{"{key}": {text},'))
    _, report = run_import(None, path, on_bad_rows="skip")
    assert report.sources[str(path)] == {BAD: 1, NEW: 5}


@pytest.mark.parametrize(("form", "key"), [("kernel-tuner", "device_name"), ("t4", "results"), ("ktt", "Metadata")])
def test_a_file_that_names_a_part_twice_is_refused(form: str, key: str, run_import: Run, tmp_path: Path) -> None:
    make, name = foreign.MAKERS[form]
    path = make(tmp_path / name)
    path.write_text(path.read_text().replace("{", f'{{"{key}": [], ', 1))
    with pytest.raises(DataError, match=f"holds the key '{key}' twice"):
        run_import(form, path)


def test_a_unit_that_is_a_list_is_refused(run_import: Run, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(foreign.cache_text(time_unit=["ms"]))
    with pytest.raises(DataError, match=r"unit is .*: must be one of"):
        run_import("kernel-tuner", tmp_path / "c.json")


@pytest.mark.parametrize("form", ["kernel-tuner", "t4", "ktt", "kernelbench-eval", "kernelbench-timing"])
def test_names_with_half_a_character_stop_no_import(form: str, run_import: Run, tmp_path: Path) -> None:
    result = foreign.ktt_result(8, 1.0)
    data = {
        "kernel-tuner": {"kernel_name": "k", "problem_size": HALF, "tune_params_keys": [HALF],
                         "cache": {HALF: {HALF: HALF, "time": 1.0}}},
        "t4": {"results": [foreign.t4_result(8, 1.0) | {"configuration": {HALF: 1}}]},
        "ktt": {"Metadata": {}, "Results": [result | {"Configuration": [{"Name": HALF, "Value": 1}]}]},
        "kernelbench-eval": {"1": {HALF: foreign.sample(True, True, 1.0)}},
        "kernelbench-timing": {"level1": {f"1_{HALF}.py": foreign.timing(1.0)}},
    }[form]  # fmt: skip
    (tmp_path / "f.json").write_text(json.dumps(data))
    _, report = run_import(form, tmp_path / "f.json", gpu="A100", unit="ms", on_bad_rows="skip")
    assert report.sources[str(tmp_path / "f.json")][NEW] == 1


@pytest.mark.parametrize("change", [{"ref": 5}, {"ref": HALF}, {"us": "1_000"}])
def test_a_value_not_for_tables_is_a_bad_row(change: dict[str, Any], run_import: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(ROW | change) + "\n" + json.dumps(ROW) + "\n")
    _, report = run_import("table", path, columns=MAPPING, on_bad_rows="skip")
    assert report.sources[str(path)] == {BAD: 1, NEW: 1}


def test_a_date_that_python_has_not_is_refused(run_import: Run, tmp_path: Path) -> None:
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({name: [value] for name, value in ROW.items()} | {"when": far}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"cannot be read .*; leave its column out"):
        run_import("table", tmp_path / "t.parquet", columns=MAPPING)


def test_a_line_as_long_as_a_file_is_refused(run_import: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "LARGEST_VALUE", 1000)
    (tmp_path / "t.csv").write_text("task,code,us,ref\n" + "x" * 1001)
    with pytest.raises(DataError, match="a line of more than 1,000 characters"):
        run_import("table", tmp_path / "t.csv", columns=MAPPING)


@pytest.mark.parametrize(
    "source",
    ["x = 12", "x = 0x12 + 1.5 + 12 + 1_2", "a12 = '12 // 3'", "k = r'__global__ void k() { x[12] = 3.f; }'", "1 2",
     "if x:\n  y[34] = f'{z:12}'", "__global__ void k() { int a = 1'234; }", "x = '\\12 __global__ /* 7 */'",
     "12if x else 3"],
)  # fmt: skip
def test_structures_are_those_of_the_text_whatever_its_numbers(source: str) -> None:
    row = kernel_row("p", "f", Backend.TORCH, source, gpu=None, origin="o", license=None, split="test")
    assert row["structure_id"] == structure_id(source)


def test_many_lines_comments_and_bare_texts_take_no_square_of_their_number() -> None:
    assert backend_of("x = 1" + "\n" * 300_000) is Backend.TORCH
    assert strip_comments("# a\n''\n" * 20_000 + "x = 1\n") == "x = 1\n"


COLUMNS = {"source": "code", "problem": "task", "runtime_us": "us"}


def problems_of(folder: Path) -> set[str]:
    return set(load(folder).to_arrow().column("problem_id").to_pylist())


@pytest.mark.parametrize("names", [("矩阵乘", "卷积"), ("a+b", "a*b", "a-b"), ("-1", "1"), ("gemm<f>", "gemm[f]")])
def test_names_that_lower_snake_case_would_make_one_stay_apart(names: tuple[str, ...]) -> None:
    assert len({slug(f"p_{name}", "problem") for name in names}) == len(names)
    assert slug("Conv2d (3x3), v1.0", "problem") == "conv2d_3x3_v1_0", "nothing is lost, and nothing added"


def test_joined_columns_do_not_run_into_each_other(run_import: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("code,level,task,us\nx,1_1,2,5\nx,1,1_2,6\n")
    folder, report = run_import(None, tmp_path / "t.csv", columns=COLUMNS | {"problem": "level+task"})
    assert report.rows["kernels"] == len(problems_of(folder)) == 2


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("code,task,us\nx,,5\n", "task is '': must be there"),
        ('{"code": "x", "task": null, "us": 5}', "task is None: must be there"),
        ('{"code": "x", "task": "a", "us": true}', "us is True: must be a number"),
        ("code,task,us\nf(a,b),t,5\n", "must have 3 values"),
        ("code,task,us\nx,t\n", "must have 3 values"),
        ("code,task,us,us\nx,t,5,6\n", "names a column twice"),
    ],
)
def test_a_row_of_doubtful_columns_is_refused(run_import: Run, tmp_path: Path, table: str, complaint: str) -> None:
    (tmp_path / "t.csv").write_text(table)
    with pytest.raises(DataError, match=complaint):
        run_import(None, tmp_path / "t.csv", columns=COLUMNS)


def test_a_solution_is_looked_up_in_the_folder_of_its_definition(run_import: Run, tmp_path: Path) -> None:
    traces = []
    for definition in ("attention", "4bit_gemm"):
        text = f"import triton\n{definition[1:]} = 1\n"
        path = tmp_path / "solutions" / definition / "fast.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"definition": definition, "sources": [{"content": text}]}))
        traces.append(foreign.trace("1a", solution="fast") | {"definition": definition})
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, traces)))
    folder, _ = run_import(None, tmp_path / "t.jsonl")
    found = {row["problem_id"]: row["source"] for row in load(folder).to_arrow().to_pylist()}
    assert "ttention" in found["flashinfer_attention"]
    assert "bit_gemm" in found["flashinfer_4bit_gemm"]
    (tmp_path / "t.jsonl").write_text(json.dumps(traces[0] | {"definition": "softmax"}))
    folder.rename(tmp_path / "first")
    with pytest.raises(DataError, match="its file is of definition '4bit_gemm'"):
        run_import(None, tmp_path / "t.jsonl")


def test_leaderboards_without_a_name_are_numbered_and_scores_may_be_decimal(run_import: Run, tmp_path: Path) -> None:
    rows = [{"code": "x = 1", "leaderboard_id": n, "score": decimal.Decimal("0.0015")} for n in (1, 2)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "s.parquet")
    pq.write_table(pa.table({"id": [1, 2], "name": ["", " "]}), tmp_path / "leaderboards.parquet")
    folder, report = run_import(None, tmp_path / "s.parquet", gpu="NVIDIA H100")
    assert problems_of(folder) == {"gpu_mode_leaderboard_1", "gpu_mode_leaderboard_2"}
    assert report.sources[str(tmp_path / "s.parquet")] == {NEW: 2}
    assert load(folder).to_arrow().column("runtime_us").to_pylist() == pytest.approx([1500, 1500])


def test_a_configuration_or_table_that_names_something_twice_is_refused(run_import: Run, tmp_path: Path) -> None:
    result = foreign.ktt_result(64, 1.0)
    result["Configuration"].append(result["Configuration"][0] | {"Value": 7})
    (tmp_path / "k.json").write_text(json.dumps({"Metadata": {}, "Results": [result]}))
    with pytest.raises(DataError, match="names a parameter twice"):
        run_import("ktt", tmp_path / "k.json")
    twice = pa.table([["a"], ["b"], [1], [1.0]], names=["code", "code", "leaderboard_id", "score"])
    pq.write_table(twice, tmp_path / "s.parquet")
    with pytest.raises(DataError, match="names a column twice"):
        run_import("gpu-mode", tmp_path / "s.parquet")
