"""The whole path on the CPU: Triton's interpreter, real workers, real clocks."""

import dataclasses
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from honest_kernels import TRITON, gelu

from kbench.harness import KernelJudge
from kbench.harness.commands.compare import verdicts
from kbench.harness.commands.measure import agreement
from kbench.harness.harness import Harness
from kbench.harness.timing.duel import Verdict
from kbench.schemas import Measurement, Status, to_dict

KERNEL = gelu()
ASKS = """
    about = torch.cuda.get_device_properties(torch.cuda.current_device())
    assert about.multi_processor_count == 132 and torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_name() == "NVIDIA H200"
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(gpu=None, cache=tmp_path_factory.mktemp("cache"), workloads=("tiny",), builders=1) as made:
        yield made


@pytest.fixture(scope="module")
def results() -> dict[str, Mapping[str, Any]]:
    return {}


@pytest.fixture(scope="module")
def rows(harness: Harness, results: dict[str, Mapping[str, Any]]) -> dict[str, Measurement]:
    harness.on_result = lambda kernel, result: results.update({kernel.kernel_id: result})
    kernels = [
        KERNEL,
        gelu(TRITON, "0.044715", "0.05"),
        gelu(TRITON, "tl.exp(", "tl.no_such("),
        gelu(TRITON, "import torch\n", "import torch, os\n"),
        gelu(TRITON, "    return y\n", "    return y + 0\n"),
        gelu(TRITON, "y = torch.empty_like(x)", "y = torch.empty_like(x)\n    assert x.shape[0] < 0, 'refused'"),
        gelu(TRITON, "    n = x.numel()\n", f"    n = x.numel()\n{ASKS}"),
    ]
    found = {m.kernel_id: m for m in harness.measure(kernels)}
    return {
        name: found[k.kernel_id]
        for name, k in zip(("ok", "wrong", "broken", "os", "computes", "raises", "asks"), kernels, strict=True)
    }


def test_a_correct_kernel_has_a_time_an_interval_and_its_samples(rows: dict[str, Measurement]) -> None:
    row = rows["ok"]
    assert row.status is Status.OK
    assert row.runtime_low_us < row.runtime_us < row.runtime_high_us
    assert row.samples_us
    assert row.anchor_us
    assert row.registers
    assert row.cubin_sha
    assert row.trust == "process", "without a GPU its host code runs beside its judge"


def test_what_the_null_kernel_took_comes_with_a_result_and_corrects_nothing_on_a_cpu(
    rows: dict[str, Measurement], results: dict[str, Mapping[str, Any]]
) -> None:
    found = results[rows["ok"].kernel_id]
    assert found["ruler_us"] > 0.0
    assert found["shift_us"] is None
    assert "ruler_us" not in results[rows["wrong"].kernel_id]


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("os", Status.OK, ""),
        ("asks", Status.OK, ""),
        ("raises", Status.LAUNCH_ERROR, "refused"),
        ("wrong", Status.INCORRECT, "beyond tolerance"),
        ("broken", Status.COMPILE_ERROR, "no_such"),
        ("computes", Status.REJECTED, "cannot be planned: calls the torch operator 'add'"),
    ],
)
def test_each_kernel_has_its_status_and_reason_whatever_it_imports_or_asks(
    rows: dict[str, Measurement], name: str, status: Status, words: str
) -> None:
    assert rows[name].status is status
    assert words in (rows[name].error or "")
    assert (rows[name].runtime_us is None) == (status is not Status.OK)


COMPILED = """
import torch

@torch.compile
def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")

def run(x):
    return gelu(x)
"""
WRAPS = """
import torch

def run(x):
    try:
        return x * torch.sigmoid(x.mean())
    except Exception as error:
        raise RuntimeError("some library failed")
"""
NEEDS_A_GPU = """
import traceback

import torch

if any(frame.name == "plan_kernel" for frame in traceback.extract_stack()):
    raise OSError("a library finds no driver")

def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh")
"""


@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        (COMPILED, Status.REJECTED, "cannot be planned: uses torch.compile"),
        (WRAPS, Status.REJECTED, "cannot be planned: calls the torch operator 'mean'"),
        (NEEDS_A_GPU, Status.COMPILE_ERROR, "a library finds no driver"),
    ],
    ids=["compiled", "wraps", "needs a GPU"],
)
def test_what_cannot_be_planned_runs_beside_its_judge_where_that_is_allowed(
    source: str, status: Status, words: str, harness: Harness
) -> None:
    kernel = dataclasses.replace(KERNEL, source=source)
    (row,) = harness.measure([kernel], check_only=True)
    assert (row.status, row.trust) == (status, None)
    assert words in (row.error or "")
    shared = dataclasses.replace(harness.settings, allow_unscreened=True, timeout_s=60.0)
    with Harness(gpu=None, settings=shared) as allowing:
        (row,) = allowing.measure([kernel], check_only=True)
    if source is WRAPS:
        assert row.status is Status.INCORRECT
    else:
        assert (row.status, row.error, row.trust) == (Status.OK, None, "process")


def test_a_dry_run_is_named_a_cpu_in_its_environment(harness: Harness) -> None:
    environment = harness.environment()
    assert environment.gpu.startswith("cpu")
    assert "scratch" in environment.sandbox


def test_a_kernel_made_three_times_as_slow_is_never_called_the_same_or_faster(harness: Harness) -> None:
    call = "gelu_kernel[(triton.cdiv(n, 1024),)](x, y, n, block=1024, num_warps=4)"
    slow = gelu(TRITON, call, f"{call}\n    {call}\n    {call}")
    (outcome,) = harness.duels([(KERNEL, slow)], 0.01)
    (found,) = verdicts(outcome, 0.01)
    # On a busy host the interval may stay wide; then the honest verdict is that nothing is decided.
    assert found.verdict in (Verdict.SLOWER, Verdict.UNDECIDED)
    assert found.ratio < 0.7


def test_agreement_compares_stored_and_new_figures(rows: dict[str, Measurement]) -> None:
    row = rows["ok"]
    stored = to_dict(row) | {"runtime_us": row.runtime_us * 1.01}
    report = agreement({row.kernel_id: {row.gpu: stored}}, {row.kernel_id: [row]})
    assert report["compared"] == 1
    assert report["agreement"]["median |log ratio|"] == pytest.approx(0.00995, abs=1e-4)


def test_a_judge_without_a_gpu_checks_kernels_from_any_thread(tmp_path: Path) -> None:
    judge = KernelJudge(gpu=None, cache=tmp_path, builders=1)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(judge, [KERNEL, gelu(TRITON, "0.044715", "0.05")]))
    judge.close()
    assert [(one.status, one.speedup) for one in found] == [(Status.OK, None), (Status.INCORRECT, None)]
