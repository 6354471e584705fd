"""Attempt: one kernel that a search measured, where it came from and what came of it; read from logs or a corpus."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.problems.registry import known
from kbench.generation.log import found_files, read_log
from kbench.generation.search.methods.catalogue import WRITTEN_PREFIX
from kbench.generation.search.settings import settings_from_json
from kbench.generation.search.state import outcome_from_json, outcome_of
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.searches import gpus_searched
from kbench.schemas import Measurement, UserError, from_dict

Fact = tuple[str, str, int, Mapping[str, Any]]
"""Run, kind, step and payload of one entry of a log."""
Speedup = float | None
SEVERAL = "several changes"
MODEL = "written by a model"
PLACE = re.compile(r"\s*\b(?:at )?line \d+|(?<=lines) \d+ and \d+")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One measured kernel of a search."""

    run_id: str
    problem_id: str
    family: str
    """The problem's family."""
    backend: str
    method: str
    step: int
    operator: str
    proposer: str
    edit: str | None
    """Kind of change against the parent; None for a fresh kernel."""
    niche: str
    """What kernels of one structure share."""
    speedup: Speedup
    """Over the PyTorch reference; None when it failed."""
    parent_speedup: Speedup
    """None without a correct parent in the run."""


def attempts_in(paths: Sequence[Path]) -> dict[str, list[Attempt]]:
    """The measured kernels of every search, by run, in the order measured.

    Args:
        paths: run folders, or corpora with events.

    Raises:
        UserError: a path holds neither log nor events, or nothing was measured.
        DataError: a log is damaged.
    """
    by_run: dict[str, list[Attempt]] = {}
    for path in paths:
        for attempt in _attempts(*_facts(path)):
            by_run.setdefault(attempt.run_id, []).append(attempt)
    if not by_run:
        raise UserError(f"no measured kernel in {', '.join(map(str, paths))}; name folders of searches that ran")
    return by_run


def _facts(path: Path) -> tuple[Iterator[Fact], Callable[[Mapping[str, Any]], Speedup]]:
    """The entries of a log or corpus, and how one of them tells a measured speedup."""
    if path.is_file() or found_files(path):
        entries = ((entry.run_id, entry.kind, entry.step, entry.payload) for entry in read_log(path))
        return entries, _logged_speedup
    corpus = Corpus.open(path)
    if "events" not in corpus.configs:
        raise UserError(f"{path} has neither a log nor events; name a run folder, or a corpus of searches")
    kernels = corpus.table("kernels", columns=["kernel_id", "run_id", "gpu", "speedup"])
    seen = gpus_searched(kernels)
    speedups = {
        row["kernel_id"]: row["speedup"] for row in kernels.to_pylist() if (row["gpu"] or "") == seen[row["run_id"]]
    }
    rows = corpus.table("events").to_pylist()
    facts = ((row["run_id"], row["kind"], row["step"], json.loads(row["payload_json"])) for row in rows)
    return facts, lambda payload: speedups.get(payload["kernel_id"])


def _logged_speedup(payload: Mapping[str, Any]) -> Speedup:
    return outcome_of([from_dict(Measurement, row) for row in payload["measurements"]]).speedup


def _attempts(facts: Iterable[Fact], speedup_of: Callable[[Mapping[str, Any]], Speedup]) -> Iterator[Attempt]:
    families = {problem_id: definition.family for problem_id, definition in known().items()}
    runs: dict[str, dict[str, Any]] = {}
    requests: dict[str, list[dict[str, Any]]] = {}
    proposed: dict[tuple[str, str], dict[str, Any]] = {}
    speedups: dict[tuple[str, str], Speedup] = {}
    for run_id, kind, step, payload in facts:
        if kind == "run_started":
            settings = settings_from_json(payload["settings"], "settings")
            runs[run_id] = {
                "problem_id": settings.problem_id, "backend": settings.backend.value, "method": settings.search_method,
                "family": families.get(settings.problem_id, settings.problem_id),
            }  # fmt: skip
        elif kind == "step_started":
            requests[run_id] = payload["requests"]
        elif kind == "candidate_proposed":
            operator = requests[run_id][payload["slot"]]["operator"]
            proposed[run_id, payload["kernel_id"]] = {**payload, "operator": operator}
            if "file" in (payload["recipe"] or ()):
                runs[run_id]["method"] = WRITTEN_PREFIX + runs[run_id]["method"].removeprefix(WRITTEN_PREFIX)
        elif kind in ("kernel_measured", "kernel_reused"):
            own = (run_id, payload["kernel_id"])
            reused = kind == "kernel_reused"
            speedups[own] = outcome_from_json(payload["outcome"]).speedup if reused else speedup_of(payload)
            proposal = proposed[own]
            yield Attempt(
                run_id=run_id, step=step, **runs[run_id], operator=proposal["operator"], proposer=proposal["proposer"],
                edit=edit_kind(proposal["proposer"], proposal["edit"]), niche=proposal["niche"], speedup=speedups[own],
                parent_speedup=speedups.get((run_id, proposal["parent_id"])),
            )  # fmt: skip


def edit_kind(proposer: str, edit: str | None) -> str | None:
    """What kind of change an edit is: its words without lines, numbers and values."""
    if edit is None:
        return None
    if proposer == "llm":
        return MODEL
    parts = re.split(r"[;,] (?=\w+(?::| at| \d))", edit)
    if len(parts) > 1:
        return SEVERAL
    words = PLACE.sub("", edit).strip(": ")
    renamed = re.match(r"([\w ]+): .*->", words)
    if renamed:
        return renamed[1].strip()
    return re.sub(r"\s*\([^)]*\)|\s+-?\d[\w.]*$", "", words).strip(": ")
