"""Training examples of every format, made from the kernels of one split and their problems."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kbench.benchmark.questions.asked import STATED_KINDS, Tables
from kbench.benchmark.questions.build import problems_of, stated_queries
from kbench.benchmark.rewards import kernel_score
from kbench.benchmark.surrogates.llm import SYSTEM, render
from kbench.benchmark.training.records import (
    Candidate,
    Demonstration,
    ForecastPrompt,
    Message,
    Preference,
    ScoredKernel,
    SearchStep,
    WritePrompt,
)
from kbench.loaders.source.normalise import normalised
from kbench.schemas import Backend, QuestionKind, Status, UserError, bins
from kbench.schemas.ids import content_hash

if TYPE_CHECKING:
    pass


Row = Mapping[str, Any]

WRITE_SYSTEM = (
    "You write GPU kernels that are correct first and as fast as the hardware allows. You answer with exactly one "
    "Python code block: the whole kernel file. It defines run with the inputs in the order given and returns the "
    "outputs."
)
HOW = {
    Backend.TRITON: "Write it in Triton: @triton.jit functions that run() launches.",
    Backend.CUDA: "Write it in CUDA C++: a raw string compiled by kbench.harness.cuda.CudaModule, launched from run().",
}
Origin = tuple[str, tuple[str, ...]]
"""Operator and parents of a candidate."""


@dataclasses.dataclass(frozen=True)
class Material:
    """The measured kernels that an export may show: those of one split that match the filters."""

    corpus: Tables
    """A corpus as the benchmark asks it."""
    split: str
    filters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further conditions on kernels, as `kbench.load` takes them."""
    comments: bool = False
    """Whether sources keep their comments; queries never show them."""
    best: int = 4
    """Most kernels that `sft` takes for a problem, backend and GPU."""
    shots: int = 0
    """Most known kernels that a question shows."""
    subset: str | None = None
    """`core` for that part of the questions."""

    @functools.cached_property
    def problems(self) -> Mapping[str, Row]:
        """The corpus's problems, or the registry's when it brings none."""
        return problems_of(self.corpus)

    @functools.cached_property
    def kernels(self) -> Mapping[tuple[str, str], Row]:
        """Rows by kernel and GPU, in the corpus's order.

        Kernels of undescribed problems have no prompt and stay out.
        """
        table = self.corpus.table("kernels", split=self.split, **self.filters)
        rows = {
            (row["kernel_id"], row["gpu"]): row
            for row in table.to_pylist()
            if row["status"] and row["gpu"] and row["backend"] in HOW and row["problem_id"] in self.problems
        }
        if not rows:
            raise UserError(f"split {self.split!r} holds no measured kernel that matches; choose other filters")
        return rows

    def correct(self) -> Iterator[Row]:
        """The kernels with a measured speedup."""
        return (row for row in self.kernels.values() if row["speedup"] is not None)

    def source(self, row: Row) -> str:
        """A kernel's text as queries show it, or as written when comments are kept."""
        if self.comments:
            return str(row["source"])
        return row["normalised"] or normalised(row["source"])

    def answer(self, row: Row) -> tuple[Message, ...]:
        """A kernel as what a model would have answered."""
        return (Message(role="assistant", content=f"```python\n{self.source(row).strip()}\n```"),)

    def where(self, row: Row) -> dict[str, Any]:
        """The columns that say where a row belongs."""
        named = {name: row[name] for name in ("problem_id", "family", "gpu")}
        return named | {"backend": Backend(row["backend"]), "split": self.split}

    def task(self, row: Row) -> dict[str, Any]:
        """The same columns with the prompt that asks for a kernel of the row's problem, backend and GPU."""
        text = self.problems[row["problem_id"]]["prompt"].strip()
        user = f"# Problem\n{text}\n\n# Task\nWrite the fastest correct kernel you can for one {row['gpu']}. "
        user += HOW[Backend(row["backend"])]
        prompt = Message(role="system", content=WRITE_SYSTEM), Message(role="user", content=user)
        return {"prompt": prompt, **self.where(row)}


def preferences(material: Material) -> Iterator[Preference]:
    """The corpus's pairs of two kernels of the split whose intervals of runtime do not touch, each once a GPU.

    The prompt names the GPU, so another GPU's answer is another row, also where it is the reverse.
    """
    yielded: set[tuple[str, str, str]] = set()
    for pair in material.corpus.table("questions", split=material.split).to_pylist():
        if pair["workload"] is not None or pair["speedup"] is None:
            continue
        anchor = material.kernels.get((pair["anchor_id"], pair["gpu"]))
        candidate = material.kernels.get((pair["candidate_id"], pair["gpu"]))
        if anchor is None or candidate is None or anchor["backend"] != candidate["backend"]:
            continue
        chosen, rejected = (candidate, anchor) if pair["speedup"] > 1 else (anchor, candidate)
        texts = material.source(chosen), material.source(rejected)
        # Intervals of runtime: those of speedups hold two references' noise as well.
        high, low = chosen["runtime_high_us"], rejected["runtime_low_us"]
        beyond_doubt = low is not None and high is not None and high < low
        if not beyond_doubt or texts[0] == texts[1] or (*texts, pair["gpu"]) in yielded:
            continue
        yielded.add((*texts, pair["gpu"]))
        yield Preference(
            **material.task(chosen),
            chosen=material.answer(chosen),
            rejected=material.answer(rejected),
            margin=abs(math.log2(pair["speedup"])),
            question_id=pair["question_id"],
            chosen_id=chosen["kernel_id"],
            rejected_id=rejected["kernel_id"],
            chosen_speedup=chosen["speedup"],
            rejected_speedup=rejected["speedup"],
        )


def forecast_prompts(material: Material) -> Iterator[ForecastPrompt]:
    """Every question whose kernels are in the split, asked as language models are asked in an evaluation.

    They come in the order of their ids, which are hashes: the first few are a sample of all problems.
    """
    if material.comments:
        raise UserError("--comments does not fit --task forecast: a question never shows comments; leave it out")
    asked = stated_queries(material.corpus, material.split, material.shots, material.subset)
    for query, row in sorted(asked, key=lambda one: one[0].query_id):
        kernels = {kernel for kernel in (row["anchor_id"], row["candidate_id"]) if kernel is not None}
        # A private edition states no answer.
        if row["speedup"] is None or any((kernel, row["gpu"]) not in material.kernels for kernel in kernels):
            continue
        yield ForecastPrompt(
            prompt=(Message(role="system", content=SYSTEM), Message(role="user", content=render(query))),
            **material.where(material.kernels[row["candidate_id"], row["gpu"]]),
            question_id=row["question_id"],
            kind=QuestionKind(STATED_KINDS[query.kind.value]),
            bin=bins.bin_of(row["speedup"]),
            **{name: row[name] for name in ("speedup", "speedup_low", "speedup_high")},
            workload=row["workload"],
            core=row["core"],
        )


def write_prompts(material: Material) -> Iterator[WritePrompt]:
    """One prompt per problem, backend and GPU of the split, in the order of a hash: the first few are a sample."""
    cells = {key: list(rows) for key, rows in groupby(sorted(material.kernels.values(), key=_cell), key=_cell)}
    for key in sorted(cells, key=lambda one: content_hash("cell", *one)):
        kernels = cells[key]
        speedups = [row["speedup"] for row in kernels if row["speedup"] is not None]
        yield WritePrompt(**material.task(kernels[0]), best_speedup=max(speedups, default=None))


def _cell(row: Row) -> tuple[str, str, str]:
    return row["problem_id"], row["backend"], row["gpu"]


def demonstrations(material: Material) -> Iterator[Demonstration]:
    """The best kernels of each problem, backend and GPU, best first, one of each near-duplicate cluster."""
    ranks: Counter[tuple[str, str, str]] = Counter()
    clusters: set[tuple[str, ...]] = set()

    def order(row: Row) -> tuple[Any, ...]:
        return *_cell(row), row["runtime_us"] or math.inf, -row["speedup"], row["kernel_id"]

    for row in sorted(material.correct(), key=order):
        cell = _cell(row)
        if ranks[cell] == material.best or (*cell, row["cluster_id"]) in clusters:
            continue
        ranks[cell] += 1
        clusters.add((*cell, row["cluster_id"]))
        yield Demonstration(
            **material.task(row),
            completion=material.answer(row),
            kernel_id=row["kernel_id"],
            rank=ranks[cell],
            speedup=row["speedup"],
        )


def scored_kernels(material: Material) -> Iterator[ScoredKernel]:
    """Every measured kernel, failures included; a correct one whose origin states no speedup has no score."""
    for row in material.kernels.values():
        if row["status"] == Status.OK and row["speedup"] is None:
            continue
        yield ScoredKernel(
            **material.task(row),
            completion=material.answer(row),
            kernel_id=row["kernel_id"],
            score=kernel_score(row["status"], row["speedup"]),
            status=Status(row["status"]),
            speedup=row["speedup"],
            speedup_low=row["speedup_low"],
            speedup_high=row["speedup_high"],
        )


def search_steps(material: Material) -> Iterator[SearchStep]:
    """The steps of every run, in order; kernels of other splits are left out, and so are diffs from them."""
    origins = proposals(material.corpus)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in material.corpus.table("kernels", columns=["run_id", "gpu"]).to_pylist():
        counts[row["run_id"]][row["gpu"] or ""] += 1
    # The GPU that has most of a run's kernels, which are those the search measured. Of equal numbers, the whole GPU's
    # name comes before those of its partitions.
    seen = {run: min(found, key=lambda gpu: (-found[gpu], gpu)) for run, found in counts.items()}
    runs: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in material.kernels.values():
        if (row["gpu"] or "") == seen[row["run_id"]]:
            runs[row["run_id"]][row["step"]].append(row)
    for _, steps in sorted(runs.items()):
        best: float | None = None
        for number, rows in sorted(steps.items()):
            rows.sort(key=lambda row: str(row["kernel_id"]))
            speedups = [row["speedup"] for row in rows if row["speedup"] is not None]
            after = max([*speedups, *([best] if best else [])], default=None)
            yield SearchStep(
                **material.task(rows[0]),
                run_id=rows[0]["run_id"],
                search_method=rows[0]["search_method"],
                step=number,
                best_before=best,
                best_after=after,
                candidates=tuple(_candidate(material, row, origins) for row in rows),
            )
            best = after


def _candidate(material: Material, row: Row, origins: Mapping[tuple[str, str], Origin]) -> Candidate:
    parent_id = row["parent_id"]
    parent = None if parent_id is None else material.kernels.get((parent_id, row["gpu"]))
    operator, parents = origins.get((row["run_id"], row["kernel_id"]), (None, (parent_id,) if parent_id else ()))
    diff = None
    if parent is not None:
        before, after = (material.source(each).splitlines() for each in (parent, row))
        diff = "\n".join(difflib.unified_diff(before, after, "parent", "child", lineterm=""))
    facts: dict[str, Any] = {
        name: row[name] for name in ("kernel_id", "proposer", "edit", "speedup", "speedup_low", "speedup_high")
    }
    return Candidate(
        **facts,
        source=material.source(row),
        operator=operator,
        parent_ids=parents,
        diff=diff,
        status=Status(row["status"]),
        parent_speedup=None if parent is None else parent["speedup"],
    )


def proposals(corpus: Tables) -> dict[tuple[str, str], Origin]:
    """Operator and parents of every candidate, by run and kernel, as the corpus's events tell them."""
    origins: dict[tuple[str, str], Origin] = {}
    requests: dict[str, list[dict[str, Any]]] = {}
    for event in corpus.table("events", where="kind == 'step_started' or kind == 'candidate_proposed'").to_pylist():
        payload = json.loads(event["payload_json"])
        if event["kind"] == "step_started":
            requests[event["run_id"]] = payload["requests"]
            continue
        parents = tuple(payload[name] for name in ("parent_id", "other_id") if payload[name] is not None)
        operator = requests[event["run_id"]][payload["slot"]]["operator"]
        origins[event["run_id"], payload["kernel_id"]] = operator, parents
    return origins
