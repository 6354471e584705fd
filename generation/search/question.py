"""The queries a filter asks: is this candidate faster than the reference? They carry no comment, label or runtime."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.benchmark.problems.registry import problem
from kbench.benchmark.surrogates.combined.surrogate import CombinedSurrogate
from kbench.benchmark.surrogates.compiler import Compiler
from kbench.benchmark.surrogates.online import OnlineSurrogate
from kbench.benchmark.surrogates.protocol import Surrogate
from kbench.benchmark.surrogates.resolve import resolve
from kbench.benchmark.tasks.render import render_query
from kbench.benchmark.tasks.versions import benchmark_of
from kbench.generation.search.settings import RunSettings
from kbench.generation.search.state import Node
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Forecast, Pair, PairKind, Query, bins, to_dict
from kbench.schemas.ids import content_hash


@functools.cache
def _problem_row(problem_id: str) -> tuple[Mapping[str, Any], str]:
    """The problem as queries quote it, and its workloads as JSON."""
    row = to_dict(problem(problem_id).record())
    return row, json.dumps(row["workloads"])


def query_id(node: Node, gpu: str) -> str:
    """The name of the question about a candidate."""
    return content_hash("filter", gpu, node.kernel_id)


def ask(
    surrogate: Surrogate, settings: RunSettings, nodes: Sequence[Node], gpu: str, gpu_facts_json: str
) -> Sequence[Forecast]:
    """Forecasts for candidates, in any order."""
    if isinstance(surrogate, OnlineSurrogate):
        return surrogate.forecast_sources([(query_id(node, gpu), node.source) for node in nodes])
    return surrogate.forecast([query_for(settings, node, gpu, gpu_facts_json) for node in nodes])


def query_for(settings: RunSettings, node: Node, gpu: str, gpu_facts_json: str) -> Query:
    """The question about one candidate against the PyTorch reference."""
    row, workloads = _problem_row(settings.problem_id)
    return render_query(
        query_id=query_id(node, gpu), problem=row, backend=settings.backend, kind=PairKind.REFERENCE,
        candidate_source=node.source, gpu=gpu, gpu_facts_json=gpu_facts_json, workloads_json=workloads,
    )  # fmt: skip


def teach(surrogate: Surrogate, settings: RunSettings, nodes: Sequence[Node], gpu: str, gpu_facts_json: str) -> None:
    """Let the surrogate learn from measured candidates, where it can.

    The online surrogate hears of failures too; any other with `fit` gets answered reference queries.
    """
    if isinstance(surrogate, OnlineSurrogate):
        surrogate.learn([(node.source, node.reward) for node in nodes if node.outcome is not None])
        return
    fit = getattr(surrogate, "fit", None)
    if fit is not None:
        fit([(query_for(settings, n, gpu, gpu_facts_json), _pair(settings, n, gpu)) for n in nodes if n.reward])


def _pair(settings: RunSettings, node: Node, gpu: str) -> Pair:
    assert node.reward is not None
    return Pair(
        pair_id=content_hash("filter pair", gpu, node.kernel_id), problem_id=settings.problem_id,
        family=problem(settings.problem_id).family, backend=settings.backend, gpu=gpu, anchor_id=None,
        candidate_id=node.kernel_id, kind=PairKind.REFERENCE, speedup=node.reward, speedup_low=node.reward,
        speedup_high=node.reward, bin=bins.bin_of(node.reward), split="train", origin="kbench",
    )  # fmt: skip


def surrogate_named(name: str, compiler: Compiler | None = None) -> Surrogate:
    """A surrogate by name: `online`, or whatever `kbench evaluate --surrogate` accepts.

    Combined surrogates learn from the shipped dataset.

    Args:
        name: of the surrogate.
        compiler: asked by surrogates that look at compiler output.

    Raises:
        UnknownNameError: no such surrogate.
    """
    if name == "online":
        return OnlineSurrogate()
    found = resolve(name, compiler=compiler)
    if isinstance(found, CombinedSurrogate):
        # A search has no validation problems to learn from.
        found.fit_corpus(benchmark_of(Corpus.open()))
    return found
