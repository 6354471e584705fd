"""What `run` launches is read from its text and the workload's shapes."""

import json

import pytest

from kbench.benchmark.surrogates.static.kernel_rows import run_of
from kbench.benchmark.surrogates.static.reader import traces
from kbench.benchmark.surrogates.static.shapes import Trace


def traced(body: str, *inputs: str, head: str = "") -> Trace:
    names = ", ".join(each.partition(":")[0] for each in inputs)
    source = f"{head}\ndef run({names}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    (found,) = traces(*run_of(source), json.dumps([{"inputs": list(inputs)}]), 132)
    return found


def test_a_grid_of_tiles_is_counted_for_the_shapes_of_the_workload() -> None:
    body = (
        "m, n = x.shape\n"
        "y = torch.empty((m, n), device=x.device)\n"
        "grid = (triton.cdiv(m, 64), triton.cdiv(n, 128))\n"
        "kernel[grid](x, y, m, n, BM=64, num_warps=8)\n"
        "return y"
    )
    found = traced(body, "x: float32[1000,256]")
    assert [(each.blocks, each.threads) for each in found.launches] == [(32.0, 256.0)]
    assert (found.allocated, found.cleared) == (256000.0, 0.0)


def test_cuda_launches_and_their_shared_memory_are_understood() -> None:
    body = (
        "count = x.numel()\n"
        "out = torch.zeros(bins, dtype=torch.int32)\n"
        "blocks = min(2 * 132, (count + 511) // 512)\n"
        'module.launch("a", grid=blocks, block=(32, 4), args=(x, out), shared_bytes=bins * 4)\n'
        'module.launch("b", (bins + 31) // 32, 32, args=(out,))'
    )
    found = traced(body, "x: int32[1048576]", "bins: 256")
    assert [(each.blocks, each.threads, each.shared_bytes) for each in found.launches] == [
        (264.0, 128.0, 1024.0),
        (8.0, 32.0, 0.0),
    ]
    assert found.cleared == 256.0


def test_loops_launch_as_often_as_they_turn_and_conditions_choose() -> None:
    body = (
        "n = x.shape[-1]\n"
        "span = 1\n"
        "while span < n:\n"
        "    kernel[(n // 2,)](x, span)\n"
        "    span *= 2\n"
        "for step in range(3):\n"
        "    if step % 2:\n"
        "        kernel[(step,)](x)\n"
        "return x"
    )
    found = traced(body, "x: float32[4,16]")
    assert [each.blocks for each in found.launches] == [8.0, 8.0, 8.0, 8.0, 1.0]


def test_constants_of_the_module_are_known_and_other_names_are_not() -> None:
    body = "kernel[(x.numel() // BLOCK,)](x)\nkernel[(somewhere,)](x)"
    found = traced(body, "x: float32[1024]", head="BLOCK = 128\n")
    assert [each.blocks for each in found.launches] == [8.0, None]


def test_constants_are_those_of_the_module_not_arguments_of_a_launch() -> None:
    found = traced("kernel[(x.numel() // BLOCK,)](x, BLOCK=64)", "x: float32[1024]", head="BLOCK = 128\n")
    assert [each.blocks for each in found.launches] == [8.0]


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        ("kernel[(+4, ~-8)](x)", [28.0]),
        ("kernel[(8 if 1 < 2 < 2 else 3,)](x)", [3.0]),
        ("kernel[(8 if 1 < 2 < 3 else 3,)](x)", [8.0]),
        ("for i in range(9):\n    if i == 2:\n        break\n    kernel[(5,)](x)", [5.0, 5.0]),
        ("for i in range(3):\n    if i < 2:\n        continue\n    kernel[(5,)](x)", [5.0]),
        ("for i in range(2):\n    pass\nelse:\n    kernel[(5,)](x)", [5.0]),
        ("y = 1e+5\nz = 1E-5\nkernel[(7,)](x)", [7.0]),
        ("n: int = 6\nkernel[(n,)](x)", [6.0]),
        ("kernel[(3 if somewhere else 4,)](x)", [None]),
        ("y = x.view(-1, 1e-320)\nkernel[(y.shape[0],)](x)", [None]),
        ("while somewhere:\n    kernel[(2,)](x)", [2.0]),
        ("y = '\\d'\nkernel[(2,)](x)", [2.0]),
    ],
)
def test_signs_comparisons_and_loops_mean_what_they_mean_in_python(body: str, blocks: list[float | None]) -> None:
    assert [each.blocks for each in traced(body, "x: float32[8]").launches] == blocks


@pytest.mark.parametrize(
    "body",
    [
        "with somewhere:\n    pass\nkernel[(1,)](x)",
        "try:\n    pass\nfinally:\n    pass\nkernel[(1,)](x)",
        "if somewhere:\n    pass\nkernel[(1,)](x)",
        "for i in somewhere:\n    pass\nkernel[(1,)](x)",
        "for i in range(65):\n    pass\nkernel[(1,)](x)",
        "a, *b = x.shape\nkernel[(1,)](x)",
        "a = [1]\na[0] = 2\nkernel[(1,)](x)",
        "n = 1\nkernel[(1,)](n := 2)\nkernel[(n,)](x)",
    ],
)
def test_a_run_with_anything_that_may_change_its_launches_unseen_is_unknown(body: str) -> None:
    source = "\ndef run(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert traces(*run_of(source), json.dumps([{"inputs": ["x: float32[8]"]}]), 132) == []


@pytest.mark.parametrize(("processors", "blocks"), [(132, 264.0), (108, 216.0), (None, None)])
def test_a_source_is_told_the_processors_of_the_querys_gpu(processors: int | None, blocks: float | None) -> None:
    source = """
def run(x):
    y = torch.empty_like(x)
    count = torch.cuda.get_device_properties(x.device).multi_processor_count
    kernel[(2 * count,)](x, y, num_warps=4)
    return y
"""
    (found,) = traces(*run_of(source), json.dumps([{"inputs": ["x: float32[4096]"]}]), processors)
    assert [launch.blocks for launch in found.launches] == [blocks]
