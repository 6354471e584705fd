"""Tuning a file's own configurations over shapes, on the CPU in Triton's interpreter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbench.benchmark.problems import Size, problem
from kbench.benchmark.problems.registry import USER_FILES
from kbench.harness.commands.tune import Tuned, as_python, at_shapes, autotuned, ends_first, parse_shapes, tune, write
from kbench.harness.harness import Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.schemas import Status, UserError

PLAIN = Path(__file__).parent / "kernels" / "gelu_triton.py"
CONFIGS = "[triton.Config({'block': 64 << i}, num_warps=1 << i) for i in range(3)]"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(USER_FILES, "")
    text = PLAIN.read_text().replace("@triton.jit", f'@triton.autotune(configs={CONFIGS}, key=["n"])\n@triton.jit')
    text = text.replace("[(triton.cdiv(n, 1024),)]", '[lambda meta: (triton.cdiv(n, meta["block"]),)]')
    path = tmp_path / "gelu.py"
    path.write_text(text.replace(", block=1024, num_warps=4", ""))
    return path


def test_every_configuration_is_verified_and_timed_alone_and_the_table_is_written(file: Path, tmp_path: Path) -> None:
    first, *others = problem("gelu_tanh").sizes[0].params
    sizes = parse_shapes(" ".join([f"{first}=8,16", *(f"{name}=16" for name in others)]), problem("gelu_tanh"))
    kernel = read_kernel(file, at_shapes("gelu_tanh", sizes, tmp_path).id)
    with Harness(gpu=None, cache=tmp_path / "cache", builders=1) as harness:
        tuned = tune(kernel, sizes, harness)
    assert [config["block"] for config in tuned.configs] == [64, 128, 256]
    assert [row.status for _, row in tuned.rows] == [Status.OK] * 6
    write(tuned, tmp_path / "out")
    table = json.loads((tmp_path / "out" / "configs.json").read_text())
    assert set(table) == {"8", "16"}
    assert table["8"] == tuned.configs[tuned.best(sizes[0].name) or 0]
    space: dict[str, object] = {}
    exec((tmp_path / "out" / "configs.py").read_text(), space)
    assert callable(space["config_for"])
    assert space["config_for"](9).kwargs == {"block": table["8"]["block"]}
    assert len((tmp_path / "out" / "times.jsonl").read_text().splitlines()) == 6


def test_shapes_are_combined_and_ends_come_first() -> None:
    definition = problem("linear_decode_bf16")
    sizes = parse_shapes("m=1,2,64 n=256,512", definition)
    assert len(sizes) == 6
    assert {size.params["k"] for size in sizes} == {definition.sizes[0].params["k"]}
    first, second, *_ = ends_first(sizes)
    assert (first.params["m"], second.params["m"]) == (1, 64)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [("rows=1", "names 'rows'"), ("m=1,x", "whole numbers"), ("m=0", "at least 1"), ("", "makes 0 shapes")],
)
def test_a_wrong_list_of_shapes_is_refused(shapes: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_shapes(shapes, problem("linear_decode_bf16"))


def test_a_file_without_configurations_is_refused() -> None:
    with pytest.raises(UserError, match="this one has 0"):
        autotuned(PLAIN.read_text())


def test_a_shape_at_which_nothing_works_is_in_no_table() -> None:
    assert Tuned([{"block": 1}], (Size("m1", {"m": 1}),)).best("m1") is None
    assert "(4,): triton.Config({'block': 1}, num_warps=2)" in as_python(
        {(4,): {"block": 1, "num_warps": 2}}, ["m"], ""
    )
