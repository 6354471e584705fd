"""A small corpus written by the tests: invented runtimes, real problems, so that every track has something to score."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from records import filled

from kbench.benchmark.problems.registry import known
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.questions.draw import draw_questions
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.normalise import normalised
from kbench.schemas import Backend, Environment, Kernel, Problem, Status
from kbench.schemas.ids import content_hash, kernel_id


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What evaluations keep for the next one is not kept in the developer's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


GPU = "NVIDIA H200"
SECRET = "this variant reaches 3.7x"
SPLITS = ("train", "train", "train", "validation", "test", "test")
SOURCE = '''"""{secret}"""
import triton
import triton.language as tl
import torch


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    # {secret}
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for step in tl.static_range({unroll}):
        tl.store(y + at, tl.load(x + at, mask=at < n) * {salt}, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    kernel[(x.numel() // {block},)](x, y, x.numel(), BLOCK={block}, num_warps={warps})
    return y
'''


class Builder:
    """Invents kernels whose speed follows from what their source says, plus noise."""

    def __init__(self, seed: int, problem_count: int, kernels_each: int) -> None:
        self._random = np.random.default_rng(seed)
        chosen = list(known().values())[:problem_count]
        self.problems = [problem.record() for problem in chosen]
        self.kernels: list[Kernel] = []
        for index, problem in enumerate(self.problems):
            split = SPLITS[index % len(SPLITS)]
            self.kernels += with_parents(
                [self._kernel(problem.problem_id, problem.family, split, step) for step in range(kernels_each)]
            )

    def _kernel(self, problem_id: str, family: str, split: str, step: int) -> Kernel:
        block = int(self._random.choice([64, 128, 256, 512, 1024, 2048]))
        warps, unroll = int(self._random.choice([1, 2, 4, 8])), int(self._random.choice([1, 2, 4]))
        source = SOURCE.format(secret=SECRET, block=block, warps=warps, unroll=unroll, salt=f"{step}.5")
        failed = block == 2048 and warps == 1
        log_speedup = 0.5 * math.log2(block / 256) - 0.4 * math.log2(unroll) + 0.2 * self._random.standard_normal()
        speedup = None if failed else float(2**log_speedup)
        runtime = None if speedup is None else 100.0 / speedup
        noise = 1.01
        return filled(
            Kernel, kernel_id=kernel_id(problem_id, Backend.TRITON, source), problem_id=problem_id, family=family,
            backend=Backend.TRITON, gpu=GPU, search_method="random", proposer="genome", run_id=f"run-{problem_id}",
            step=step, structure_id=content_hash("structure", source),
            cluster_id=content_hash("cluster", problem_id, str(step)), split=split, source=source,
            normalised=normalised(source),
            status=Status.INCORRECT if failed else Status.OK, error="wrong output" if failed else None,
            runtime_us=runtime, runtime_low_us=runtime and runtime / noise, runtime_high_us=runtime and runtime * noise,
            speedup=speedup, speedup_low=speedup and speedup / noise, speedup_high=speedup and speedup * noise,
            compile_ms=30.0, registers=32, env_id=ENVIRONMENT.env_id, origin="kbench", license="CC-BY-4.0",
        )  # fmt: skip


def with_parents(kernels: list[Kernel]) -> list[Kernel]:
    """Every third kernel made from the one before it."""
    made: list[Kernel] = []
    for number, one in enumerate(kernels):
        parent = made[-1].kernel_id if number % 3 == 1 else None
        made.append(dataclasses.replace(one, parent_id=parent))
    return made


def times(kernels: list[Kernel], problems: list[Problem]) -> list[Any]:
    """Times of every workload; every second kernel is far slower on the first one."""
    workloads = {one.problem_id: [w.name for w in one.workloads] for one in problems}
    rows = []
    for number, one in enumerate(kernels):
        for place, name in enumerate(workloads[one.problem_id] if one.runtime_us else ()):
            time = (one.runtime_us or 0.0) * (4.0 if number % 2 and not place else 1.0)
            rows.append(SimpleNamespace(kernel_id=one.kernel_id, gpu=GPU, workload=name, runtime_us=time,
                                        runtime_low_us=time, runtime_high_us=time))  # fmt: skip
    return rows


ENVIRONMENT = filled(
    Environment, env_id=content_hash("environment"), gpu=GPU, compute_capability="9.0", sm_count=132,
    memory_bytes=141 * 10**9, l2_bytes=60 * 2**20, copy_bandwidth_gbs=4300.0, matmul_peak_tflops=790.0,
)  # fmt: skip


def write_corpus(path: Path, seed: int = 0, problem_count: int = 12, kernels_each: int = 40) -> Path:
    """Write the corpus to a folder."""
    return written(path, invented_tables(seed, problem_count, kernels_each))


def invented_tables(seed: int = 0, problem_count: int = 12, kernels_each: int = 40) -> dict[str, Any]:
    """Rows of every config, questions included."""
    built = Builder(seed, problem_count, kernels_each)
    questions = draw_questions(built.kernels, times(built.kernels, built.problems))
    return {
        "problems": built.problems, "environments": [ENVIRONMENT], "kernels": built.kernels, "questions": questions,
    }  # fmt: skip


def written(folder: Path, tables: dict[str, Any]) -> Path:
    """A corpus of these tables."""
    with CorpusWriter(folder) as writer:
        for name, rows in tables.items():
            writer.append(name, rows)
    return folder


@pytest.fixture(scope="session")
def corpus_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of twelve problems, four of them for testing."""
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus")


@pytest.fixture(scope="session")
def large_corpus_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with enough validation queries to learn a calibration from."""
    return write_corpus(tmp_path_factory.mktemp("large") / "corpus", seed=3, kernels_each=60)


@pytest.fixture(scope="session")
def corpus(corpus_path: Path) -> Tables:
    """That corpus, as the benchmark asks it."""
    return benchmark_of(Corpus.open(corpus_path))


@pytest.fixture(scope="session")
def questions(corpus: Tables) -> Questions:
    """Everything asked on its test split."""
    return build_questions(corpus)


@pytest.fixture
def secret() -> str:
    """A statement about speed that the corpus's comments and docstrings make."""
    return SECRET


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, so that default output goes nowhere else."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
