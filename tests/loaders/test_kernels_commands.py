"""`kbench kernels`: the fastest kernel of a problem, why it is, and how it came to be."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kbench.cli import cli
from kbench.harness.device.floor import MARGIN
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.summary.best import FLOOR_MARGIN, find_kernel
from kbench.schemas import Kernel, UserError, from_dict
from kbench.schemas.ids import content_hash

from .conftest import make_environment, make_kernel, make_measurement, make_problem, make_reference


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["kernels", *map(str, arguments)])


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A line of three kernels, each faster than its parent, beside a slow one and one that failed."""
    path: Path = tmp_path_factory.mktemp("family") / "corpus"
    interval = {"runtime_low_us": 9.0, "runtime_high_us": 11.0, "speedup_low": 0.5, "speedup_high": 9.0}
    same = {**interval, "gpu": "NVIDIA H200"}
    seed = make_kernel(16, status="ok", error=None, runtime_us=10.0, speedup=1.0, **same)
    parent = make_kernel(24, status="ok", error=None, runtime_us=8.0, speedup=2.0, parent_id=seed.kernel_id, **same)
    champion = make_kernel(
        32, status="ok", error=None, runtime_us=4.0, speedup=4.0, parent_id=parent.kernel_id, edit="vectorise",
        speedup_best=2.5, **same,
    )  # fmt: skip
    slow = make_kernel(48, status="ok", error=None, runtime_us=50.0, speedup=0.5, **same)
    figures = ("runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high")
    failed = make_kernel(40, status="incorrect", error="wrong", gpu="NVIDIA H200", **dict.fromkeys(figures))
    rows = [seed, parent, champion, slow, failed]
    with CorpusWriter(path) as writer:
        writer.append("kernels", rows)
        writer.append("measurements", [make_measurement(row) for row in rows])
        small = content_hash("measurement", "small")
        writer.append("measurements", [make_measurement(champion, workload="small", measurement_id=small)])
        reference = make_reference("softmax")
        launch_bound = dataclasses.replace(reference, workload="small", reference_us=5.0, compiled_us=3.125)
        writer.append("references", [reference, launch_bound])
        problem = make_problem("softmax")
        (large,) = (dataclasses.replace(one, min_bytes=3_000) for one in problem.workloads)
        sizes = (large, dataclasses.replace(large, name="small", min_bytes=10))
        writer.append("problems", [dataclasses.replace(problem, workloads=sizes)])
        writer.append("environments", [dataclasses.replace(make_environment(), copy_bandwidth_gbs=1.0)])
    return path


def test_best_lists_the_fastest_first_with_its_share_of_the_roofline(family: Path) -> None:
    rows = json.loads(run("best", "softmax", "--dataset", family, "--json").output)["kernels"]
    assert [row["speedup"] for row in rows] == [4.0, 2.0, 1.0, 0.5]
    # 3 of 4 us; the floor of 1 us is not it, and a launch-bound workload does not count.
    assert rows[0]["roofline_share"] == pytest.approx(3.0 / 4.0)
    assert rows[1]["roofline_share"] == pytest.approx(3.0 / 8.0)
    shown = run("best", "softmax", "--dataset", family, "--backend", "triton", "--limit", 2).output.splitlines()
    assert [(row["launch_bound_workloads"], row["workloads"]) for row in rows[:2]] == [(1, 2), (0, 1)]
    titles = "runtime_us speedup_best speedup roofline launch-bound registers spills method backend gpu id"
    assert " ".join(shown[0].split()) == titles
    assert shown[1].split()[:5] == ["4", "(9-11)", "2.5", "4.000", "(0.500-9.000)"]
    assert "75%" in shown[1]
    assert shown[1].endswith(rows[0]["kernel_id"][:12])
    assert "75%       1 of 2" in shown[1]
    assert shown[-3].startswith("launch-bound: workloads on which the best reference takes less than 10 µs")
    assert shown[-2:] == ["torch.compile on NVIDIA H200: 1.600x over eager PyTorch", "2 of 4 kernels"]


def test_best_says_what_the_fastest_changed_against_its_parent_where_no_ancestor_is_slower(family: Path) -> None:
    shown = run("best", "softmax", "--dataset", family, "--limit", 1, "--diff").output
    assert "(8 us, 2.000x)" in shown
    assert "(4 us, 4.000x)" in shown
    assert '-"""softmax number 24."""' in shown.splitlines()
    assert '+"""softmax number 32."""' in shown.splitlines()
    assert "against the parent: no ancestor is decidedly slower, the difference is within noise" in shown


def test_the_diff_is_against_the_nearest_ancestor_that_is_decidedly_slower(tmp_path: Path) -> None:
    def kernel(size: int, speedup: float, parent_id: str | None) -> Kernel:
        time = 10 / speedup
        figures = {"speedup": speedup, "runtime_us": time, "runtime_low_us": 0.9 * time, "runtime_high_us": 1.1 * time}
        return make_kernel(
            size, status="ok", error=None, speedup_low=0.1, speedup_high=99.0, gpu="NVIDIA H200", parent_id=parent_id,
            **figures,
        )  # fmt: skip

    slow = kernel(16, 1.0, None)
    near = kernel(24, 2.0, slow.kernel_id)
    best = kernel(32, 2.1, near.kernel_id)
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("kernels", [slow, near, best])
    told = json.loads(run("best", "softmax", "--dataset", tmp_path / "corpus", "--diff", "--json").stdout)
    assert told["diff_note"] == "against the nearest ancestor that is decidedly slower, 2 generations back"
    assert told["diff"].startswith(f"--- {slow.kernel_id[:12]} (10 us, 1.000x)")
    (view,) = find_kernel(Corpus.open(tmp_path / "corpus"), near.kernel_id)
    assert view.diff()[0] == f"--- {slow.kernel_id[:12]} (10 us, 1.000x)"
    assert view.diff_note() is None, "the parent is decidedly slower, and no more needs saying"


def test_a_problem_may_be_named_as_an_option_but_not_as_two(family: Path) -> None:
    whole = run("best", "softmax", "--dataset", family, "--json").stdout
    assert run("best", "--problem", "softmax", "--dataset", family, "--json").stdout == whole
    assert "name one" in str(run("best", "softmax", "--problem", "gelu", "--dataset", family).exception)


def test_a_factor_over_a_library_says_what_the_library_computes(family: Path) -> None:
    shown = run("best", "--beats", "torch.compile", "--dataset", family)
    assert "4.000 (0.500-9.000)" in shown.stdout
    assert "TF32 off; a kernel may use less precision" in shown.stderr


def test_without_timed_references_there_is_no_best_one_to_beat(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("kernels", [make_kernel(16, status="ok", error=None, speedup=2.0, gpu="NVIDIA H200")])
    asked = ("best", "softmax", "--dataset", tmp_path / "corpus")
    assert "no references of these kernels were timed" in str(run(*asked, "--beats", "best").exception)
    assert "speedups are over eager PyTorch alone" in run(*asked).output


def test_best_lists_what_beats_the_best_reference_and_one_kernel_of_each_problem(family: Path) -> None:
    def found(*options: str) -> list[dict[str, Any]]:
        return json.loads(run("best", *options, "--dataset", family, "--json").stdout)["kernels"]

    assert [row["speedup_best"] for row in found("--beats", "best")] == [2.5]
    assert [row["speedup"] for row in found("--each")] == [4.0]
    assert found("--family", "norm", "--each") == found("--each")
    assert "unknown family 'nrom'; did you mean 'norm'" in str(
        run("best", "--family", "nrom", "--dataset", family).exception
    )
    assert "did you mean 'torch.compile'" in str(
        run("best", "--beats", "torch.compiled", "--dataset", family).exception
    )


def test_show_writes_the_source_to_a_file_ready_to_measure(family: Path, tmp_path: Path) -> None:
    (row,) = load(family, where="speedup == 4").to_arrow().to_pylist()
    shown = run("show", row["kernel_id"][:8], "--dataset", family, "-o", tmp_path / "k.py").output
    assert f"kbench measure {tmp_path / 'k.py'} --problem softmax" in shown
    assert (tmp_path / "k.py").read_text() == row["source"]


def test_show_takes_the_beginning_of_an_id_and_tells_times_ancestors_and_source(family: Path) -> None:
    champion = json.loads(run("best", "softmax", "--dataset", family, "--json").output)["kernels"][0]["kernel_id"]
    shown = run("show", champion[:8], "--dataset", family).output
    assert shown.splitlines()[0] == champion
    speeds = [line.split("(")[1].split(")")[0] for line in shown.splitlines() if "00x) " in line]
    assert speeds == ["10 us, 1.000x", "8 us, 2.000x", "4 us, 4.000x"]
    assert "9.000-11.000" in shown
    assert "12.5 us torch.compile" in shown
    assert shown.rstrip().endswith("return torch.empty_like(x) + 1 + 1")
    (view,) = json.loads(run("show", champion[:8], "--dataset", family, "--json").output)
    assert len(view["lineage"]) == 3
    roofs = {one["workload"]: (one["roofline_us"], one["floor_us"]) for one in view["workloads"]}
    assert roofs == {"large": (pytest.approx(3.0), 1.0), "small": (pytest.approx(1.0 / FLOOR_MARGIN), 1.0)}
    assert FLOOR_MARGIN == MARGIN
    assert "3 us, 75%" in shown


def test_of_several_gpus_the_one_with_the_most_kernels_is_shown_unless_asked_otherwise(
    family: Path, tmp_path: Path
) -> None:
    part = "NVIDIA H200 (32 of 132 SMs)"
    rows = [from_dict(Kernel, row) for row in load(family).to_arrow().to_pylist()]
    moved = [dataclasses.replace(row, gpu=part, speedup=9.0) for row in rows if row.speedup == 4.0]
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("kernels", [*moved, *rows])

    def best(*gpu: str) -> list[tuple[str, float]]:
        found = json.loads(run("best", "softmax", *gpu, "--dataset", tmp_path / "corpus", "--json").stdout)
        return [(row["gpu"], row["speedup"]) for row in found["kernels"]]

    whole = [("NVIDIA H200", speedup) for speedup in (4.0, 2.0, 1.0, 0.5)]
    assert best() == best("--gpu", "H200") == whole
    assert best("--gpu", "all") == [(part, 9.0), *whole]
    assert best("--gpu", "32 of 132 SMs") == [(part, 9.0)]
    assert "kernels on NVIDIA H200;" in run("best", "softmax", "--dataset", tmp_path / "corpus").stderr
    shown = run("show", moved[0].kernel_id, "--diff", "--dataset", tmp_path / "corpus").output
    assert shown.index("NVIDIA H200\n") < shown.index(part)
    assert "(8 us, 2.000x)" in shown[shown.index("---") :]


def test_of_one_problem_the_shortest_time_comes_first_and_of_all_the_largest_speedup(tmp_path: Path) -> None:
    same = {"status": "ok", "error": None, "gpu": "NVIDIA H200", "runtime_low_us": None, "runtime_high_us": None}
    # The reference beside the slower kernel was slow.
    slower = make_kernel(16, runtime_us=139.4, speedup=3.226, **same)
    faster = make_kernel(24, runtime_us=133.9, speedup=3.206, **same)
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("kernels", [slower, faster])
    orders = [
        [
            row["runtime_us"]
            for row in json.loads(run("best", *problem, "--dataset", tmp_path / "corpus", "--json").stdout)["kernels"]
        ]
        for problem in (["softmax"], [])
    ]
    assert orders == [[133.9, 139.4], [139.4, 133.9]]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("show", ""), "give more digits"),
        (("best", "softmax", "--backend", "cuda", "--gpu", "H200"), "with backend cuda"),
    ],
)
def test_what_is_not_there_is_one_line(family: Path, asked: tuple[str, ...], message: str) -> None:
    error = run(*asked, "--dataset", family).exception
    assert isinstance(error, UserError)
    assert message in str(error)
