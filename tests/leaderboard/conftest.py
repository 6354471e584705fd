"""A small corpus, built-in surrogates' submissions for it, their results, and one site and browser for all tests."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from beside import module_at
from records import filled

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.folder import write_folder
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.questions.draw import draw_questions
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.leaderboard.board import read_entries, score_all, score_entries
from kbench.leaderboard.scoring.results import Results
from kbench.leaderboard.site.answers import answers_of
from kbench.leaderboard.site.build import build
from kbench.leaderboard.site.scope import dataset_facts
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.normalise import normalised
from kbench.schemas import Kernel, KernelCounters, Measurement
from kbench.schemas.ids import content_hash, kernel_id
from kbench.schemas.records.launch_plan import PlannedLaunch, PlanSummary
from kbench.schemas.records.problems import ReferenceTime

SURROGATES = ("uniform", "prior", "length")
SETTINGS = BootstrapSettings(resamples=50)
HOSTILE_TEXT = '</script><script>window.taken=1</script><img src=x onerror="window.taken=1"> "\'&'


def _with_tensor_cores(kernels: list[Kernel]) -> list[Kernel]:
    """Every third kernel names the instruction of Hopper's tensor cores; ids follow the sources."""
    sources = {
        k.kernel_id: k.source + ('\nASM = "wgmma.mma_async.sync.aligned"\n' if k.step % 3 == 0 else "") for k in kernels
    }
    ids = {k.kernel_id: kernel_id(k.problem_id, k.backend, sources[k.kernel_id]) for k in kernels}
    return [
        dataclasses.replace(
            k, kernel_id=ids[k.kernel_id], source=sources[k.kernel_id], normalised=normalised(sources[k.kernel_id]),
            parent_id=k.parent_id and ids[k.parent_id], edit="block: 64 -> 128" if k.parent_id else None,
        )
        for k in kernels
    ]  # fmt: skip


def _measurement(kernel: Kernel, workload: str) -> Measurement:
    identity = content_hash("measurement", kernel.kernel_id, workload)
    return filled(Measurement, like=kernel, workload=workload, measurement_id=identity, max_abs_error=0.0, floor_us=5.0)


def _plan(kernel: Kernel, workload: str) -> PlanSummary:
    launch = filled(PlannedLaunch, function="scan", grid=(132, 2, 1), block=(128, 1, 1), shared_bytes=8832)
    return filled(PlanSummary, like=kernel, workload=workload, launches=(launch,))


def _counters(kernel: Kernel, workload: str) -> KernelCounters:
    return filled(
        KernelCounters, like=kernel, workload=workload, profiled_us=70.0, dram_read_bytes=268_500_000,
        dram_write_bytes=500_000, l2_bytes=506_700_000, occupancy_percent=24.0, issue_percent=25.0, tensor_percent=61.0,
        profiler="ncu 2025.3.1",
    )  # fmt: skip


@pytest.fixture(scope="session")
def board_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six problems, two of them for testing, with lineages, measurements and timed references."""
    corpora = module_at(Path(__file__).parents[1] / "benchmark" / "conftest.py")
    path: Path = tmp_path_factory.mktemp("board") / "corpus"
    built = corpora.Builder(0, 6, 40)
    kernels = _with_tensor_cores(built.kernels)
    workloads = {problem.problem_id: problem.workloads[0].name for problem in built.problems}
    with CorpusWriter(path) as writer:
        writer.append("problems", built.problems)
        writer.append("environments", [corpora.ENVIRONMENT])
        writer.append("kernels", kernels)
        writer.append("questions", draw_questions(kernels, corpora.times(kernels, built.problems)))
        writer.append("measurements", [_measurement(kernel, workloads[kernel.problem_id]) for kernel in kernels])
        writer.append("plans", [_plan(kernel, workloads[kernel.problem_id]) for kernel in kernels])
        writer.append("counters", [_counters(kernel, workloads[kernel.problem_id]) for kernel in kernels[:20]])
        writer.append("references", [
            filled(ReferenceTime, problem_id=problem, workload=workload, gpu=corpora.GPU, reference_us=100.0,
                   compiled_us=80.0, vendor_us=50.0, vendor="cuBLASLt", measured_at="2026-11-01T00:00:00+00:00")
            for problem, workload in workloads.items()
        ])  # fmt: skip
    return path


@pytest.fixture(scope="session")
def questions(board_corpus: Path) -> Questions:
    return build_questions(benchmark_of(Corpus.open(board_corpus)), "test")


@pytest.fixture(scope="session")
def submissions(board_corpus: Path, questions: Questions, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("submissions")
    corpus = Corpus.open(board_corpus)
    for name in SURROGATES:
        made = evaluate_on(name, corpus, Options(resamples=10), questions=questions)
        write_folder(made, folder / name)
    return {name: folder / name for name in SURROGATES}


@pytest.fixture(scope="session")
def results(submissions: dict[str, Path], questions: Questions) -> list[Results]:
    return list(score_all(list(submissions.values()), questions, SETTINGS))


@pytest.fixture(scope="session")
def faceted(
    submissions: dict[str, Path], questions: Questions, board_corpus: Path
) -> tuple[list[Results], dict[str, Any]]:
    """Results and dataset facts with a family for each problem, so that there is something to filter by."""
    asked = dataclasses.replace(
        questions,
        pairs=dataclasses.replace(questions.pairs, family=questions.pairs.problem),
        pools=dataclasses.replace(questions.pools, family=questions.pools.problem),
    )
    # Ranked as soon as there is a problem; that too few are undecided has a test of its own.
    facts = dict(dataset_facts(asked, Corpus.open(board_corpus))) | {"least_problems": 1}
    return list(score_all(list(submissions.values()), asked, SETTINGS)), facts


@pytest.fixture(scope="session")
def site(
    faceted: tuple[list[Results], dict[str, Any]],
    submissions: dict[str, Path],
    questions: Questions,
    board_corpus: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The whole site, one entry of it full of markup."""
    results, facts = faceted
    corpus = Corpus.open(board_corpus)
    answers = answers_of(questions, benchmark_of(corpus))
    score_entries(read_entries(list(submissions.values()), questions), questions, SETTINGS, look=answers.look)
    out = tmp_path_factory.mktemp("site")
    return build([*results, _hostile(results[0])], facts, out, corpus=corpus, answers=answers)


def _hostile(result: Results) -> Results:
    """The entry with markup in every text field that the schema lets through."""
    meta = dataclasses.replace(
        result.submission, name="hostile", authors=(HOSTILE_TEXT,), organisation=HOSTILE_TEXT, license=HOSTILE_TEXT,
        hardware=HOSTILE_TEXT, training_data=HOSTILE_TEXT, contamination=HOSTILE_TEXT, created_at=HOSTILE_TEXT,
        links=("https://example.org/?a=1&b=%3Cscript%3E",),
    )  # fmt: skip
    return dataclasses.replace(result, submission=meta, flags=[HOSTILE_TEXT])


@pytest.fixture(scope="session")
def hostile_text() -> str:
    """What the fields of the hostile entry hold."""
    return HOSTILE_TEXT


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with module_at(Path(__file__).with_name("browser.py")).chromium() as running:
        yield running


@pytest.fixture
def new_tab(browser: Any, site: Path) -> Iterator[Any]:
    """Makes tabs; each must end without a console message and without having asked another host for anything."""
    kind = module_at(Path(__file__).with_name("browser.py")).Tab
    made: list[Any] = []

    def make(page: Path = site, **how: Any) -> Any:
        made.append(kind(browser, page, **how))
        return made[-1]

    yield make
    for one in made:
        one.close()
        assert one.errors == []
        assert one.outside == []


@pytest.fixture
def tab(new_tab: Any) -> Any:
    """A tab on a desktop, in the light."""
    return new_tab()
