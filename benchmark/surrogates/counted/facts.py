"""What is counted of a question's kernels, in text that a language model can read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from kbench.benchmark.surrogates.counted.counted import Counting
from kbench.benchmark.surrogates.counted.model import CountedModel
from kbench.benchmark.surrogates.protocol import Compiler, CompilerFacts
from kbench.benchmark.surrogates.static.kernel_rows import KernelPool
from kbench.benchmark.work.explain import WorkloadFacts, explain_work
from kbench.benchmark.work.gpus import gpu_named
from kbench.benchmark.work.render import table
from kbench.benchmark.work.times import fastest
from kbench.schemas import PairKind, Query, UnknownNameError

MOST_WORKLOADS = 4
TYPICAL_ERROR = "0.26 to 0.32 octaves (log2), a factor of 1.20 to 1.25"
"""Medians of what white-box times are off, on test problems and on left-out families (docs/results/work.md)."""
INTRODUCTION = f"""# Counted facts
These figures were counted without a GPU: what compilers make of a source for this GPU was executed abstractly on the
shapes of each workload. They are estimates; nothing here was measured. Blocks, threads, registers, shared and stack
bytes, waves and occupancy are of the launch that takes longest; all other figures are of all launches together. Shared
bytes include the 1,024 that the GPU reserves where the compiler counts them. Instructions are those of warps, estimated
from PTX, and shares are shares of them. A tensor operation is one multiplication or addition; a sector has 32 bytes. L2
and DRAM bytes are read and written ones, of launches that begin with none of their data in L2; what is written and
still there at the end is not in the DRAM bytes. Not every access could be followed: where DRAM bytes lie far below the
bytes of inputs and outputs, traffic and time are counted too low. The white-box time is what this work should take at
the GPU's rates; the few constants it needs were fitted to times of kernels of training problems on an H200. In the
median it is off by {TYPICAL_ERROR} either way, so half of all times are
off by more. A ratio is the candidate's figure over the anchor's: a ratio of times below 1 speaks for the candidate.
"""
NOT_COUNTED = "not counted, which says nothing about it"


class CountedFacts:
    """Counts kernels and states what was counted; a query's text is made once."""

    def __init__(self, compiler: Compiler | None = None) -> None:
        """Take a compiler, for kernels whose work the dataset does not have."""
        self.counting = Counting(compiler, asker="llm with facts=true")
        self._fitted = CountedModel.load().fitted
        self._texts: dict[Query, str] = {}

    def remarks(self) -> list[str]:
        """How many kernels nobody could count, and what to do about it."""
        count = len(self.counting.left_out)
        return [f"{self.counting.reason}; kernels stated as not counted: {count:,}"] if count else []

    def text(self, query: Query) -> str:
        """What is counted of one query's kernels."""
        self.count([query])
        return self._texts[query]

    def count(self, queries: Sequence[Query]) -> None:
        """Count the kernels of queries, all of them at once: a compiler takes many.

        Raises:
            NoCompilerError: there is neither a compiler nor shipped work.
            MissingDependencyError: the compiler lacks a package, and there is no shipped work either.
            DataError: shipped work is damaged.
        """
        new = [query for query in dict.fromkeys(queries) if query not in self._texts]
        pool = KernelPool(new)
        kernels = self.counting.facts(pool)
        for query, candidate, anchor in zip(new, pool.candidate.tolist(), pool.anchor.tolist(), strict=True):
            against = None if query.kind is PairKind.REFERENCE else kernels[anchor]
            lines = self._lines(query, {"anchor": against, "candidate": kernels[candidate]})
            self._texts[query] = "\n".join([INTRODUCTION, *lines]).strip() + "\n\n"

    def _lines(self, query: Query, sides: Mapping[str, CompilerFacts | None]) -> Iterator[str]:
        sizes = {one["name"]: one.get("min_bytes") or 0 for one in json.loads(query.workloads_json)}
        ordered, last = sorted(sizes, key=lambda name: sizes[name]), len(sizes) - 1
        # From the smallest to the largest in equal steps.
        chosen = {ordered[round(step * last / (MOST_WORKLOADS - 1))] for step in range(MOST_WORKLOADS)}
        counted = {}
        for name, kernel in sides.items():
            workloads = self._explained(kernel, query.gpu, {name: sizes[name] for name in sizes if name in chosen})
            if workloads:
                counted[name] = workloads
            else:
                yield f"The {name} is {NOT_COUNTED}.\n"
        for both in zip(*counted.values(), strict=True):
            yield from table(dict(zip(counted, both, strict=True)))
            yield ""
        if counted and len(chosen) < len(sizes):
            yield f"Workloads left out: {', '.join(name for name in sizes if name not in chosen)}."

    def _explained(
        self, kernel: CompilerFacts | None, gpu_name: str, sizes: Mapping[str, float]
    ) -> list[WorkloadFacts]:
        """A kernel on each workload; nothing where one of them could not be counted or the GPU is not in the table."""
        try:
            gpu = gpu_named(gpu_name)
        except UnknownNameError:
            return []
        work = {} if kernel is None or kernel.work is None else kernel.work
        works = [(name, fastest(work.get(name, ()), gpu, self._fitted)) for name in sizes]
        explained = [
            explain_work(name, one, gpu, self._fitted, min_bytes=sizes[name]) for name, one in works if one is not None
        ]
        return explained if len(explained) == len(works) else []
