"""Tuning a file's own configurations over shapes, on the CPU in Triton's interpreter."""

import json
import math
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from honest_kernels import TRITON, gelu

from kbench.benchmark.problems import Size, problem
from kbench.benchmark.problems.registry import USER_FILES
from kbench.benchmark.tuning.choose import Known, choose, worth_measuring
from kbench.harness.commands.tune import Tuned, as_python, at_shapes, autotuned, ends_first, parse_shapes, tune, write
from kbench.harness.harness import Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.prune import Hook, Table, prune
from kbench.schemas import Status, UserError

CONFIGS = "[triton.Config({'block': 64 << i}, num_warps=1 << i) for i in range(3)]"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(USER_FILES, "")
    text = TRITON.read_text().replace("@triton.jit", f'@triton.autotune(configs={CONFIGS}, key=["n"])\n@triton.jit')
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
        autotuned(TRITON.read_text())


def test_a_shape_at_which_nothing_works_is_in_no_table() -> None:
    assert Tuned([{"block": 1}], (Size("m1", {"m": 1}),)).best("m1") is None
    assert "(4,): triton.Config({'block': 1}, num_warps=2)" in as_python(
        {(4,): {"block": 1, "num_warps": 2}}, ["m"], ""
    )


def test_a_harness_measures_on_the_workloads_it_is_told(tmp_path: Path) -> None:
    with Harness(gpu=None, cache=tmp_path, builders=1) as harness:
        rows = list(harness.measure([gelu()], workloads=("tiny",)))
    assert [(row.workload, row.status) for row in rows] == [("tiny", Status.OK)]


PROGRAM = """
import json, math, sys, warnings
import torch, triton, triton.language as tl
said = []
warnings.simplefilter("always")
warnings.showwarning = lambda message, *rest: said.append(str(message))
{guarded}
measured = []
CONFIGS = [triton.Config({{"BLOCK": 16 << i}}, num_warps=1 << j) for i in range(6) for j in range(4)]

@triton.autotune(configs=CONFIGS, key=["n"], do_bench=lambda call, quantiles: timed())
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def timed():
    block, warps = current[-1].kwargs["BLOCK"], current[-1].num_warps
    measured.append((block, warps))
    octaves = math.log2(block) - math.log2(size) / 2
    return (1.0 + 0.3 * octaves**2 + 0.1 * warps,) * 3

current, whole = [], type(double)._bench
def _bench(self, *args, config, **meta):
    current.append(config)
    return whole(self, *args, config=config, **meta)
type(double)._bench = _bench
{hook}
counts = []
for size in {sizes}:
    measured.clear()
    x = torch.ones(size)
    double[lambda meta: (triton.cdiv(size, meta["BLOCK"]),)](x, size)
    assert bool((x == 2).all()), "it ran once, with the best"
    counts.append((len(measured), double.best_config.kwargs["BLOCK"]))
print(json.dumps([counts, [one for one in said if "kbench" in one]]))
"""
GUARDED = """
try:
    from kbench import prune
except ImportError:
    warnings.warn("kbench is not installed: all configurations are measured")
    prune = lambda kernel, k: kernel
"""
SIZES = [256, 65536, 4096, 1024, 16384]


def tuned(folder: Path, *, sizes: list[int] = SIZES, before: str = "") -> tuple[list[list[int]], list[str]]:
    """(configurations measured, block of the best) per size, and what was warned of."""
    program = PROGRAM.format(guarded=before + GUARDED, hook="double = prune(double, k=3)", sizes=sizes)
    file = folder / "program.py"
    file.write_text(program)
    variables = {**os.environ, "TRITON_INTERPRET": "1", "KBENCH_CACHE": str(folder / "cache")}
    answer = subprocess.run([sys.executable, str(file)], env=variables, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-2000:]
    counts, said = json.loads(answer.stdout.splitlines()[-1])
    return counts, said


def test_shapes_between_known_ones_get_few_configurations_in_this_process_and_the_next(tmp_path: Path) -> None:
    counts, said = tuned(tmp_path)
    assert [count for count, _ in counts] == [24, 24, 3, 3, 3]
    assert [block for _, block in counts] == [16, 256, 64, 32, 128]
    assert said == []
    again, _ = tuned(tmp_path, sizes=[2048, 1 << 22])
    assert [count for count, _ in again] == [3, 24], "a shape far outside is measured in full"


def damage(table: Path) -> None:
    table.write_bytes(table.read_bytes().replace(b'"times"', b'"tides"'))


def replace_by_folder(table: Path) -> None:
    table.unlink()
    table.mkdir()


@pytest.mark.parametrize("harm", [damage, replace_by_folder])
def test_with_a_broken_table_the_kernel_tunes_as_before_with_one_warning(tmp_path: Path, harm: object) -> None:
    tuned(tmp_path, sizes=SIZES[:2])
    (table,) = (tmp_path / "cache" / "tuning").iterdir()
    assert callable(harm)
    harm(table)
    counts, said = tuned(tmp_path, sizes=[4096, 1 << 20])
    assert counts == [[24, 64], [24, 512]]
    assert len(said) == 1


def test_without_kbench_the_documented_snippet_tunes_as_before_with_one_warning(tmp_path: Path) -> None:
    counts, said = tuned(tmp_path, sizes=SIZES[:3], before='sys.modules["kbench"] = None')
    assert [count for count, _ in counts] == [24, 24, 24]
    assert len(said) == 1


def append_many(path: Path, writer: int) -> None:
    for number in range(40):
        Table(path).append({"n": writer * 1000 + number}, "kind", {str(at): 1.0 + at for at in range(50)})


def test_writers_at_once_lose_nothing_and_a_torn_line_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    writers = [multiprocessing.Process(target=append_many, args=(path, writer)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(Table(path).read("kind")[0]) == 160
    with path.open("ab") as stream:
        stream.write(b'{"kind":"kind","numbers":{"n":1')
    Table(path).append({"n": 9999}, "kind", {"a": float("inf"), "b": 2.0})
    shapes, damaged = Table(path).read("kind")
    assert (len(shapes), damaged) == (161, 1)
    assert shapes[-1].times == {"a": float("inf"), "b": 2.0}


def test_a_mistake_in_the_call_is_named(tmp_path: Path) -> None:
    assert isinstance(prune(k=2, table=tmp_path), Hook)
    with pytest.raises(ValueError, match="k is 0"):
        prune(k=0)
    with pytest.raises(TypeError, match="is not autotuned"):
        prune(print)


def test_a_choice_among_as_many_configurations_as_vllm_tunes_takes_milliseconds(tmp_path: Path) -> None:
    table, configs = Table(tmp_path / "table.jsonl"), [f'{{"BLOCK_SIZE_M": {number}}}' for number in range(1920)]
    for m in (1, 4096, *range(2, 18)):
        table.append({"M": m, "N": 4096}, "kind", {config: 1.0 + at % 97 for at, config in enumerate(configs)})
    began = time.process_time()
    places = choose(table.read("kind")[0], {"M": 64, "N": 4096}, configs, 4)
    assert time.process_time() - began < 0.5, "50 ms on an idle machine"
    assert places is not None
    assert {place % 97 for place in places} == {0}


def test_more_is_measured_beyond_known_shapes_less_where_one_is_surely_good_and_all_far_away() -> None:
    tiles = [
        json.dumps({"BLOCK": tile, "num_warps": warps}) for tile in (16, 32, 64, 128, 256, 512) for warps in (1, 2, 4)
    ]

    def at(m: int, *, tilt: float) -> Known:
        best = 4 + tilt * math.log2(m)
        times = {
            text: 1.0 + abs(math.log2(json.loads(text)["BLOCK"]) - best) + json.loads(text)["num_warps"]
            for text in tiles
        }
        return Known({"M": m}, times)

    def chosen(m: int, tilt: float) -> list[int] | None:
        return worth_measuring([at(4, tilt=tilt), at(1024, tilt=tilt)], {"M": m}, tiles, 4)

    assert len(chosen(64, 0.0) or []) == 2, "the same is the best at both"
    assert len(chosen(64, 0.5) or []) == 4, "what is the best at one is slow at the other"
    assert len(chosen(2048, 0.0) or []) == 5
    assert chosen(1 << 20, 0.0) is None
    # Tried at no shape, but like those that are fast.
    known = [
        Known(one.numbers, {text: time for text, time in one.times.items() if text != tiles[3]})
        for one in (at(4, tilt=0.1), at(1024, tilt=0.1))
    ]
    assert tiles[3] in [tiles[place] for place in choose(known, {"M": 64}, tiles, 6) or []]
