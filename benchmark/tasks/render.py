"""Queries: the one place where kernels and problems become what a surrogate is shown.

Comments and docstrings are stripped, and no label, runtime or kernel id gets in.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from kbench.benchmark.tasks.gpus import gpu_facts
from kbench.loaders.source.strip import strip_comments
from kbench.schemas import Backend, DataError, PairKind, Query
from kbench.schemas.ids import content_hash

MAY_HOLD_COMMENTS = re.compile(
    r"""[#\r\ufeff]|\"{3}|'{3}|CudaModule|RawKernel|asm|load_inline|Program|(?:^|[;:])\s*[rRbBuUfF]{0,2}["']""",
    re.MULTILINE,
)
"""Without any of these a source is Python with neither comment, docstring nor C++; it is then not parsed, which is
what takes the time. Every Python comment has a #, and a docstring is a string that begins a statement."""
WORKLOAD_FACTS = ("name", "params_json", "inputs", "outputs", "flops", "min_bytes")


def reference_query_id(candidate_id: str, gpu: str) -> str:
    """Identity of the question 'how much faster than the PyTorch reference?' about a kernel on a GPU."""
    return content_hash("query", candidate_id, gpu, PairKind.REFERENCE.value)


@functools.lru_cache(maxsize=65536)
def stripped(source: str) -> str:
    """The source without comments and docstrings, remembered because pairs share kernels."""
    if MAY_HOLD_COMMENTS.search(source) is None:
        return source
    return strip_comments(source)


def workload_facts(problem: Mapping[str, Any]) -> str:
    """What a query says about a problem's workloads, as JSON."""
    return json.dumps([{name: row[name] for name in WORKLOAD_FACTS} for row in problem["workloads"]])


def render_query(
    *,
    query_id: str,
    problem: Mapping[str, Any],
    backend: str,
    kind: str,
    candidate_source: str,
    gpu: str,
    gpu_facts_json: str,
    anchor_source: str | None = None,
    workloads_json: str | None = None,
) -> Query:
    """One query.

    Args:
        query_id: its identity.
        problem: a row of the problems table.
        backend: of the candidate.
        kind: what the anchor is to the candidate.
        candidate_source: as written; comments are stripped here.
        gpu: the device both are compared on.
        gpu_facts_json: what is publicly known about it.
        anchor_source: of the other kernel; the problem's reference when not given.
        workloads_json: `workload_facts(problem)`, for callers that render many queries of one problem.
    """
    return Query(
        query_id=query_id,
        problem_id=problem["problem_id"],
        family=problem["family"],
        problem_text=problem["prompt"],
        workloads_json=workload_facts(problem) if workloads_json is None else workloads_json,
        backend=Backend(backend),
        kind=PairKind(kind),
        anchor_source=stripped(problem["reference_source"] if anchor_source is None else anchor_source),
        candidate_source=stripped(candidate_source),
        gpu=gpu,
        gpu_facts_json=gpu_facts_json,
    )


class Renderer:
    """Renders the queries about one corpus's kernels."""

    def __init__(
        self,
        problems: Mapping[str, Mapping[str, Any]],
        sources: Mapping[str, str],
        environments: list[Mapping[str, Any]],
    ) -> None:
        """Keep what queries quote.

        Args:
            problems: rows of the problems table by id.
            sources: kernel sources by kernel id.
            environments: rows of the environments table.
        """
        self._problems, self._sources = problems, sources
        self._gpu_facts = functools.cache(lambda gpu: gpu_facts(gpu, environments))
        self._workload_facts = functools.cache(lambda problem_id: workload_facts(self._problem(problem_id, True)))

    def query(
        self,
        query_id: str,
        problem_id: str,
        backend: str,
        kind: str,
        anchor_id: str | None,
        candidate_id: str,
        gpu: str,
    ) -> Query:
        """The query about one kernel against another, or against the reference when there is no anchor.

        Raises:
            DataError: the corpus lacks the problem or one of the kernels.
        """
        return render_query(
            query_id=query_id,
            problem=self._problem(problem_id, may_be_unknown=anchor_id is not None),
            backend=backend,
            kind=kind,
            candidate_source=self._source(candidate_id),
            gpu=gpu,
            gpu_facts_json=self._gpu_facts(gpu),
            anchor_source=None if anchor_id is None else self._source(anchor_id),
            workloads_json=self._workload_facts(problem_id),
        )

    def _problem(self, problem_id: str, may_be_unknown: bool) -> Mapping[str, Any]:
        """The problem's row; a stub for an imported problem without one, whose kernels can still be compared."""
        if problem_id in self._problems:
            return self._problems[problem_id]
        if not may_be_unknown:
            raise DataError(f"pairs.problem_id {problem_id!r} is not in the corpus's problems; add its row")
        text = f"Problem {problem_id}; its reference is not known."
        return {"problem_id": problem_id, "family": problem_id, "prompt": text, "workloads": []}

    def _source(self, kernel_id: str) -> str:
        try:
            return self._sources[kernel_id]
        except KeyError:
            raise DataError(
                f"kernel {kernel_id!r} is asked about but not in the corpus's kernels; add its row"
            ) from None
