"""Entries that differ in something a name or a table easily loses stay apart, and what is unclear is a bad row."""

import decimal
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbench.loaders.corpus.corpus import load
from kbench.loaders.importers.auto_tuners import kernel_named
from kbench.loaders.importers.fields import slug
from kbench.loaders.importers.reader import NEW, Report
from kbench.schemas import DataError

Run = Callable[..., tuple[Path, Report]]
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
def test_a_row_whose_values_may_be_another_columns_is_refused(
    run_import: Run, tmp_path: Path, table: str, complaint: str
) -> None:
    (tmp_path / "t.csv").write_text(table)
    with pytest.raises(DataError, match=complaint):
        run_import(None, tmp_path / "t.csv", columns=COLUMNS)


def test_a_solution_is_looked_up_in_the_folder_of_its_definition(foreign: Any, run_import: Run, tmp_path: Path) -> None:
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


def test_levels_written_as_text_are_levels(foreign: Any, run_import: Run, tmp_path: Path) -> None:
    levels = (1, "2", "level_3")
    (tmp_path / "e.json").write_text(
        json.dumps([foreign.sample(True, True, 1.0, problem_id=1, level=level) for level in levels])
    )
    folder, _ = run_import("kernelbench-eval", tmp_path / "e.json", first_id=1, suite="v0")
    assert problems_of(folder) == {f"kernelbench_v0_l{level}_1" for level in (1, 2, 3)}


def test_leaderboards_without_a_name_are_numbered_and_scores_may_be_decimal(run_import: Run, tmp_path: Path) -> None:
    rows = [{"code": "x = 1", "leaderboard_id": n, "score": decimal.Decimal("0.0015")} for n in (1, 2)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "s.parquet")
    pq.write_table(pa.table({"id": [1, 2], "name": ["", " "]}), tmp_path / "leaderboards.parquet")
    folder, report = run_import(None, tmp_path / "s.parquet", gpu="NVIDIA H100")
    assert problems_of(folder) == {"gpu_mode_leaderboard_1", "gpu_mode_leaderboard_2"}
    assert report.sources[str(tmp_path / "s.parquet")] == {NEW: 2}
    assert load(folder).to_arrow().column("runtime_us").to_pylist() == pytest.approx([1500, 1500])


def test_a_configuration_or_table_that_names_something_twice_is_refused(
    foreign: Any, run_import: Run, tmp_path: Path
) -> None:
    result = foreign.ktt_result(64, 1.0)
    result["Configuration"].append(result["Configuration"][0] | {"Value": 7})
    (tmp_path / "k.json").write_text(json.dumps({"Metadata": {}, "Results": [result]}))
    with pytest.raises(DataError, match="names a parameter twice"):
        run_import("ktt", tmp_path / "k.json")
    twice = pa.table([["a"], ["b"], [1], [1.0]], names=["code", "code", "leaderboard_id", "score"])
    pq.write_table(twice, tmp_path / "s.parquet")
    with pytest.raises(DataError, match="names a column twice"):
        run_import("gpu-mode", tmp_path / "s.parquet")


def test_results_in_files_of_one_name_are_of_the_kernels_their_folders_name() -> None:
    assert [kernel_named(Path(f"/tuned/{kernel}/results.json.gz")) for kernel in ("gemm", "conv")] == ["gemm", "conv"]
