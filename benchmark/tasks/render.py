"""Queries: rendered from a corpus's tables, with comments and docstrings out and no label in."""

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


class Renderer:
    """Turns kernels of one corpus into queries."""

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
        self._problems, self._sources, self._environments = problems, sources, environments
        self._facts: dict[str, str] = {}
        self._workloads: dict[str, str] = {}

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
        """One query.

        Raises:
            DataError: the corpus lacks the problem or one of the kernels.
        """
        problem = self._problem(problem_id) if anchor_id is None else self._problem_or_stub(problem_id)
        anchor = problem["reference_source"] if anchor_id is None else self._source(anchor_id)
        return Query(
            query_id=query_id,
            problem_id=problem_id,
            family=problem["family"],
            problem_text=problem["prompt"],
            workloads_json=self._workload_facts(problem_id),
            backend=Backend(backend),
            kind=PairKind(kind),
            anchor_source=stripped(anchor),
            candidate_source=stripped(self._source(candidate_id)),
            gpu=gpu,
            gpu_facts_json=self._gpu_facts(gpu),
        )

    def _problem(self, problem_id: str) -> Mapping[str, Any]:
        try:
            return self._problems[problem_id]
        except KeyError:
            raise DataError(f"pairs.problem_id {problem_id!r} is not in the corpus's problems; add its row") from None

    def _problem_or_stub(self, problem_id: str) -> Mapping[str, Any]:
        """The problem; of an imported one that nobody describes, only its name. Two kernels can be compared without."""
        stub = {"family": problem_id, "prompt": f"Problem {problem_id}; its reference is not known.", "workloads": []}
        return self._problems.get(problem_id, stub)

    def _source(self, kernel_id: str) -> str:
        try:
            return self._sources[kernel_id]
        except KeyError:
            raise DataError(
                f"kernel {kernel_id!r} is asked about but not in the corpus's kernels; add its row"
            ) from None

    def _workload_facts(self, problem_id: str) -> str:
        if problem_id not in self._workloads:
            rows = self._problem_or_stub(problem_id)["workloads"]
            self._workloads[problem_id] = json.dumps([{name: row[name] for name in WORKLOAD_FACTS} for row in rows])
        return self._workloads[problem_id]

    def _gpu_facts(self, gpu: str) -> str:
        if gpu not in self._facts:
            self._facts[gpu] = gpu_facts(gpu, self._environments)
        return self._facts[gpu]
