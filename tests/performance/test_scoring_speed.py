"""Speed and memory of a whole score with intervals and slices, and of `static` on one core. Run with -m performance."""

import dataclasses
import resource
import time
import types
from collections.abc import Callable

import click
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.questions import build_questions
from kbench.benchmark.questions.questions import PairLabels, PoolLabels, Questions, Strings
from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.surrogates.static.kernel_rows import launch_row
from kbench.benchmark.surrogates.static.reader import parsed
from kbench.benchmark.surrogates.static.source import fixed_row, settings_of
from kbench.benchmark.surrogates.static.static import StaticSurrogate
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Query, bins

pytestmark = pytest.mark.performance

ROWS = 1_000_000


def drawn(rows: int) -> tuple[Floats, Ints]:
    generator = np.random.default_rng(0)
    return generator.dirichlet(np.ones(8), rows), generator.integers(1, 9, rows)


def seconds(call: Callable[[], object]) -> float:
    # Of the processor, not of the wall: a busy machine must not decide.
    started = time.process_time()
    call()
    return time.process_time() - started


def questions_of(rows: int, problems: int = 118) -> tuple[Questions, ForecastTable]:
    """Invented questions and forecasts: the sizes are what counts here."""
    generator = np.random.default_rng(1)
    probabilities, _ = drawn(rows)
    speedup = np.exp(generator.normal(size=rows))
    names = np.array([f"problem_{i}" for i in range(problems)], dtype=object)
    problem: Strings = names[generator.integers(0, problems, rows)]
    same = np.full(rows, "x", dtype=object)
    pairs = PairLabels(
        query=np.arange(rows), bin=bins.bins_of(speedup), speedup=speedup, speedup_low=speedup / 1.01,
        speedup_high=speedup * 1.01, runtime_us=speedup * 100, problem=problem, family=problem, backend=same,
        kind=np.full(rows, "sibling", dtype=object), split=np.full(rows, "test", dtype=object), origin=same,
        relation=same, candidate=problem, author=same, core=np.zeros(rows, dtype=bool),
    )  # fmt: skip
    none = np.zeros(0)
    empty = {f.name: none for f in dataclasses.fields(PoolLabels)}
    masks = {name: none.astype(bool) for name in ("valid", "core")}
    pools = PoolLabels(**empty | masks | {"query": none.astype(np.int64)})  # type: ignore[arg-type]
    asked = (types.SimpleNamespace(gpu="NVIDIA H200"),) * rows
    questions = Questions(
        dataset="0" * 32, split="test", queries=asked, tracks=("forecast", "select"), pairs=pairs, pools=pools,
        pair_queries=np.arange(rows),
        prior=np.full(8, 1 / 8), kind_priors={"sibling": np.full(8, 1 / 8)}, trained=True, measure_seconds=0.1,
    )  # type: ignore[arg-type] # fmt: skip
    nothing = np.full((1, rows), np.nan)
    table = ForecastTable(
        probabilities=probabilities[None], failed=np.zeros((1, rows), dtype=bool), speedup=nothing, p_valid=nothing,
        confidence=probabilities.max(axis=1)[None], tokens=nothing, elapsed_s=nothing, reasons={},
    )  # fmt: skip
    return questions, table


def test_a_million_forecasts_with_two_thousand_resamples_take_under_twenty_seconds_and_four_gib() -> None:
    small, large = questions_of(ROWS // 4), questions_of(ROWS)
    quarter = seconds(lambda: score(*small, BootstrapSettings(resamples=2000)))
    whole = seconds(lambda: score(*large, BootstrapSettings(resamples=2000)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    click.echo(f"1,000,000 forecasts × 2,000 resamples, slices included: {whole:.1f} s, peak {peak:.2f} GiB")
    click.echo(f"a quarter of the rows: {quarter:.1f} s")
    assert whole < 20
    assert peak < 4
    # Linear in rows: four times the rows take no more than about four times the time.
    assert whole < 5.5 * quarter + 2


def forget() -> None:
    for cached in (settings_of, fixed_row, launch_row, parsed):
        cached.cache_clear()


def forecasts_per_second(queries: tuple[Query, ...]) -> float:
    surrogate = StaticSurrogate()
    # The model is read once, whatever is asked.
    surrogate.forecast(queries[:1])
    found = []
    with threadpool_limits(limits=1):
        for _ in range(3):
            forget()
            started = time.process_time()
            surrogate.forecast(queries)
            found.append(len(queries) / (time.process_time() - started))
    return max(found)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_static_answers_a_thousand_queries_a_second_of_one_core(split: str) -> None:
    queries = build_questions(Corpus.open(None), split).queries
    speed = forecasts_per_second(queries)
    sources = len({q.candidate_source for q in queries} | {q.anchor_source for q in queries if q.kind != "reference"})
    click.echo(f"static: {speed:,.0f} forecasts a CPU second ({len(queries):,} queries, {sources:,} sources, {split})")
    assert speed >= 1000
