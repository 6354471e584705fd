"""`trajectories`: one row per search step, with parents, diffs and outcomes."""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.training.material import Material, Row
from kbench.benchmark.training.rows import Candidate, SearchStep
from kbench.loaders.summary.searches import gpus_searched
from kbench.schemas import Status

Origin = tuple[str, tuple[str, ...]]
"""Operator and parents of a candidate."""


def search_steps(material: Material) -> Iterator[SearchStep]:
    """The steps of every run, in order; kernels of other splits are left out, and so are diffs from them."""
    origins = proposals(material.corpus)
    seen = gpus_searched(material.corpus.table("kernels", columns=["run_id", "gpu"]))
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
    facts: dict[str, Any] = {
        name: row[name] for name in ("kernel_id", "proposer", "edit", "speedup", "speedup_low", "speedup_high")
    }
    return Candidate(
        **facts,
        source=material.source(row),
        operator=operator,
        parent_ids=parents,
        diff=None if parent is None else unified_diff(material.source(parent), material.source(row)),
        status=Status(row["status"]),
        parent_speedup=None if parent is None else parent["speedup"],
    )


def proposals(corpus: Tables) -> dict[tuple[str, str], Origin]:
    """Operator and parents of every candidate, by run and kernel, as the corpus's events tell them."""
    found: dict[tuple[str, str], Origin] = {}
    requests: dict[str, list[dict[str, Any]]] = {}
    for event in corpus.table("events", where="kind == 'step_started' or kind == 'candidate_proposed'").to_pylist():
        payload = json.loads(event["payload_json"])
        if event["kind"] == "step_started":
            requests[event["run_id"]] = payload["requests"]
            continue
        parents = tuple(payload[name] for name in ("parent_id", "other_id") if payload[name] is not None)
        operator = requests[event["run_id"]][payload["slot"]]["operator"]
        found[event["run_id"], payload["kernel_id"]] = operator, parents
    return found


def unified_diff(before: str, after: str) -> str:
    """The change between two texts, three lines of context around each."""
    return "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), "parent", "child", lineterm=""))
