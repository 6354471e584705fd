"""What dry runs add to Triton's interpreter: a configuration for autotuners, bfloat16 that computes, float8 casts."""

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from honest_kernels import gelu

from kbench.benchmark.problems import problem
from kbench.harness.harness import Harness
from kbench.harness.worker.interpreter import bfloat16_of, float32_of, through_torch
from kbench.harness.workloads import refuse_without_gpu
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.best import find_kernel
from kbench.schemas import Backend, KernelSource, Status, UserError

KERNEL = gelu()
TUNED = KERNEL.source.replace(
    "@triton.jit", '@triton.autotune([triton.Config({"block": n}) for n in (1024, 256)], key=["n"])\n@triton.jit'
).replace("block=1024, num_warps=4", "")


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(gpu=None, cache=tmp_path_factory.mktemp("cache"), builders=1) as made:
        yield made


def checked(harness: Harness, source: str) -> tuple[Status, str | None]:
    (row,) = harness.measure([dataclasses.replace(KERNEL, source=source)], check_only=True)
    return row.status, row.error


def test_an_autotuned_kernel_runs_in_the_interpreter_with_its_first_configuration(harness: Harness) -> None:
    assert checked(harness, TUNED) == (Status.OK, None)


def test_a_failure_in_the_interpreter_says_where_it_was_found(harness: Harness) -> None:
    status, error = checked(harness, TUNED.replace("0.044715", "0.05"))
    assert status is Status.INCORRECT
    assert str(error).endswith("(in Triton's interpreter)")


BFLOAT16 = """
    one = (v * 0.0).to(tl.bfloat16) + 1.0
    two = tl.maximum(one + one, one)
    right = tl.sum(two * one, 0).to(tl.float32) == 2.0 * block
    right = right & (tl.max(two, 0).to(tl.float32) == 2.0) & (tl.sum((one < two).to(tl.int32), 0) == block)
    right = right & (tl.max(tl.cumsum(one, 0).to(tl.float32), 0) == block) & (tl.argmax(two, 0) == 0)
    ones = tl.full((16, 16), 1.0, tl.bfloat16)
    right = right & (tl.sum(tl.sum(tl.dot(ones, ones), 1), 0) == 4096.0)
    u = tl.where(right, u, 9.0)
    t = 2.0"""


def test_bfloat16_is_computed_as_numbers_in_the_interpreter(harness: Harness) -> None:
    assert checked(harness, TUNED.replace("\n    t = 2.0", BFLOAT16)) == (Status.OK, None)
    wrong = BFLOAT16.replace("one + one", "one + one + one")
    assert checked(harness, TUNED.replace("\n    t = 2.0", wrong))[0] is Status.INCORRECT


@pytest.mark.parametrize("kernel_id", ["aa73a66e6619", "91438d40570d"])
def test_correct_kernels_of_the_dataset_that_cast_to_float8_pass(harness: Harness, kernel_id: str) -> None:
    # The second also computes with the counter of its loop.
    (row,) = find_kernel(Corpus.open(None), kernel_id, "NVIDIA H200")
    kernel = KernelSource("rmsnorm_quantise", Backend.TRITON, row.row["source"])
    (measured,) = harness.measure([kernel], check_only=True)
    assert (measured.status, measured.error) == (Status.OK, None)


def test_what_a_cpu_cannot_hold_is_refused_before_it_is_tried(harness: Harness) -> None:
    with pytest.raises(UserError, match=r"'large' of 'softmax' .* has 2 GiB; .* workloads=\('tiny',\)"):
        list(harness.measure([dataclasses.replace(KERNEL, problem_id="softmax")]))
    large = dataclasses.replace(problem("softmax"), tiny=problem("softmax").size("large"))
    with pytest.raises(UserError, match="a problem file with smaller shapes"):
        refuse_without_gpu(large, [large.tiny])


def test_numbers_too_large_for_float8_become_its_largest() -> None:
    types = {name: SimpleNamespace(name=name, primitive_bitwidth=bits) for name, bits in (("fp32", 32), ("fp8e4nv", 8))}
    convert = through_torch(lambda *_: None, "RTZ")
    bits = convert(np.array([500.0, -0.99, 0.001], np.float32), types["fp32"], types["fp8e4nv"], None)
    wide = convert(bits, types["fp8e4nv"], types["fp32"], None).view(np.float32)
    assert wide.tolist() == [448.0, -1.0, 2.0**-9]
    assert convert(bits, types["fp32"], types["fp8e4nv"], "RTZ") is None


def test_numbers_become_the_nearest_bfloat16_ones() -> None:
    values = torch.cat([torch.randn(1000) * 100, torch.tensor([1.00390625, 1.01171875, 3.4e38, float("inf")])])
    bits = torch.from_numpy(bfloat16_of(values.numpy()).view("int16"))
    assert torch.equal(bits.view(torch.bfloat16), values.bfloat16())
    assert torch.equal(torch.from_numpy(float32_of(bits.numpy().view("uint16"))), values.bfloat16().float())
    assert torch.tensor(bfloat16_of(float("nan")).item()) == 0x7FC0
