"""Does the source reader of `static` read what kernels really launch? It is checked against launch plans.

PYTHONPATH=src python docs/evidence/scripts/launch_reader.py      # prints tables, writes launch-reader.json.xz
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import lzma
import math
import platform
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench import Corpus, __version__
from kbench.benchmark.problems.inputs import ITEM_BYTES
from kbench.benchmark.surrogates.static.features.launch import run_of
from kbench.benchmark.surrogates.static.reader.launches import traces
from kbench.benchmark.surrogates.static.reader.values import Trace
from kbench.benchmark.tasks.render import stripped, workload_facts

EVIDENCE = Path(__file__).parents[1]
PLANS = sorted((EVIDENCE / "harness").glob("planned*.jsonl.xz"))
SM_COUNT = 132
"""Of the H200 the plans are for."""
ELEMENT_BYTES = 4
"""What an element of scratch is taken to have: the reader counts elements, and does not look at dtypes."""
TENSOR = re.compile(r"\w+: (\w+)\[([\d,]*)\]")
COLUMNS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "answered": (("answered",), "plans"),
    "number of launches": (("number",), "plans"),
    "blocks": (("blocks", "blocks_within_two"), "launches"),
    "threads per block": (("threads", "threads_within_two"), "launches"),
    "dynamic shared memory": (("shared", "shared_within_two"), "launches"),
    "whether filled": (("fills",), "plans"),
    "whether scratch": (("any_scratch",), "plans"),
    "scratch bytes": (("scratch", "scratch_within_two"), "with_scratch"),
}
"""Heading, tallies, and what they are shares of."""

Tally = Counter[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Launches:
    """What one workload launches: (blocks, threads, dynamic shared bytes) in order, scratch, and whether it fills."""

    launches: tuple[tuple[float | None, float | None, float], ...]
    scratch_bytes: float
    fills: bool


def outputs_of(workload: Mapping[str, Any]) -> tuple[int, int]:
    """Elements and bytes of a workload's outputs."""
    elements = nbytes = 0
    for text in workload["outputs"]:
        found = TENSOR.fullmatch(text)
        if found is None:
            raise click.ClickException(f"output {text!r} is no tensor; its bytes cannot be told from scratch")
        size = math.prod(int(each) for each in found[2].split(",") if each)
        elements, nbytes = elements + size, nbytes + size * ITEM_BYTES[found[1]]
    return elements, nbytes


def planned(plan: Mapping[str, Any], workload: Mapping[str, Any]) -> Launches:
    """What a plan launches."""
    launches = tuple((math.prod(e["grid"]), math.prod(e["block"]), e["shared_bytes"]) for e in plan["launches"])
    return Launches(launches, plan["allocated_bytes"] - outputs_of(workload)[1], plan["fills"] > 0)


def read(trace: Trace, workload: Mapping[str, Any]) -> Launches:
    """What the reader says is launched."""
    launches = tuple((e.blocks, e.threads, e.shared_bytes) for e in trace.launches)
    scratch = (trace.allocated - outputs_of(workload)[0]) * ELEMENT_BYTES
    return Launches(launches, scratch, trace.cleared > 0)


def within_two(value: float | None, truth: float) -> bool:
    """Whether a value is right within a factor of two."""
    return value is not None and (value == truth or (value > 0 and 0.5 <= truth / value <= 2.0))


def check(found: Launches | None, truth: Launches) -> Tally:
    """How much is read right. Launches are compared in order, and none is right where their number is wrong."""
    tally = Counter(plans=1, launches=len(truth.launches), several=int(len(truth.launches) > 1))
    tally["with_scratch"] = int(truth.scratch_bytes > 0)
    if found is None:
        return tally
    tally["answered"] = 1
    tally["any_scratch"] = (found.scratch_bytes > 0) == (truth.scratch_bytes > 0)
    tally["fills"] = found.fills == truth.fills
    if truth.scratch_bytes > 0:
        tally["scratch"] = found.scratch_bytes == truth.scratch_bytes
        tally["scratch_within_two"] = within_two(found.scratch_bytes, truth.scratch_bytes)
    tally["number"] = len(found.launches) == len(truth.launches)
    if tally["number"]:
        for mine, real in zip(found.launches, truth.launches, strict=True):
            for name, value, right in zip(("blocks", "threads", "shared"), mine, real, strict=True):
                tally[name] += value == right
                tally[f"{name}_within_two"] += within_two(value, right)
    return tally


def most_common(truths: Sequence[Launches]) -> Launches:
    """The best guess without reading a kernel: the most common answers of some plans, launch by launch."""
    number = Counter(len(each.launches) for each in truths).most_common(1)[0][0]
    launches = []
    for at in range(number):
        columns = zip(*(each.launches[at] for each in truths if len(each.launches) > at), strict=True)
        blocks, threads, shared = (Counter(column).most_common(1)[0][0] for column in columns)
        launches.append((blocks, threads, shared or 0.0))
    scratch = Counter(each.scratch_bytes for each in truths).most_common(1)[0][0]
    fills = Counter(each.fills for each in truths).most_common(1)[0][0]
    return Launches(tuple(launches), scratch, fills)


def percent(part: int, whole: int) -> str:
    """A share, rounded down, so that 100 means all."""
    return f"{math.floor(1000 * part / whole) / 10:g}" if whole else "–"


def table(rows: Mapping[str, Tally]) -> str:
    """Markdown: a row per group, shares in percent; two figures are exactly, and within a factor of two."""
    head = ["kernels", "plans", "launches", "with scratch", *COLUMNS]
    lines = [f"| {' | '.join(['', *head])} |", "|---" * (len(head) + 1) + "|"]
    for name, tally in rows.items():
        counts = [f"{tally[key]:,}" for key in ("kernels", "plans", "launches", "with_scratch")]
        shares = [" / ".join(percent(tally[key], tally[whole]) for key in keys) for keys, whole in COLUMNS.values()]
        lines.append(f"| {' | '.join([name, *counts, *shares])} |")
    return "\n".join(lines)


def origin(kernel: Mapping[str, Any]) -> str:
    """Who wrote a kernel. What a language model wrote inside searches came after the reader; the rest was at hand."""
    return f"{kernel['proposer']} in searches" if kernel["model"] else kernel["proposer"]


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """One plan beside what was read of its kernel."""

    kernel: Mapping[str, Any]
    workload: str
    found: Launches | None
    truth: Launches

    def groups(self) -> tuple[str, ...]:
        """The rows of the table it counts in."""
        if self.workload == "tiny":
            return ("all, tiny workload",)
        backend = self.kernel["backend"]
        return (f"{backend}, {origin(self.kernel)}", f"{backend}, all", "all")

    def differs(self) -> bool:
        """Whether anything but the shared memory of Triton, which no source states, is read wrong."""
        if self.found is None:
            return True
        kept = 3 if self.kernel["backend"] == "cuda" else 2
        mine, real = ([each[:kept] for each in facts.launches] for facts in (self.found, self.truth))
        other = (self.found.scratch_bytes, self.found.fills) != (self.truth.scratch_bytes, self.truth.fills)
        return mine != real or other

    def to_json(self) -> dict[str, Any]:
        """For the list of disagreements."""
        named = {name: self.kernel[name] for name in ("kernel_id", "problem_id", "backend", "proposer")}
        if self.found is None:
            return named | {"workload": self.workload, "read": None}
        pair = {"read": dataclasses.asdict(self.found), "planned": dataclasses.asdict(self.truth)}
        return named | {"workload": self.workload} | pair


def read_kernel(source: str, problem: Mapping[str, Any]) -> list[Trace]:
    """What `static` reads of a kernel whose query states these workloads; nothing where it cannot tell."""
    return traces(*run_of(stripped(source)), workload_facts(problem), SM_COUNT)


def checked(line: Mapping[str, Any], kernel: Mapping[str, Any], problem: Mapping[str, Any]) -> Iterator[Checked]:
    """Each plan of a kernel; the tiny workload, which no query states, is read on its own."""
    for part in (problem["workloads"], [problem["tiny"]]):
        found = read_kernel(kernel["source"], {"workloads": part})
        for at, workload in enumerate(part):
            # `static` takes a `run` without launches for one that it cannot read.
            mine = read(found[at], workload) if found and found[at].launches else None
            yield Checked(kernel, workload["name"], mine, planned(line["plans"][workload["name"]], workload))


def tallies(every: Sequence[Checked]) -> dict[str, Tally]:
    """A tally per row of the table; the last is of guesses by problem, workload and backend."""
    rows: dict[str, Tally] = defaultdict(Counter)
    kernels: dict[str, set[str]] = defaultdict(set)
    alike: dict[tuple[str, str, str], list[Checked]] = defaultdict(list)
    for each in every:
        for group in each.groups():
            rows[group] += check(each.found, each.truth)
            kernels[group].add(each.kernel["kernel_id"])
        if each.workload != "tiny":
            alike[each.kernel["problem_id"], each.workload, each.kernel["backend"]].append(each)
    found = {group: rows[group] | Counter(kernels=len(kernels[group])) for group in sorted(rows, key=order)}
    guessed: Tally = Counter(kernels=len(kernels["all"]))
    for same in alike.values():
        guess = most_common([each.truth for each in same])
        guessed += sum((check(guess, each.truth) for each in same), Counter())
    return found | {"all, most common answer": guessed}


def order(group: str) -> tuple[bool, bool, str]:
    """Groups by backend and proposer first, then what they sum to."""
    return group.startswith("all"), group.endswith(", all"), group


def coverage(kernels: Sequence[Mapping[str, Any]], problems: Mapping[str, Any]) -> dict[str, dict[str, Tally]]:
    """How often a correct kernel, planned or not, shows by itself that it is not read whole: by group and problem."""
    rows: dict[str, Tally] = defaultdict(Counter)
    of_problem: dict[str, Tally] = defaultdict(Counter)
    for kernel in kernels:
        problem = problems[kernel["problem_id"]]
        found = read_kernel(kernel["source"], problem)
        sizes = zip(found, problem["workloads"], strict=False)
        tally = Counter(
            kernels=1,
            nothing_read=not found,
            no_launch=any(not trace.launches for trace in found),
            grid_unknown=any(each.blocks is None for trace in found for each in trace.launches),
            threads_unknown=any(each.threads is None for trace in found for each in trace.launches),
            # A kernel allocates its outputs itself, so it cannot have allocated less.
            less_than_outputs=any(trace.allocated < outputs_of(workload)[0] for trace, workload in sizes),
        )
        rows[f"{kernel['backend']}, {origin(kernel)}"] += tally
        if tally.total() > 1:
            of_problem[kernel["problem_id"]] += tally
    return {"rows": dict(sorted(rows.items())), "of_problem": dict(sorted(of_problem.items()))}


def plans_in(path: Path) -> list[dict[str, Any]]:
    """Records of kernels that have plans."""
    lines = [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]
    return [line for line in lines if line["plans"]]


@click.command()
def main() -> None:
    """Check, print, write."""
    corpus = Corpus.open()
    columns = ["kernel_id", "problem_id", "backend", "proposer", "model", "source"]
    kernels = corpus.table("kernels", columns=columns, where="status == 'ok'", gpu=corpus.gpus()[:1]).to_pylist()
    by_id = {row["kernel_id"]: row for row in kernels}
    problems = {row["problem_id"]: row for row in corpus.select("problems").to_arrow().to_pylist()}
    every = [
        each
        for path in PLANS
        for line in plans_in(path)
        if line["kernel_id"] in by_id  # Others were found incorrect.
        for each in checked(line, by_id[line["kernel_id"]], problems[line["problem_id"]])
    ]
    rows, covered = tallies(every), coverage(kernels, problems)
    document = {
        "environment": {
            "dataset": corpus.fingerprint, "kbench": __version__, "python": platform.python_version(),
            "machine": platform.machine(),
            "plans_sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in PLANS},
        },
        "problems": sorted({each.kernel["problem_id"] for each in every}),
        "rows": rows,
        "coverage": covered,
        "disagreements": [each.to_json() for each in every if each.differs()],
    }  # fmt: skip
    with lzma.open(EVIDENCE / "launch-reader.json.xz", "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as file:
        file.write(json.dumps(document) + "\n")
    click.echo(table(rows))
    for part in covered.values():
        for name, tally in part.items():
            click.echo(f"{name:20} {dict(+tally)}")


if __name__ == "__main__":
    main()
