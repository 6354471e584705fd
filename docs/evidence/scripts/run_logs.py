"""Count what the shipped run logs hold: how each genome family fared, and how far each live search got.

python docs/evidence/scripts/run_logs.py            # writes genomes-h200.json and live-searches.json
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.generation.log import read_log
from kbench.generation.proposers.genome.registry import families
from kbench.generation.search.state import KernelOutcome, outcome_of
from kbench.generation.study.study import interval
from kbench.schemas import Measurement, from_dict

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "docs" / "evidence" / "runs"
OUT = ROOT / "docs" / "evidence" / "generation"
SEARCHED = ("h200-1", "h200-2")
METHODS = ("random", "hill_climb", "evolve", "puct", "puct+surrogate")
Cell = tuple[str, str]
Curves = Mapping[Cell, Mapping[str, Sequence[float]]]


def measured(folder: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], Any]]:
    """Settings of the run, the proposal and the outcome of every kernel measured in a folder, in order."""
    settings: dict[str, dict[str, Any]] = {}
    proposals: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in read_log(RUNS / folder):
        payload = dict(entry.payload)
        if entry.kind == "run_started":
            settings[entry.run_id] = payload["settings"]
        elif entry.kind == "candidate_proposed":
            proposals[entry.run_id, payload["kernel_id"]] = payload
        elif entry.kind == "kernel_measured":
            key = (entry.run_id, payload["kernel_id"])
            yield settings[entry.run_id], proposals[key], _outcome(payload["measurements"])


def _outcome(rows: Sequence[Mapping[str, Any]]) -> KernelOutcome:
    return outcome_of([from_dict(Measurement, row) for row in rows])


def genomes() -> dict[str, Any]:
    """Kernels by status: all genomes, each family, rewrites, freely written ones."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    by_family: dict[str, Counter[str]] = defaultdict(Counter)
    for folder in (*SEARCHED, "written"):
        for _, proposal, outcome in measured(folder):
            found[proposal["proposer"]][outcome.status.value] += 1
            if proposal["proposer"] == "genome":
                by_family[proposal["recipe"]["family"]][outcome.status.value] += 1
    return {
        "source": "docs/evidence/runs",
        "genomes": found["genome"].total(),
        "by_status": found["genome"],
        "families_registered": len(families()),
        "families_measured": len(by_family),
        "never_measured": sorted(set(families()) - set(by_family)),
        "families": dict(sorted(by_family.items())),
        "rewrites": found["rewrite"],
        "written": found["llm"],
    }


def curves() -> Curves:
    """Best speedup so far after each measurement of every search, by problem and backend, then by method."""
    found: dict[Cell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for folder in SEARCHED:
        for settings, _, outcome in measured(folder):
            method = settings["method"] + ("+surrogate" if settings["filter"] else "")
            curve = found[settings["problem_id"], settings["backend"]][method]
            curve.append(max(outcome.speedup or 0.0, curve[-1] if curve else 0.0))
    return found


def _more(shares: Mapping[str, Mapping[str, Sequence[float]]], name: str, base: str, after: int) -> dict[str, Any]:
    """How much more of the best one method had than another in the same cells, resampled by problem."""
    gains = [
        [mine - other for mine, other in zip(values, shares[base][problem], strict=True)]
        for problem, values in shares[name].items()
    ]
    return {
        f"more_than_{base}": statistics.fmean(itertools.chain(*gains)),
        f"more_than_{base}_interval": interval(gains, random.Random(after)),
    }


def compared(found: Curves, after: int) -> dict[str, Any]:
    """Each method's best after so many measurements, as a share of the best that any method of the cell had by then."""
    cells = {
        cell: methods for cell, methods in found.items()
        if all(len(methods.get(name, ())) >= after for name in METHODS)
    }  # fmt: skip
    shares: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in METHODS}
    firsts: Counter[str] = Counter()
    for (problem, _), methods in sorted(cells.items()):
        bests = {name: methods[name][after - 1] for name in METHODS}
        top = max(bests.values())
        for name in METHODS:
            shares[name][problem].append(bests[name] / top)
            firsts[name] += bests[name] == top
    rows: dict[str, dict[str, Any]] = {}
    for name in METHODS:
        own = list(shares[name].values())
        rows[name] = {
            "share": statistics.fmean(itertools.chain(*own)),
            "interval": interval(own, random.Random(after)),
            **_more(shares, name, "random", after),
            "cells_where_first": firsts[name],
        }
    rows["puct+surrogate"] |= _more(shares, "puct+surrogate", "puct", after)
    return {"measurements": after, "cells": len(cells), "problems": len({cell[0] for cell in cells}), "methods": rows}


def live() -> dict[str, Any]:
    """Every live search: how many cells and methods, how far, and the methods side by side."""
    found = curves()
    lengths = Counter(len(curve) for methods in found.values() for curve in methods.values())
    return {
        "source": [f"docs/evidence/runs/{folder}" for folder in SEARCHED],
        "cells": len(found),
        "problems": len({problem for problem, _ in found}),
        "searches": sum(len(methods) for methods in found.values()),
        "measurements_of_a_search": dict(sorted(lengths.items())),
        "compared": [compared(found, after) for after in (2, 4, 6, 8, 10)],
        "best": {
            f"{problem}, {backend}": {
                name: [round(curve[-1], 3), len(curve)] for name, curve in sorted(methods.items())
            }
            for (problem, backend), methods in sorted(found.items())
        },
    }


@click.command(help=__doc__)
def main() -> None:
    """Write both files."""
    for name, content in (("genomes-h200.json", genomes()), ("live-searches.json", live())):
        (OUT / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        click.echo(f"wrote {name}")


if __name__ == "__main__":
    main()
