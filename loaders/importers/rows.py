"""Rows of our tables made from foreign facts; whatever nobody stated stays null."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import is_corpus, shipped
from kbench.loaders.importers.fields import plain
from kbench.loaders.source.strip import strip_comments
from kbench.loaders.source.structure import structure_id
from kbench.loaders.splits import cluster_id
from kbench.schemas import AuthorClass, Backend, Kernel, Measurement, QuestionKind, Status, Workload, to_dict
from kbench.schemas.bins import bin_of
from kbench.schemas.ids import content_hash, kernel_id
from kbench.schemas.record import field_types

NOT_STATED = "not stated"
NAMED = "named"
"""Set beside a kernel's fields when its text only names it, so that nothing can be asked about the text."""
_KERNEL = dict.fromkeys(field_types(Kernel))
_MEASUREMENT = dict.fromkeys(field_types(Measurement))
MOST_TOLD = 6
"""Workloads that a problem's text tells."""
KEPT_SOURCES = 32
"""Texts whose structure is remembered: entries about one text follow each other, and a text may have a megabyte."""
_TRITON = re.compile(r"^[ \t]*(?:import|from)\s+triton\b|@\s*triton\.", re.MULTILINE)
_CUDA = re.compile(r"\b__global__\b")
_NUMBER = re.compile(r"(?<![\w.\\])[1-9][0-9]*(?![\w.])")
"""Whole numbers that stand alone: one is as good as another in a structure."""

Row = dict[str, Any]


@functools.lru_cache(maxsize=KEPT_SOURCES)
def backend_of(source: str) -> Backend:
    """What a text is written in: Triton, CUDA C++, or PyTorch calls alone."""
    triton, cuda = _TRITON.search(source) is not None, _CUDA.search(source) is not None
    if triton and cuda:
        bare = strip_comments(source)
        triton, cuda = _TRITON.search(bare) is not None, _CUDA.search(bare) is not None
    return Backend.CUDA if cuda else Backend.TRITON if triton else Backend.TORCH


def configuration(values: Mapping[str, Any]) -> str:
    """A configuration as the source text of a kernel: JSON with sorted keys."""
    return json.dumps(values, sort_keys=True, ensure_ascii=True)


Source = tuple[Backend, str, Row]
"""A kernel's backend, its text, and what else its row needs to know of it."""


def written(source: str) -> Source:
    """A kernel whose text is known."""
    return backend_of(source), source, {}


def named(**names: Any) -> Source:
    """A kernel whose text nobody gives: the names that tell it from others stand for it."""
    return Backend.CONFIG, configuration(names), {"keys": tuple(names), NAMED: True}


@functools.lru_cache(maxsize=KEPT_SOURCES)
def structure_of(source: str) -> tuple[str, str]:
    """Structure and cluster of a text."""
    structure = structure_id(source)
    return structure, cluster_id(structure)


@functools.lru_cache(maxsize=256)
def _space_structure(problem_id: str, keys: tuple[str, ...]) -> tuple[str, str]:
    """All configurations of one space differ in literals alone, so they are one structure."""
    identity = content_hash("structure", "config", problem_id, *(key.encode(errors="surrogatepass") for key in keys))
    return identity, cluster_id(identity)


def kernel_row(
    problem_id: str,
    family: str,
    backend: Backend,
    source: str,
    *,
    gpu: str | None,
    origin: str,
    license: str | None,
    split: str,
    keys: tuple[str, ...] = (),
    **figures: Any,
) -> Row:
    """A row of the kernels table; a configuration has the names of its parameters as `keys`."""
    # Kernels of a search often differ in numbers alone, and so in neither structure nor cluster.
    structure, cluster = _space_structure(problem_id, keys) if keys else structure_of(_NUMBER.sub("1", source))
    return _KERNEL | {
        "kernel_id": kernel_id(problem_id, backend, source),
        "problem_id": problem_id,
        "family": family,
        "backend": backend.value,
        "gpu": gpu,
        "search_method": NOT_STATED,
        "proposer": NOT_STATED,
        "run_id": NOT_STATED,
        "step": 0,
        "structure_id": structure,
        "cluster_id": cluster,
        "split": split,
        "source": source,
        "origin": origin,
        "license": license,
        **figures,
    }


def measurement_row(kernel: Row, workload: str, place: str, **figures: Any) -> Row:
    """A row of the measurements table: the kernel's verdict and figures on one workload.

    File and row that it was read from, its `place`, tell equal measurements apart.
    """
    names = ("kernel_id", "problem_id", "gpu", "status", "error", "runtime_us", "speedup")
    copied = {name: kernel[name] for name in names}
    at = place.encode(errors="surrogatepass")
    identity = content_hash("measurement", kernel["kernel_id"], str(kernel["gpu"]), workload, kernel["origin"], at)
    return _MEASUREMENT | copied | {"measurement_id": identity, "workload": workload, **figures}


def question_row(
    question_id: str, kind: QuestionKind, anchor: Row | None, candidate: Row, speedup: float, **more: Any
) -> Row:
    """A row of the questions table; without an anchor the candidate is compared with its problem's reference."""
    copied = {name: candidate[name] for name in ("problem_id", "family", "backend", "gpu", "split")}
    return copied | {
        "question_id": question_id, "kind": kind.value, "author": AuthorClass.OUTSIDE.value, "workload": None,
        "core": False, "anchor_id": None if anchor is None else anchor["kernel_id"],
        "candidate_id": candidate["kernel_id"], "pool": None, "known_ids": (), "speedup": speedup,
        "speedup_low": None, "speedup_high": None, "bin": bin_of(speedup), **more,
    }  # fmt: skip


def failure(status: Status, message: str | None) -> Row:
    """The fields of a kernel that failed."""
    text = plain(message or "").strip() or f"{status.value}; the origin states no more"
    return {"status": status.value, "error": text[:4000]}


NO_WORKLOAD = to_dict(Workload(name="tiny", params_json="{}", inputs=(), outputs=(), seed=0, flops=0, min_bytes=0))


def problem_row(problem_id: str, family: str, title: str, *, reference: str = "", aliases: tuple[str, ...] = ()) -> Row:
    """A row of the problems table for a problem of another suite: what it is called, and its reference where known."""
    title = " ".join(plain(title).split())
    description = f"Problem {title}." + ("" if reference else " Its reference is not part of the imported files.")
    prompt = f"{description}\n\nReference:\n\n{reference}" if reference else description
    return {
        "problem_id": problem_id, "title": title, "family": family, "description": description,
        "aliases": list(aliases), "dtypes": [], "compute_unit": NOT_STATED, "atol": 0.0, "rtol": 0.0,
        "mismatch_share": 0.0, "tolerance_reason": "the origin's own check, which is not known here",
        "reference_source": reference, "prompt": prompt, "workloads": [], "tiny": NO_WORKLOAD,
    }  # fmt: skip


def with_workloads(row: Row, workloads: Sequence[Row]) -> Row:
    """A problem's row with its workloads, some of which its text tells, spread over their sizes."""
    sized = sorted(workloads, key=lambda one: (one["min_bytes"], one["name"]))
    few = sized[:: -(-len(sized) // MOST_TOLD)] if sized else []
    lines = [f"- {one['params_json']}: {', '.join(one['inputs']) or 'inputs not stated'}" for one in few]
    prompt = f"{row['prompt']}\n\nWorkloads, with their inputs ({len(few)} of {len(sized)}):\n\n" + "\n".join(lines)
    return {**row, "workloads": list(workloads), "prompt": prompt if few else row["prompt"]}


@functools.cache
def _shipped_problems() -> Mapping[str, Mapping[str, Any]]:
    """Rows of the shipped problems, by id and by alias as ids are spelled."""
    if not is_corpus(shipped()):
        return {}
    rows = Corpus.open(shipped()).table("problems").to_pylist()
    by_alias = {re.sub(r"[^a-z0-9]+", "_", alias.lower()): row for row in rows for alias in row["aliases"]}
    return by_alias | {row["problem_id"]: row for row in rows}


def problem(problem_id: str, family: str, title: str, stated: object = "") -> Row:
    """The row of a problem: ours where its name is an alias and no reference comes with it, else what is told of it.

    `stated` is the text of its reference; what is no text is none.
    """
    reference = plain(stated) if isinstance(stated, str) else ""
    ours = _shipped_problems().get(problem_id)
    if ours is None or reference:
        aliases = () if ours is None else (ours["problem_id"],)
        return problem_row(problem_id, family, title, reference=reference, aliases=aliases)
    return {**ours, "problem_id": problem_id, "family": family, "aliases": [*ours["aliases"], ours["problem_id"]]}
