"""`static-compiler`: the time a GPU needs for the work that compilers' output shows, and how far off that usually is.

It sees who wrote a kernel in no way but what the kernel does. Work that the dataset ships is not counted again; other
kernels are compiled. Where a kernel cannot be compiled or counted, or the GPU is not in the table, it answers with the
frequencies of the bins, or a broad forecast for a problem that is not ours, and a confidence of zero.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.problems.registry import known
from kbench.benchmark.questions.build import TRAIN_SPLITS
from kbench.benchmark.surrogates.baselines import floor_us
from kbench.benchmark.surrogates.broad import BROAD, widened
from kbench.benchmark.surrogates.counted.model import (
    COLUMNS,
    KERNELS,
    REFERENCE,
    UNCERTAIN,
    CountedModel,
    bytes_of,
    kernel_row,
)
from kbench.benchmark.surrogates.counted.shipped import ShippedWork
from kbench.benchmark.surrogates.known import at_known_level
from kbench.benchmark.surrogates.protocol import Compiler, CompilerFacts
from kbench.benchmark.surrogates.static.kernel_rows import KernelPool, capability, problem_of
from kbench.benchmark.work.gpus import gpu_named
from kbench.schemas import (
    Backend,
    Forecast,
    KernelSource,
    MissingDependencyError,
    PairKind,
    Query,
    UnknownNameError,
    UserError,
    require_package,
)

FUSED = """

if "Model" in globals():
    class ModelNew(Model):
        forward = torch.compile(Model.forward)
elif "run" in globals():
    run = torch.compile(run)
"""
"""Has a reference of KernelBench or SOL-ExecBench compiled."""
UNSURE = np.zeros(len(COLUMNS))
UNSURE[UNCERTAIN] = 1.0
"""Stands for a kernel that cannot be counted."""
ELSEWHERE = np.array([0.75])
"""Share of an answer about a problem that is not ours that is believed; chosen on half of the problems of the set
sol-execbench-rocm."""
COMPILES, FAILS = 0.95, 0.05
"""Chances of being right: most kernels that compile are, and one that does not is not."""
COMPILERS = ("torch", "triton")
"""Packages without which the harness compiles nothing."""

NO_COMPILER = "{} has no compiler; run it with the kbench command, or pass compiler= to evaluate()"
LEFT_OUT = (
    "until then static-compiler answers with frequencies where a question needs one of {} kernels without counted work"
)


class NoCompilerError(UserError):
    """Nobody passed a compiler."""


class CountedSurrogate:
    """Answers from counted work; compiling what the dataset has no work of takes about a second per kernel, once."""

    inputs = "source+compiler"
    batch_size = 256
    """Queries asked at once: compiling a batch takes a while, and finished batches are kept."""

    def __init__(self, *, compiler: Compiler | None = None) -> None:
        """Take a compiler, for kernels whose work the dataset does not have."""
        self._model = CountedModel.load()
        self._counting = Counting(compiler)

    def fit_corpus(self, corpus: Any) -> None:
        """Take the work that the corpus ships; refuse here, not query by query, what cannot be answered at all.

        Raises:
            NoCompilerError: the corpus has no counted work and there is no compiler.
            UserError: the GPU that is held out is the one whose kernels were counted.
            MissingDependencyError: the corpus has no counted work and torch is not installed.
        """
        gpus = getattr(corpus, "training_gpus", None)
        learnt = self._model.facts["gpu"]
        if gpus is not None and learnt not in gpus:
            raise UserError(f"static-compiler learnt from {learnt}, which is held out; ask static, which learns anew")
        self._counting.fit_corpus(corpus)

    def learned_from(self, splits: tuple[str, ...]) -> tuple[str, ...]:
        """The shipped model was fitted on the train split alone (fit.py)."""
        return TRAIN_SPLITS[:1]

    @property
    def answers_depend_on(self) -> tuple[str, ...]:
        """What else decides the answers: those given without a compiler are not kept for a run that has one."""
        return self._counting.answers_depend_on

    def remarks(self) -> list[str]:
        """What readers of the scores must know: how many kernels nobody could count, and what to do about it."""
        count = len(self._counting.left_out)
        return [f"{self._counting.reason}; {LEFT_OUT.format(f'{count:,}')}"] if count else []

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Distribution, point speedup and chance of being valid; known kernels say how far off the level is."""
        return at_known_level(self._forecast, queries)

    def _forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        pool = KernelPool(queries)
        facts = self._counting.facts(pool)
        rows = [self._row(query, fact) for query, fact in zip(pool.queries, facts, strict=True)]
        times = [self._time(row) for row in rows]
        references = self._counted_references(queries)
        unknown = [query for query, at in zip(queries, pool.candidate.tolist(), strict=True)
                   if query.kind is PairKind.REFERENCE and times[at] is None
                   and query.problem_id not in known()]  # fmt: skip
        fused = self._counted_references(unknown, FUSED)
        answers = []
        for query, one, other in zip(queries, pool.candidate.tolist(), pool.anchor.tolist(), strict=True):
            kind = REFERENCE if query.kind is PairKind.REFERENCE else KERNELS
            ours = query.problem_id in known()
            # That a kernel of another suite cannot be counted says nothing about it.
            failed = facts[one] is None and ours
            # Nor does it if nobody could compile it: the dataset counts correct kernels alone, which must not be told.
            p_valid = FAILS if failed and not self._counting.unasked(pool, one) else COMPILES
            against = references[query.query_id] if kind == REFERENCE else times[other]
            # A kernel that cannot be counted is taken to do what a compiler makes of the reference.
            own = times[one] if times[one] is not None else fused.get(query.query_id)
            row_pair = [rows[one], *([rows[other]] if kind == KERNELS else [])]
            counted = [row for row in row_pair if row is not None] or [UNSURE]
            if own is None or against is None:
                # Our frequencies say nothing about other people's kernels.
                prior = self._model.spreads[kind].prior if ours else tuple(BROAD[query.kind].tolist())
                answers.append(Forecast(query_id=query.query_id, probabilities=prior, p_valid=p_valid, confidence=0.0))
                continue
            point, shares = self._model.answer(kind, against - own, *counted)
            if not ours:
                shares = tuple(widened(np.array([shares]), [query.kind], ELSEWHERE)[0].tolist())
            answers.append(Forecast(query_id=query.query_id, probabilities=shares, speedup=2.0**point, p_valid=p_valid))
        return answers

    def _row(self, query: Query, facts: CompilerFacts | None) -> Floats | None:
        if facts is None or facts.work is None:
            return None
        workloads = {one["name"] for one in json.loads(query.workloads_json)}
        work = {name: configurations for name, configurations in facts.work.items() if name in workloads}
        try:
            return kernel_row(work or facts.work, gpu_named(query.gpu), self._model.fitted, bytes_of(query))
        except UnknownNameError:
            return None

    def _time(self, row: Floats | None) -> float | None:
        """log2 microseconds of a kernel; None where its work is not known."""
        return None if row is None else float(self._model.times(row[None])[0])

    def _counted_references(self, queries: Sequence[Query], more: str = "") -> dict[str, float | None]:
        """log2 microseconds that PyTorch takes: learnt for problems of ours, counted for others.

        Args:
            queries: those of other kinds are passed over.
            more: text that is added to references that are counted.
        """
        about_reference = [query for query in queries if query.kind is PairKind.REFERENCE]
        times: dict[str, float | None] = {
            one.query_id: self._reference(one) for one in about_reference if one.problem_id in known()
        }
        pool = KernelPool([dataclasses.replace(one, kind=PairKind.SIBLING, candidate_source=one.anchor_source + more)
                           for one in about_reference if one.query_id not in times])  # fmt: skip
        facts = self._counting.facts(pool)
        rows = [self._row(query, fact) for query, fact in zip(pool.queries, facts, strict=True)]
        rest = [one.query_id for one in about_reference if one.query_id not in times]
        return times | {name: self._time(rows[at]) for name, at in zip(rest, pool.candidate.tolist(), strict=True)}

    def _reference(self, query: Query) -> float:
        """log2 microseconds that PyTorch takes."""
        least = math.log2(floor_us(query.workloads_json, query.gpu_facts_json))
        return least + float(self._model.level.predict(problem_of(query)[None].astype(np.float64))[0])


class Counting:
    """Where the facts of kernels come from: work that the dataset ships, and a compiler for the rest."""

    def __init__(self, compiler: Compiler | None = None, asker: str = "static-compiler") -> None:
        self._compiler, self._asker = compiler, asker
        self.shipped = ShippedWork()
        self.left_out: set[tuple[str, str]] = set()
        """Kernels that no compiler could be asked about: compute capability and id."""
        self.reason = NO_COMPILER.format(asker)
        """Why not, and what to do about it."""

    def fit_corpus(self, corpus: Any) -> None:
        """Take the work that the corpus ships; refuse here, not query by query, what cannot be counted at all.

        Raises:
            NoCompilerError: the corpus has no counted work and there is no compiler.
            MissingDependencyError: the corpus has no counted work and torch is not installed.
        """
        self.shipped = ShippedWork.of(getattr(corpus, "whole", corpus))
        if not self.shipped:
            self.needed_compiler()
            require_package("torch", "gpu", self._asker)

    def needed_compiler(self) -> Compiler:
        """The compiler.

        Raises:
            NoCompilerError: there is none.
        """
        if self._compiler is None:
            raise NoCompilerError(NO_COMPILER.format(self._asker))
        return self._compiler

    @property
    def can_compile(self) -> bool:
        """Whether there is a compiler, and what the harness's needs."""
        return self._compiler is not None and all(importlib.util.find_spec(name) is not None for name in COMPILERS)

    @property
    def answers_depend_on(self) -> tuple[str, ...]:
        """What else decides answers: those given without a compiler are not kept for a run that has one."""
        return () if self.can_compile else ("without a compiler",)

    def unasked(self, pool: KernelPool, at: int) -> bool:
        """Whether nobody could be asked about a kernel of a pool."""
        query = pool.queries[at]
        return (capability(query), _kernel(pool.sources[at], query).kernel_id) in self.left_out

    def facts(self, pool: KernelPool) -> list[CompilerFacts | None]:
        """What is known of each kernel of a pool, for the GPU each is asked about.

        Raises:
            NoCompilerError: there is no compiler, and no shipped work either.
            MissingDependencyError: the compiler lacks a package, and there is no shipped work either.
            DataError: shipped work is damaged.
        """
        facts_of: list[CompilerFacts | None] = [None] * len(pool.sources)
        by_capability: dict[str, list[int]] = {}
        for at, query in enumerate(pool.queries):
            if query.problem_id not in known() and not any(one["inputs"] for one in json.loads(query.workloads_json)):
                # Without shapes there is nothing to count.
                continue
            facts_of[at] = self.shipped.facts(_kernel(pool.sources[at], query), capability(query))
            if facts_of[at] is None:
                by_capability.setdefault(capability(query), []).append(at)
        for target, places in by_capability.items():
            kernels = [_kernel(pool.sources[at], pool.queries[at]) for at in places]
            for at, facts in zip(places, self._compiled(kernels, target), strict=True):
                facts_of[at] = facts
        return facts_of

    def _compiled(self, kernels: Sequence[KernelSource], target: str) -> Sequence[CompilerFacts | None]:
        try:
            return self.needed_compiler()(kernels, target)
        except (NoCompilerError, MissingDependencyError) as error:
            if not self.shipped:
                raise
            self.reason = str(error)
            self.left_out |= {(target, kernel.kernel_id) for kernel in kernels}
            return [None] * len(kernels)


def _kernel(source: str, query: Query) -> KernelSource:
    # The query names the candidate's backend; this may be its anchor.
    backend = Backend.CUDA if "CudaModule" in source else Backend.TRITON
    workloads = None if query.problem_id in known() else query.workloads_json
    return KernelSource(query.problem_id, backend, source, workloads)
