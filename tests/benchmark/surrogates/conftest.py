"""A corpus whose correct kernels have counted work, and compilers that say what is shipped or refuse."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kbench.benchmark.problems import problem
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.work.table import work_text
from kbench.benchmark.work.totals import LaunchWork, Totals, Traffic, Work
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Kernel, KernelSource, MissingDependencyError, PlanSummary

from ..conftest import GPU, invented_tables, written


def work_of(source: str, place: int) -> list[Work]:
    """Two configurations of a kernel, the second slower; what they do follows from the shown text."""
    amount = 1e3 * len(source) + 2e3 * (sum(source.encode()) % 97) + place
    traffic = (Traffic(4e6, amount, 1.5 * amount, amount / 3, (1.0, 0.25, 0.0), 0.5),)
    totals = [
        Totals(fma=amount * more, memory=amount / 7, load_sectors=amount, load_requests=amount) for more in (1, 2)
    ]
    return [Work((LaunchWork("f", (1320, 1, 1), 256, 64, 0, 0, one, traffic=traffic),), fills=1) for one in totals]


def plans_of(kernel: Kernel) -> list[PlanSummary]:
    """Rows of a kernel with the work of all workloads of its problem."""
    return [
        PlanSummary(
            kernel_id=kernel.kernel_id, problem_id=kernel.problem_id, gpu=GPU, workload=size.name, configurations=2,
            allocated_bytes=0, buffers=1, fills=1, copies=0, registers=32, spill_bytes=0, launches=(),
            work_json=work_text(work_of(kernel.normalised or "", place)),
        )
        for place, size in enumerate(problem(kernel.problem_id).sizes)
    ]  # fmt: skip


def correct_kernels() -> list[Kernel]:
    return [one for one in invented_tables(5, 6, 12)["kernels"] if one.speedup is not None]


def shipped_plans(without: str = "") -> list[PlanSummary]:
    """The plans of all correct kernels but those of this text."""
    return [row for one in correct_kernels() if one.normalised != without for row in plans_of(one)]


def bare(path: Path, plans: Sequence[PlanSummary]) -> Tables:
    """The corpus with these plans."""
    return benchmark_of(Corpus.open(written(path, invented_tables(5, 6, 12) | {"plans": plans})))


def compiler(kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
    """Says of each text what the plans ship of it."""
    sizes = [problem(kernel.problem_id).sizes for kernel in kernels]
    return [
        CompilerFacts(32, 0, 0, {size.name: work_of(kernel.source, place) for place, size in enumerate(each)})
        for kernel, each in zip(kernels, sizes, strict=True)
    ]


class Recording:
    """That compiler, which remembers the texts it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        self.asked += [kernel.source for kernel in kernels]
        return compiler(kernels, capability)


class Refusing(Recording):
    """A compiler without the packages it needs."""

    def __call__(self, kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        super().__call__(kernels, capability)
        raise MissingDependencyError("torch", "gpu", "compiling kernels")


@pytest.fixture(scope="session")
def shipping(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return bare(tmp_path_factory.mktemp("shipping") / "corpus", shipped_plans())


@pytest.fixture(scope="session")
def asked(shipping: Tables) -> Questions:
    return build_questions(shipping)
