"""What is counted of a question's kernels, in text that a language model can read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence

from kbench.benchmark.surrogates.counted.counted import Counting
from kbench.benchmark.surrogates.counted.model import CountedModel
from kbench.benchmark.surrogates.protocol import Compiler, CompilerFacts
from kbench.benchmark.surrogates.static.kernel_rows import KernelPool
from kbench.benchmark.work.explain import WorkloadFacts, explain_work
from kbench.benchmark.work.gpus import gpu_named
from kbench.benchmark.work.render import caution, table
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
from PTX. A tensor operation is one multiplication or addition; a sector has 32 bytes. L2 and DRAM bytes are read and
written ones, of launches that begin with none of their data in L2. The white-box time is what this work should take at
the GPU's rates; the few constants it needs were fitted on kernels of training problems. In the median it is off by
{TYPICAL_ERROR} either way, so half of all times are off by more. A ratio is
the candidate's figure over the anchor's: a ratio of times below 1 speaks for the candidate.
"""
NOT_COUNTED = "not counted, which says nothing about it"


class CountedFacts:
    """Counts kernels and states what was counted; a query's text is made once."""

    def __init__(self, compiler: Compiler | None = None) -> None:
        """Take a compiler, for kernels whose work the dataset does not have."""
        self._fitted = CountedModel.load().fitted
        self._counting = Counting(compiler, asker="llm with facts=true")
        self._texts: dict[Query, str] = {}
        self.fit_corpus = self._counting.fit_corpus

    @property
    def answers_depend_on(self) -> tuple[str, ...]:
        """What else decides the texts."""
        return self._counting.answers_depend_on

    def remarks(self) -> list[str]:
        """How many kernels nobody could count, and what to do about it."""
        count = len(self._counting.left_out)
        return [f"{self._counting.reason}; until then {count:,} kernels are stated as not counted"] if count else []

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
        counted = self._counting.facts(pool)
        for query, candidate, anchor in zip(new, pool.candidate.tolist(), pool.anchor.tolist(), strict=True):
            sides = {
                "anchor": None if query.kind is PairKind.REFERENCE else counted[anchor],
                "candidate": counted[candidate],
            }
            self._texts[query] = "\n".join([INTRODUCTION, *self._lines(query, sides)]).strip() + "\n\n"

    def _lines(self, query: Query, sides: Mapping[str, CompilerFacts | None]) -> Iterator[str]:
        workloads = json.loads(query.workloads_json)
        chosen = most_different({one["name"]: (one.get("min_bytes") or 0, one.get("flops") or 0) for one in workloads})
        facts = {name: self._explained(side, query.gpu, chosen) for name, side in sides.items()}
        yield from (f"The {name} is {NOT_COUNTED}.\n" for name, each in facts.items() if not each)
        if not any(facts.values()):
            return
        for workload in chosen:
            yield from table({name: each[workload] for name, each in facts.items() if each})
            yield ""
        left_out = [one["name"] for one in workloads if one["name"] not in chosen]
        if left_out:
            yield f"Workloads left out: {', '.join(left_out)}.\n"
        warning = caution(gpu_named(query.gpu).name)
        if warning is not None:
            yield f"Constants of the time: {warning}.\n"

    def _explained(
        self, kernel: CompilerFacts | None, gpu_name: str, workloads: Sequence[str]
    ) -> dict[str, WorkloadFacts]:
        """A kernel on each workload; nothing where one of them could not be counted or the GPU is not in the table."""
        if kernel is None or kernel.work is None:
            return {}
        try:
            gpu = gpu_named(gpu_name)
        except UnknownNameError:
            return {}
        explained = {}
        for workload in workloads:
            work = fastest(kernel.work.get(workload, ()), gpu, self._fitted)
            if work is None:
                return {}
            explained[workload] = explain_work(workload, work, gpu, self._fitted)
        return explained


def most_different(sizes: Mapping[str, tuple[float, float]]) -> list[str]:
    """At most four workloads: the one with the most bytes, and then whichever is least like those chosen.

    Args:
        sizes: bytes and operations by name.
    """
    octaves = {name: [math.log2(1 + figure) for figure in size] for name, size in sizes.items()}
    chosen = sorted(sizes, key=lambda name: sizes[name])[-1:]
    while len(chosen) < min(MOST_WORKLOADS, len(sizes)):
        rest = [name for name in sizes if name not in chosen]
        chosen.append(max(rest, key=lambda name: min(math.dist(octaves[name], octaves[one]) for one in chosen)))
    return [name for name in sizes if name in chosen]
