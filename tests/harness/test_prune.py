"""The hook in a real `triton.autotune`, in Triton's interpreter with made-up times; its table under attack."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbench.benchmark.tuning.choose import choose
from kbench.harness.prune import Hook, Table, prune

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
    assert places == [0, 97, 194, 291]
