"""Launches that stand for PyTorch's own operators."""

import pytest

from kbench.benchmark.work.gpus import GPUS
from kbench.benchmark.work.operators import Operator, operator_work
from kbench.benchmark.work.times import Fitted, launch_time
from kbench.benchmark.work.totals import Work


def time_us(operator: Operator, gpu: str = "H200") -> float:
    return launch_time(operator_work(operator), GPUS[gpu], Fitted()).total


def product(size: int, **more: object) -> Operator:
    fields: dict[str, object] = {"bits": 16, "writes": 2.0 * size * size, "product": (1, size, size, size)}
    return Operator(name="mm", **fields | more)  # type: ignore[arg-type]


def test_a_pass_over_memory_takes_the_time_of_its_bytes() -> None:
    one = Operator(name="add", reads=(1e9, 1e9), writes=1e9, elements=5e8)
    least = 3e9 / (GPUS["H200"].dram_gbps * 1e3)
    assert least < time_us(one) < 2 * least
    assert time_us(Operator(name="add", reads=(1e9,), writes=1e9, elements=5e8)) < time_us(one)


def test_a_product_does_at_least_the_operations_of_its_shape_and_exact_floats_are_slower() -> None:
    work = Work((operator_work(product(4096)),))
    assert 2 * 4096**3 <= work.total.flops < 2.2 * 4096**3
    assert (
        time_us(product(4096, bits=32, exact=True)) > 4 * time_us(product(4096, bits=32)) / 2 > time_us(product(4096))
    )


@pytest.mark.parametrize("shape", [(1, 1, 4096, 4096), (64, 16, 16, 8), (1, 5, 7, 100_000)])
def test_small_and_flat_products_have_blocks_and_a_time(shape: tuple[int, int, int, int]) -> None:
    launch = operator_work(product(1, product=shape))
    assert launch.blocks >= 1
    assert 0 < time_us(product(1, product=shape)) < 1e4
