"""How long a surrogate takes in each step of a search: searches of the live study run again, told what was recorded.

    python docs/evidence/scripts/search/surrogate_time.py --out docs/evidence/search/surrogate-time.json

The surrogate forecasts as it did live; of kernels that it chooses and the study did not measure, the search is told the
figures of one that was. Trees are walked one after another and at once, in turn, each time in a fresh process that
remembers no text.
"""

from __future__ import annotations

import json
import multiprocessing
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import click
from live_kernels import Row, told

from kbench.benchmark.surrogates.static import forest
from kbench.generation.campaign.spec import read_spec, runs_of
from kbench.generation.executors.compiler import compiler_facts
from kbench.generation.executors.executor import Result
from kbench.generation.proposers.mixed import proposer
from kbench.generation.search import action
from kbench.generation.search.guidance.question import guide_named
from kbench.generation.search.search import Search
from kbench.generation.search.settings import RunSettings
from kbench.loaders.corpus.corpus import load

CAMPAIGN = Path("docs/evidence/runs/live-2/campaign.json")
METHOD, STEPS, AT = "evolve+surrogate", 12, "2026-01-01T00:00:00.000Z"


class Timed(Search):
    """A search that notes how long its surrogate takes."""

    def __init__(self, settings: RunSettings) -> None:
        assert settings.filter is not None
        guide = guide_named(settings.filter.surrogate, compiler=compiler_facts)
        super().__init__(settings, proposer(settings.proposer), lambda: AT, surrogate=guide, gpu="NVIDIA H200")
        self.taken: list[float] = []

    def _filter(self, todo: action.Filter) -> None:
        began = time.perf_counter()
        super()._filter(todo)
        self.taken.append(time.perf_counter() - began)


def seconds(settings: RunSettings, known: Mapping[str, Row], few: int) -> list[float]:
    """The surrogate's time in each step but the first, which loads its model."""
    forest.FEW = few
    search = Timed(settings)
    while not search.done and len(search.taken) < STEPS:
        for kernel in search.advance():
            row = known.get(kernel.kernel_id) or {**next(iter(known.values())), "kernel_id": kernel.kernel_id}
            search.receive(Result(kernel.kernel_id, told(row)))
    return [round(taken, 4) for taken in search.taken[1:]]


@click.command()
@click.option("--searches", default=16)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(searches: int, out: Path) -> None:
    """Write the times and print their medians."""
    runs = [one for one in runs_of(read_spec(CAMPAIGN))[0] if one.search_method == METHOD]
    by_run: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    for row in load(config="live", search_method=METHOD, study="live-2").to_arrow().to_pylist():
        by_run[row["run_id"]][row["kernel_id"]] = row
    chosen: Sequence[RunSettings] = runs[:: max(1, len(runs) // searches)]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for settings in chosen:
            known = by_run[settings.run_id]
            both = {"tree_by_tree": 0, "at_once": forest.FEW}
            found = {name: pool.submit(seconds, settings, known, few).result() for name, few in both.items()}
            rows.append({"run": settings.run_id} | found)
    medians = {n: statistics.median(v for row in rows for v in row[n]) for n in ("tree_by_tree", "at_once")}
    made = {"machine": platform.machine(), "python": platform.python_version(), "medians_s": medians, "searches": rows}
    out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    click.echo(json.dumps(medians))


if __name__ == "__main__":
    main()
