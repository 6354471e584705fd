"""The queries a filter asks: is this candidate faster than the reference? They carry no comment, label or runtime."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kbench.benchmark.problems.registry import problem
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.questions.render import render_query
from kbench.benchmark.surrogates.llm import LlmSurrogate
from kbench.benchmark.surrogates.protocol import Compiler, Surrogate
from kbench.benchmark.surrogates.resolve import resolve
from kbench.benchmark.surrogates.stack import CombinedSurrogate
from kbench.generation.search.guidance.filter import Guess, expected_log2, in_order
from kbench.generation.search.guidance.guide import OnlineGuide
from kbench.generation.search.settings import RunSettings
from kbench.generation.search.state import Node
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import AuthorClass, PairKind, Query, Question, QuestionKind, UserError, bins, to_dict
from kbench.schemas.ids import content_hash

ONLINE, MODEL = "online", "llm"
MODEL_VARIABLE = "KBENCH_LLM_FORECAST_MODEL"
BATCH_VARIABLE = "KBENCH_LLM_FORECAST_BATCH"
"""Whoever forecasts is asked apart from whoever proposes: they share no request and no file."""


@functools.cache
def _problem_row(problem_id: str) -> tuple[Mapping[str, Any], str]:
    """The problem as queries quote it, and its workloads as JSON."""
    row = to_dict(problem(problem_id).record())
    return row, json.dumps(row["workloads"])


def query_id(node: Node, gpu: str, parent: Node | None = None) -> str:
    """The name of the question about a candidate, against its parent where one is given."""
    return content_hash("filter", gpu, node.kernel_id, *([parent.kernel_id] if parent else []))


def guesses(
    guide: Guide, settings: RunSettings, known: Sequence[Node], nodes: Sequence[Node], gpu: str, gpu_facts_json: str,
    parents: Mapping[str, Node | None],
) -> list[Guess]:  # fmt: skip
    """What a guide expects of candidates, in their order, once it has learned from the measured ones where it can."""

    def ask(some: Sequence[Node]) -> list[Query]:
        return [query_for(settings, node, gpu, gpu_facts_json) for node in some]

    names = [query_id(node, gpu) for node in nodes]
    against_parent = settings.filter is not None and settings.filter.against_parent
    if isinstance(guide, OnlineGuide):
        if against_parent:
            raise UserError(f"surrogate {ONLINE!r} knows no pairs of kernels; leave out against_parent")
        return guide.guess(known, nodes, names, ask)
    if not against_parent:
        if fit := getattr(guide, "fit", None):
            fit([(query, _answered(settings, n, gpu)) for n in known if n.reward for query in ask([n])])
        return [Guess(forecast) for forecast in in_order(names, guide.forecast(ask(nodes)))]
    above = [parent if parent and parent.reward else None for parent in (parents.get(n.kernel_id) for n in nodes)]
    pairs = list(zip(nodes, above, strict=True))
    queries = [query_for(settings, node, gpu, gpu_facts_json, parent) for node, parent in pairs]
    expected = []
    for parent, forecast in zip(above, in_order([q.query_id for q in queries], guide.forecast(queries)), strict=True):
        # The parent's own speed puts children of different parents on one scale.
        rise, start = expected_log2(forecast), math.log2(parent.reward) if parent and parent.reward else 0.0
        expected.append(Guess(forecast, None if rise is None else start + rise))
    return expected


def query_for(settings: RunSettings, node: Node, gpu: str, gpu_facts_json: str, parent: Node | None = None) -> Query:
    """The question about one candidate against its parent, or else against the PyTorch reference."""
    row, workloads = _problem_row(settings.problem_id)
    kind = PairKind.PARENT_EDIT if parent else PairKind.REFERENCE
    return render_query(
        query_id=query_id(node, gpu, parent), problem=row, backend=settings.backend, kind=kind,
        candidate_source=node.source, anchor_source=parent.source if parent else None, gpu=gpu,
        gpu_facts_json=gpu_facts_json, workloads_json=workloads,
    )  # fmt: skip


def _answered(settings: RunSettings, node: Node, gpu: str) -> Question:
    """The question about a measured candidate, with its answer."""
    assert node.reward is not None
    return Question(
        question_id=query_id(node, gpu), kind=QuestionKind.LEVEL, author=AuthorClass.OUTSIDE,
        problem_id=settings.problem_id, family=problem(settings.problem_id).family, backend=settings.backend, gpu=gpu,
        workload=None, split="train", core=False, anchor_id=None, candidate_id=node.kernel_id, pool=None, known_ids=(),
        speedup=node.reward, speedup_low=node.reward, speedup_high=node.reward, bin=bins.bin_of(node.reward),
    )  # fmt: skip


Guide = Surrogate | OnlineGuide
"""What a search asks about its candidates."""


def guide_named(name: str, compiler: Compiler | None = None) -> Guide:
    """A guide by name: `online`, `online:NAME` with a prior, or whatever `kbench evaluate --surrogate` accepts.

    Raises:
        UnknownNameError: no such surrogate.
    """
    if name == ONLINE:
        return OnlineGuide()
    if name == MODEL:
        model = os.environ.get(MODEL_VARIABLE)
        if not model:
            raise UserError(f"surrogate 'llm' needs a model in a search; set {MODEL_VARIABLE}, and {BATCH_VARIABLE}")
        return LlmSurrogate(model=model, batch_folder=os.environ.get(BATCH_VARIABLE))
    if name.startswith(f"{ONLINE}:"):
        return OnlineGuide(_surrogate(name.removeprefix(f"{ONLINE}:"), compiler))  # type: ignore[arg-type]
    return _surrogate(name, compiler)  # type: ignore[arg-type]  # functions are hashable


@functools.cache
def _surrogate(name: str, compiler: Compiler | None) -> Surrogate:
    """Made once for all searches: a model is large. Those that learn do so anew each time they are asked."""
    surrogate = resolve(name, compiler=compiler)
    if isinstance(surrogate, CombinedSurrogate):
        # A search has no validation problems to learn from: the shipped dataset's serve.
        click.echo(f"{name} learns from the shipped dataset first, which takes several minutes", err=True)
        surrogate.fit_corpus(benchmark_of(Corpus.open()))
    return surrogate
