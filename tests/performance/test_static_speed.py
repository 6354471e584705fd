"""Forecasts per second of `static` on one core, sources read for the first time. Run with -m performance."""

import time

import click
import pytest
from threadpoolctl import threadpool_limits

from kbench.benchmark.questions import build_questions
from kbench.benchmark.surrogates.static.kernel_rows import launch_row
from kbench.benchmark.surrogates.static.reader import parsed
from kbench.benchmark.surrogates.static.source import fixed_row, settings_of
from kbench.benchmark.surrogates.static.static import StaticSurrogate
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Query

pytestmark = pytest.mark.performance


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
