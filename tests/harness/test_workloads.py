"""Which workloads fit into a GPU's memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbench.benchmark.problems import problem
from kbench.harness.harness import Harness
from kbench.harness.workloads import device_bytes, fitting, left_out, parse_amount
from kbench.schemas import UserError

GEMM = problem("matmul_square")


@pytest.mark.parametrize(
    ("text", "amount"), [("24G", 24 << 30), ("1.5 GiB", 3 << 29), ("800mb", 800 << 20), ("4096", 4096)]
)
def test_an_amount_of_memory_is_read(text: str, amount: int) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize("text", ["", "G", "0G", "-1G", "24 apples"])
def test_what_is_no_amount_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match=r"--max-memory is .*; give an amount such as 24G"):
        parse_amount(text)


def test_a_workload_takes_all_copies_of_its_inputs_and_answers() -> None:
    size = GEMM.sizes[0]
    inputs = sum(spec.nbytes for spec in GEMM.inputs(size.params))
    assert 6 * inputs < device_bytes(GEMM, size) < 40 * inputs


def test_workloads_that_do_not_fit_are_left_out_and_none_at_all_is_an_error() -> None:
    needed = sorted(device_bytes(GEMM, size) for size in GEMM.sizes)
    assert [device_bytes(GEMM, size) for size in fitting(GEMM, GEMM.sizes, needed[0])] == needed[:1]
    assert len(left_out(GEMM, needed[0])) == len(needed) - 1
    assert not left_out(GEMM, None)
    with pytest.raises(UserError, match=r"no workload of 'matmul_square' fits into .* GiB: .* give a larger"):
        fitting(GEMM, GEMM.sizes, needed[0] - 1)


@pytest.mark.parametrize(
    ("limit_bytes", "memory_bytes", "chosen"),
    [(None, 1 << 40, None), (1 << 40, 1 << 20, tuple(s.name for s in GEMM.sizes)), (None, 1 << 20, UserError),
     (1 << 20, 1 << 40, UserError)],
)  # fmt: skip
def test_a_gpu_that_is_too_small_is_told_before_anything_is_planned(
    limit_bytes: int | None, memory_bytes: int, chosen: Any
) -> None:
    harness = Harness(gpu=0, max_memory_bytes=limit_bytes)
    queues: Any = [SimpleNamespace(facts={"memory_bytes": memory_bytes})]
    harness._queues = queues
    if chosen is UserError:
        with pytest.raises(UserError, match="--max-memory"):
            harness._chosen("matmul_square")
    else:
        assert harness._chosen("matmul_square") == chosen
