"""Partitions of a GPU: how they are named and refused, what records say of them, and the real thing on a GPU."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from honest_kernels import CUDA, TRITON, gelu

import kbench
from kbench.benchmark.problems import problem
from kbench.cli import cli
from kbench.harness.bench.context import device_bytes
from kbench.harness.commands import doctor
from kbench.harness.cuda import CudaModule
from kbench.harness.device.device import CudaDevice
from kbench.harness.device.environment import device_facts, make_environment
from kbench.harness.device.floor import MARGIN, Ceilings, floor_us, implausible
from kbench.harness.device.gpu import LOOK_SOURCE, Gpu, parse_gpus
from kbench.harness.device.target import H200, Target
from kbench.harness.harness import Harness
from kbench.harness.plan.cache import Build, BuildCache
from kbench.harness.queue.job import Job
from kbench.harness.queue.planners import Planners
from kbench.harness.timing.stamps import NOMINAL_US, NullKernel
from kbench.harness.worker.runner import READ_SOURCE
from kbench.harness.workloads import fitting, left_out, parse_amount
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Measurement, Status, UserError, from_dict

DATASET = Path(__file__).parents[2] / "benchmark" / "dataset"
SM_90 = Target(9, 0)


@pytest.mark.parametrize("text", ["0", "1", "0:64", "3:8", "MIG-1a2b", "GPU-7f:32"])
def test_a_gpu_is_named_by_index_or_uuid_with_the_size_of_its_partition(text: str) -> None:
    assert str(Gpu.parse(text)) == text


@pytest.mark.parametrize("text", ["", "zero", "-1", "0:", "0:x", "0:64:2", "mig-1"])
def test_other_names_are_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(UserError, match=r"--gpu is .* 0:64"):
        Gpu.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0:7", "multiple of 8 SMs, at least 8"),
        ("0:0", "multiple of 8 SMs, at least 8"),
        ("0:132", "leave the count out for the whole GPU"),
        ("0:200", "the GPU has 132 SMs, but a partition has a multiple of 8 SMs, at least 8 and at most"),
        ("3:64", "there is one GPU, 0"),
        ("0:64,0:32", "different GPUs"),
    ],
)
@pytest.mark.parametrize(
    "command", [f"measure --corpus {DATASET}", f"compare {__file__} {__file__} --problem relu", "doctor"]
)
def test_a_partition_that_cannot_be_gets_one_line_with_the_rule(
    command: str, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "gpu_count", lambda: 1)
    monkeypatch.setattr(doctor, "multiprocessors", lambda index: 132)
    monkeypatch.setattr(doctor, "boards", lambda: (None, [{"name": "NVIDIA H200"}]))
    with pytest.raises(UserError) as caught:
        CliRunner().invoke(cli, [*command.split(), "--gpu", text], catch_exceptions=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_uuid_is_the_only_gpu_cuda_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert Gpu.parse("1:64").visible_index() == 1
    assert Gpu.parse("MIG-1a2b").visible_index() == 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "MIG-1a2b"


def test_gpus_of_one_harness_are_partitioned_alike() -> None:
    assert Harness(gpu=["0:64", "1:64"]).gpus == parse_gpus("0:64,1:64")
    with pytest.raises(UserError, match="not partitioned alike"):
        Harness(gpu=["0:64", 1])


def test_records_and_plans_name_the_multiprocessors_of_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = pytest.importorskip("pynvml")
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: "580.0")
    device: Any = object.__new__(CudaDevice)
    device.properties = SimpleNamespace(**dataclasses.asdict(H200))
    device.sm_count, device.l2_bytes = 64, 1
    device.model = Gpu.parse("0:64").named("NVIDIA H200", 132)
    device.partition = SimpleNamespace(sm_ids=(2, 3, 6, 7))
    device.reaches_host_memory = lambda: True
    facts = device_facts(device)
    environment = make_environment(facts, "plan", None)
    assert (environment.gpu, environment.sm_count) == ("NVIDIA H200 (64 of 132 SMs)", 64)
    assert facts["planning"] == dataclasses.asdict(H200) | {"multi_processor_count": 64}
    assert facts["sm_ids"] == [2, 3, 6, 7]
    assert facts["reaches_host_memory"]


@pytest.mark.parametrize("text", ["0", "0:64"])
def test_figures_of_a_partition_are_stated_relative_to_the_null_kernel_of_its_gpu(text: str) -> None:
    name = Gpu.parse(text).named("NVIDIA H200", 132)
    assert NullKernel(name).nominal_us == NOMINAL_US["NVIDIA H200"]


@pytest.mark.parametrize("source", [LOOK_SOURCE, READ_SOURCE], ids=["look", "read"])
def test_the_kernels_that_look_at_a_device_compile(source: str) -> None:
    assert CudaModule(source).compiled("sm_90a").cubin


def test_a_build_serves_the_number_of_multiprocessors_it_was_planned_for_alone(tmp_path: Path) -> None:
    spawner: Any = None
    cache = BuildCache(tmp_path)
    whole, part = (
        Planners(spawner, cache, SM_90, dataclasses.replace(H200, multi_processor_count=count), 1, 1.0)
        for count in (132, 64)
    )
    job = Job(0, gelu())
    cache.put(Build(whole.identity(job)), {})
    assert whole.add(job)
    assert not part.add(job)


def test_host_code_that_sizes_its_grid_is_told_the_multiprocessors_of_the_partition(plan: Any) -> None:
    sized = gelu(TRITON, "triton.cdiv(n, 1024)", "torch.cuda.get_device_properties(0).multi_processor_count")
    planned = plan(sized, facts=dataclasses.replace(H200, multi_processor_count=64))
    assert planned.error is None
    grids = {step.grid for plans in planned.plans.values() for step in plans[0].steps if step.grid is not None}
    assert grids == {(64, 1, 1)}


def measured(folder: Path, gpu: str) -> dict[tuple[str, str], Measurement]:
    """Two kernels measured in a process of its own, by kernel and workload."""
    command = f"measure {TRITON} {CUDA} --problem gelu_tanh --gpu {gpu} --out {folder} --json".split()
    folders = [str(Path(kbench.__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    subprocess.run([sys.executable, "-m", "kbench", *command], check=True, capture_output=True, env=environment)
    rows = [from_dict(Measurement, row) for row in Corpus.open(folder).table("measurements").to_pylist()]
    return {(row.kernel_id, row.workload): row for row in rows}


@pytest.mark.gpu
def test_a_partition_runs_on_as_many_multiprocessors_as_it_has_and_is_slower() -> None:
    with Harness(gpu="0:32") as harness:
        small, ids = harness.environment(), harness.facts()["sm_ids"]
    with Harness(gpu=0) as harness:
        whole = harness.environment()
    assert (len(ids), len(set(ids)), small.sm_count) == (32, 32, 32)
    assert small.gpu == f"{whole.gpu} (32 of {whole.sm_count} SMs)"
    # Fewer multiprocessors run at a higher clock, so a quarter of them has more than a quarter of the rate.
    assert 0.2 < (small.matmul_peak_tflops or 0.0) / (whole.matmul_peak_tflops or 1.0) < 0.4


@pytest.mark.gpu
def test_two_processes_agree_on_a_partition(tmp_path: Path) -> None:
    one, two = (measured(tmp_path / name, "0:64") for name in ("one", "two"))
    assert one.keys() == two.keys() != set()
    assert all("(64 of " in row.gpu for row in one.values())
    for key, row in one.items():
        assert (row.status, two[key].status) == (Status.OK, Status.OK)
        other = two[key].runtime_us or 0.0
        assert row.runtime_us == pytest.approx(other, abs=0.03 * other + 0.5)


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
    assert not left_out(GEMM, needed[0] - 1), "the error is one line"
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


CEILINGS = Ceilings(4300.0, 4400.0, 790.0, 32.0, 60 << 20)


def test_a_memory_bound_problem_is_bounded_by_what_cannot_stay_in_the_cache() -> None:
    definition = problem("gelu_tanh")
    size = definition.sizes[0]
    nbytes = definition.count_bytes(size.params)
    expected = MARGIN * (nbytes - CEILINGS.l2_bytes) / 4400e3
    assert floor_us(definition, size, CEILINGS) == pytest.approx(expected)


def test_a_time_below_the_floor_is_refused_with_both_figures() -> None:
    reason = implausible(10.0, 50.0) or ""
    assert "10.00 us" in reason
    assert "50.00 us" in reason
    assert implausible(50.0, 50.0) is None
