"""Small corpora, built through the writer."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from records import filled

from kbench import schemas
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.structure import structure_id
from kbench.schemas import Backend, Kernel, Status
from kbench.schemas.bins import bin_of
from kbench.schemas.ids import content_hash, kernel_id
from kbench.schemas.records.launch_plan import PlannedLaunch

GPUS = ("NVIDIA H200", "NVIDIA A100-SXM4-80GB")
PROBLEMS = {"softmax": "norm", "relu": "activation", "gelu": "activation", "matmul_square": "matmul"}
ENVIRONMENT = content_hash("environment")
Drawing = Callable[[], AbstractContextManager[None]]


FIGURES = ("runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high")


def make_source(problem: str, number: int) -> str:
    return (
        f'"""{problem} number {number}."""\nimport torch\nimport triton\n\nBLOCK = {2 ** (number % 8)}\n\n\n'
        f"def run(x):  # variant {number}\n    return torch.empty_like(x){' + 1' * (number % 5)}\n"
    )


def make_kernel(number: int, **changes: object) -> Kernel:
    rng = random.Random(number)
    problem = tuple(PROBLEMS)[number % len(PROBLEMS)]
    backend = (Backend.TRITON, Backend.CUDA)[number // 4 % 2]
    source = make_source(problem, number)
    ok = rng.random() < 0.8
    runtime, speedup = rng.uniform(5, 500), rng.uniform(0.3, 5)
    figures = (runtime, runtime * 0.99, runtime * 1.01, speedup, speedup * 0.99, speedup * 1.01)
    values: dict[str, object] = {
        "kernel_id": kernel_id(problem, backend, source), "problem_id": problem, "family": PROBLEMS[problem],
        "backend": backend, "gpu": GPUS[number // 8 % 2],
        "search_method": ("evolve", "random", "puct+surrogate")[number % 3], "proposer": "genome", "run_id": "run_1",
        "step": number, "structure_id": structure_id(source), "cluster_id": content_hash("cluster", str(number)),
        "split": ("train", "validation", "train", "test")[number % len(PROBLEMS)], "source": source,
        "status": Status.OK if ok else Status.COMPILE_ERROR, "error": None if ok else "NameError: tl",
        **dict(zip(FIGURES, figures if ok else (None,) * 6, strict=True)),
        "compile_ms": 30.0, "registers": 32, "shared_bytes": 0, "spill_bytes": 0, "env_id": ENVIRONMENT,
        "origin": "kbench", "license": "CC-BY-4.0",
    }  # fmt: skip
    return filled(Kernel, **(values | changes))


def make_pair(kernel: Kernel, **changes: object) -> schemas.Pair:
    speedup = kernel.speedup or 1.0
    values: dict[str, object] = {
        "pair_id": content_hash("pair", kernel.kernel_id, str(kernel.gpu)), "candidate_id": kernel.kernel_id,
        "kind": schemas.PairKind.REFERENCE, "speedup": speedup, "bin": bin_of(speedup),
    }  # fmt: skip
    return filled(schemas.Pair, like=kernel, **(values | changes))


def make_question(kernel: Kernel) -> schemas.Question:
    return filled(
        schemas.Question, like=kernel, question_id=content_hash("question", kernel.kernel_id, str(kernel.gpu)),
        kind=schemas.QuestionKind.LEVEL, author=schemas.AuthorClass.GENOME, candidate_id=kernel.kernel_id,
        bin=bin_of(kernel.speedup or 1.0),
    )  # fmt: skip


def make_measurement(kernel: Kernel, **changes: object) -> schemas.Measurement:
    timed: dict[str, object] = {
        "samples_us": (kernel.runtime_us, kernel.runtime_us), "anchor_us": (1.5, 2.5), "rounds": 2,
        "cache_policy": "flush", "max_abs_error": 0.0, "max_rel_error": 0.0, "sm_clock_mhz": (1980.0,),
        "temperature_c": (40.0,), "power_w": (300.0,), "throttle_reasons": (),
    }  # fmt: skip
    values: dict[str, object] = {
        "measurement_id": content_hash("measurement", kernel.kernel_id, str(kernel.gpu)), "workload": "large",
        "floor_us": 1.0, "build_s": 0.1, "verify_s": 0.1, "time_s": 0.1, "started_at": "2026-01-01T00:00:00Z",
        **(timed if kernel.runtime_us is not None else {}),
    }  # fmt: skip
    return filled(schemas.Measurement, like=kernel, **(values | changes))


def make_plan(kernel: Kernel) -> schemas.PlanSummary:
    launch = filled(PlannedLaunch, function="f", grid=(8, 1, 1), block=(128, 1, 1))
    return filled(schemas.PlanSummary, like=kernel, workload="large", launches=(launch, launch))


def make_live(number: int, parent_id: str | None = None) -> schemas.LiveKernel:
    """A kernel that a search measured, of the problem whose kernels are all held out."""
    problem, source = "matmul_square", make_source("live", number)
    return filled(
        schemas.LiveKernel, study="live", run_id="live_run", number=number, step=number, problem_id=problem,
        family=PROBLEMS[problem], backend=Backend.TRITON, gpu=GPUS[0], split="test", search_method="evolve",
        proposer="genome", operator="mutate" if parent_id else "fresh", parent_id=parent_id,
        kernel_id=kernel_id(problem, Backend.TRITON, source), source=source, license="CC-BY-4.0", status=Status.OK,
        speedup=1.5, workloads=("large",), speedups=(1.5,), measured_at="2026-01-01T00:00:00Z",
    )  # fmt: skip


def make_tuning(block: int) -> schemas.TuningTime:
    """A configuration of a tuned kernel; the largest does not fit."""
    ok = block < 256
    return filled(
        schemas.TuningTime, kernel="square_tuned", problem_id="matmul_square", gpu=GPUS[0], split="train",
        shape_json='{"m": 16}', config_json=f'{{"block": {block}}}', status=Status.OK if ok else Status.LAUNCH_ERROR,
        error=None if ok else "out of shared memory", runtime_us=10.0 if ok else None,
        runtime_low_us=9.9 if ok else None, runtime_high_us=10.1 if ok else None,
    )  # fmt: skip


def make_reference(name: str) -> schemas.ReferenceTime:
    return filled(
        schemas.ReferenceTime, problem_id=name, workload="large", gpu=GPUS[0], reference_us=20.0, compiled_us=12.5,
        vendor_error="cuDNN: RuntimeError: no plan", measured_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def make_problem(name: str) -> schemas.Problem:
    size = filled(schemas.Workload, name="large", params_json="{}", inputs=("float32[8]",), outputs=("float32[8]",))
    return filled(
        schemas.Problem,
        problem_id=name,
        title=name,
        family=PROBLEMS[name],
        dtypes=("float32",),
        workloads=(size,),
        tiny=size,
    )


def make_environment() -> schemas.Environment:
    return filled(schemas.Environment, env_id=ENVIRONMENT, gpu=GPUS[0])


def write_corpus(path: Path, kernels: int = 40) -> Path:
    rows = [make_kernel(number) for number in range(kernels)]
    with CorpusWriter(path) as writer:
        writer.append("kernels", rows)
        writer.append("measurements", [make_measurement(row) for row in rows])
        writer.append("repeats", [make_measurement(row) for row in rows[:2]])
        writer.append("plans", [make_plan(row) for row in rows])
        writer.append("counters", [filled(schemas.KernelCounters, like=row, workload="large") for row in rows])
        timed = [row for row in rows if row.speedup is not None]
        writer.append("pairs", [make_pair(row) for row in timed])
        writer.append("questions", [make_question(row) for row in timed])
        writer.append("problems", [make_problem(name) for name in PROBLEMS])
        writer.append("references", [make_reference(name) for name in PROBLEMS])
        writer.append("environments", [make_environment()])
        first = make_live(0)
        writer.append("live", [first, make_live(1, first.kernel_id)])
        writer.append("tuning", [make_tuning(block) for block in (64, 128, 256)])
        event = schemas.Event(
            run_id="run_1", index=0, kind="started", step=0, at="2026-01-01T00:00:00Z", payload_json="{}"
        )
        writer.append("events", [event])
    return path


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory, drawing: Drawing) -> Path:
    with drawing():
        return write_corpus(tmp_path_factory.mktemp("corpora") / "corpus")


@pytest.fixture(scope="session")
def old_corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one corpus per published schema version, named after it; tests leave them as they are."""
    folder = tmp_path_factory.mktemp("old")
    for archive in (Path(__file__).parent / "fixtures").glob("*.zip"):
        shutil.unpack_archive(archive, folder / archive.stem)
    return folder


@pytest.fixture
def corpus_path(tmp_path: Path, written_once: Path) -> Path:
    """A corpus of the test's own, free to be damaged."""
    return Path(shutil.copytree(written_once, tmp_path / "corpus"))


@pytest.fixture
def fresh_python(tmp_path: Path) -> Callable[[str], str]:
    """Runs code in a new interpreter with its own caches and no network."""

    def run(code: str) -> str:
        environment = os.environ | {
            "HF_DATASETS_CACHE": str(tmp_path / "hf_cache"),
            "HF_HOME": str(tmp_path / "hf_home"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
