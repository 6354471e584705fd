"""What the site shows of a corpus: problems with their kernels, a table of all kernels, and an index of words."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from kbench.benchmark.questions.asked import known_problems
from kbench.leaderboard.site.shards import shard, shortened
from kbench.loaders.storage.atomic import parquet_bytes
from kbench.loaders.summary.best import counters_text, reference_speedups, whole_share, with_rooflines
from kbench.schemas import Status

if TYPE_CHECKING:
    from kbench.loaders.corpus.corpus import Corpus

Row = dict[str, Any]
Key = tuple[str, str]
"""A kernel's id and the GPU it was measured on."""

TEXTS = ("backend", "gpu", "search_method", "proposer", "model", "status")
"""Columns of the kernel table that visitors filter by."""
FIGURES = (
    "speedup_best",
    "speedup",
    "runtime_us",
    "roofline",
    "registers",
    "spill_bytes",
    "shared_bytes",
    "compile_ms",
    "step",
)
"""Columns of the kernel table that are numbers."""
DETAILS = (
    "kernel_id", *TEXTS, "run_id", "step", "parent_id", "edit", "split", "error", "runtime_us", "runtime_low_us",
    "runtime_high_us", "speedup", "speedup_low", "speedup_high", "speedup_best", "roofline", "compile_ms", "registers",
    "shared_bytes", "spill_bytes", "origin", "license",
)  # fmt: skip
"""What a problem's shard holds of each kernel."""
WORKLOAD = (
    "workload", "status", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high",
    "roofline_us", "max_abs_error", "trust", "launches", "counted",
)  # fmt: skip
"""What it holds of each measurement; launches and hardware counters where the corpus has them."""
NEWS = ["kernel_id", "problem_id", "backend", "gpu", "runtime_us", "speedup", "speedup_best"]
REFERENCE = ("workload", "gpu", "reference_us", "compiled_us", "vendor_us", "vendor")
PROBLEM = (
    "problem_id", "title", "family", "description", "aliases", "dtypes", "compute_unit", "atol", "rtol",
    "tolerance_reason", "reference_source",
)  # fmt: skip
SHORT_ID = 12
"""Digits of a kernel's id in links; the whole id is on its page."""
RECORDS = 6
"""Problems that the front page names, those whose best kernel is the latest."""
WORD = re.compile(r"[a-z_][a-z0-9_]+")


def corpus_files(corpus: Corpus) -> Iterator[tuple[str, bytes]]:
    """Every file of the site that a corpus alone decides."""
    rows = _table(corpus, "kernels")
    # Alike kernels stand together: both the shards and the index of words are then half as large.
    rows.sort(key=lambda r: (r["problem_id"], r["backend"], r["structure_id"] or "", r["source"], r["gpu"]))
    problems = {row["problem_id"]: row for row in _table(corpus, "problems")} or known_problems()
    references: dict[str, list[Row]] = defaultdict(list)
    for row in _table(corpus, "references"):
        references[row["problem_id"]].append({name: _short(row[name]) for name in REFERENCE})
    measured = _measured(corpus)
    for row in rows:
        row["roofline"] = whole_share(measured[row["kernel_id"], row["gpu"]])
    by_problem: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_problem[row["problem_id"]].append(row)
    # By problem and GPU, speedups of PyTorch's compiler and of the vendor's library over eager PyTorch.
    baselines: dict[str, dict[str, Row]] = {problem_id: {} for problem_id in by_problem}
    for problem_id, kernels in by_problem.items():
        for gpu in sorted({row["gpu"] for row in kernels if row["gpu"]}):
            if speedups := reference_speedups(corpus, problem_id, gpu):
                baselines[problem_id][gpu] = {name: shortened(value, 5) for name, value in speedups.items()}
    for problem_id, kernels in by_problem.items():
        timed = references.get(problem_id) or _anchors(kernels, measured)
        about = _problem(problems.get(problem_id, {}), kernels[0])
        value = {"problem": about, "references": timed, "baselines": baselines[problem_id]}
        value |= _kernels(kernels, measured)
        yield f"data/problem/{problem_id}.js", shard(f"problem/{problem_id}", value)
    gpu = next(iter(corpus.gpus()), None)
    listed = [_summary(problems.get(problem_id, {}), kernels, gpu) for problem_id, kernels in by_problem.items()]
    yield "data/problems.js", shard("problems", listed)
    titles = {problem_id: about.get("title") or problem_id for problem_id, about in problems.items()}
    yield "data/kernels.js", shard("kernels", _columns(rows) | {"baselines": baselines, "titles": titles})
    yield "data/words.js", shard("words", _words([row["source"] for row in rows]))
    # For those who want to go on with their own tools.
    yield "data/kernels.parquet", parquet_bytes(corpus.table("kernels").drop_columns(["source"]))


def latest_records(corpus: Corpus) -> list[Row]:
    """The best kernels that were measured last: one for each of a few problems, on the corpus's main GPU."""
    gpu = next(iter(corpus.gpus()), None)
    titles = {row["problem_id"]: row["title"] for row in _table(corpus, "problems", ["problem_id", "title"])}
    measured: dict[str, str] = {}
    for row in _table(corpus, "measurements", ["kernel_id", "gpu", "started_at"]):
        if row["gpu"] == gpu and row.get("started_at"):
            measured[row["kernel_id"]] = max(row["started_at"], measured.get(row["kernel_id"], ""))
    best: dict[str, Row] = {}
    for row in _table(corpus, "kernels", NEWS):
        if row["gpu"] == gpu and row["kernel_id"] in measured and row["speedup"]:
            best[row["problem_id"]] = min(best.get(row["problem_id"], row), row, key=_speed)
    latest = sorted(best.values(), key=lambda row: measured[row["kernel_id"]], reverse=True)[:RECORDS]
    return [
        {
            "problem_id": row["problem_id"],
            "title": titles.get(row["problem_id"]) or row["problem_id"],
            "kernel_id": row["kernel_id"][:SHORT_ID],
            "backend": row["backend"],
            "speedup": shortened(row["speedup"]),
            "speedup_best": _short(row.get("speedup_best")),
            "date": measured[row["kernel_id"]][:10],
        }
        for row in latest
    ]


def _speed(row: Row) -> tuple[float, float]:
    """Orders kernels of a problem on one GPU, the fastest first; by speedup where an origin states no times."""
    return row["runtime_us"] or math.inf, -row["speedup"]


def _table(corpus: Corpus, name: str, columns: list[str] | None = None) -> list[Row]:
    if name not in corpus.configs:
        return []
    table = corpus.table(name)
    rows: list[Row] = (table.select([c for c in columns if c in table.column_names]) if columns else table).to_pylist()
    return rows


def _measured(corpus: Corpus) -> Mapping[Key, list[Row]]:
    measured: dict[Key, list[Row]] = defaultdict(list)
    plans = {(row["kernel_id"], row["gpu"], row["workload"]): row["launches"] for row in _table(corpus, "plans")}
    counters = {(row["kernel_id"], row["gpu"], row["workload"]): row for row in _table(corpus, "counters")}
    columns = ["kernel_id", "problem_id", "gpu", "env_id", "floor_us", *WORKLOAD]
    for row in with_rooflines(corpus, _table(corpus, "measurements", columns)):
        key = row["kernel_id"], row["gpu"], row["workload"]
        launches = [_launch(one) for one in plans.get(key, [])]
        text = counters_text(counters[key]) if key in counters else None
        measured[row["kernel_id"], row["gpu"]].append(row | {"launches": launches, "counted": text})
    return measured


def _launch(launch: Row) -> str:
    grid, block = ("×".join(map(str, launch[name])) for name in ("grid", "block"))
    shared = f", {launch['shared_bytes']:,} B shared" if launch["shared_bytes"] else ""
    return f"{launch['function']}: {grid} blocks of {block} threads{shared}"


def _anchors(kernels: Sequence[Row], measured: Mapping[Key, list[Row]]) -> list[Row]:
    """The reference's median time on each workload and GPU, as the kernels' own measurements had it."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in kernels:
        for one in measured.get((row["kernel_id"], row["gpu"]), []):
            if one["runtime_us"] and one["speedup"]:
                times[one["workload"], row["gpu"]].append(one["runtime_us"] * one["speedup"])
    return [{"workload": workload, "gpu": gpu, "reference_us": shortened(median(values))}
            for (workload, gpu), values in sorted(times.items())]  # fmt: skip


def _problem(record: Row, kernel: Row) -> Row:
    about = {name: record.get(name) for name in PROBLEM}
    if not record:
        about |= {"problem_id": kernel["problem_id"], "title": kernel["problem_id"], "family": kernel["family"]}
    about["workloads"] = [
        {
            **{n: w[n] for n in ("name", "inputs", "outputs", "flops", "min_bytes")},
            "params": json.loads(w["params_json"]),
        }
        for w in record.get("workloads", [])
    ]
    return about


def _kernels(rows: Sequence[Row], measured: Mapping[Key, list[Row]]) -> Row:
    """A problem's kernels; a source that several rows share is kept once."""
    sources: dict[str, int] = {}
    kept = [
        [_short(row.get(name)) for name in DETAILS] + [sources.setdefault(row["source"], len(sources))] for row in rows
    ]
    per_workload = [
        [[_short(one.get(name)) for name in WORKLOAD] for one in measured.get((row["kernel_id"], row["gpu"]), [])]
        for row in rows
    ]
    return {
        "columns": [*DETAILS, "source"], "kernels": kept, "sources": list(sources), "workload_columns": WORKLOAD,
        "measured": per_workload,
    }  # fmt: skip


def _summary(record: Row, kernels: Sequence[Row], gpu: str | None) -> Row:
    """A problem's line in the list of problems; its figures are those of one GPU."""
    # A kernel that failed before it reached a GPU names none, and counts everywhere.
    measured = [row for row in kernels if row["gpu"] in (gpu, None)]
    correct = [row for row in measured if row["status"] == Status.OK and row["speedup"]]
    best = min(correct, key=_speed, default=None)
    return {
        "id": kernels[0]["problem_id"],
        "title": record.get("title") or kernels[0]["problem_id"],
        "family": kernels[0]["family"],
        "kernels": len({row["kernel_id"] for row in kernels}),
        "correct": shortened(sum(row["status"] == Status.OK for row in measured) / len(measured)) if measured else None,
        "median": shortened(median(row["speedup"] for row in correct)) if correct else None,
        "best": None if best is None else shortened(best["speedup"]),
        "best_ahead": None if best is None else _short(best.get("speedup_best")),
        "best_id": None if best is None else best["kernel_id"][:SHORT_ID],
        "best_backend": None if best is None else best["backend"],
        "roofline": None if best is None else _short(best["roofline"]),
    }


def _columns(rows: Sequence[Row]) -> Row:
    """The table of all kernels as columns; texts as numbers of their words."""
    texts: dict[str, Any] = {}
    for name in ("problem_id", "family", *TEXTS):
        words: dict[str | None, int] = {}
        codes = [words.setdefault(row.get(name), len(words)) for row in rows]
        if words.keys() != {None}:
            texts[name] = {"words": list(words), "codes": codes}
    # Speedups are compared with those of references, so they keep more digits than the page shows.
    figures = {
        name: [_short(row.get(name), 5 if name.startswith("speedup") else 3) for row in rows] for name in FIGURES
    }
    return {"id": [row["kernel_id"][:SHORT_ID] for row in rows], "texts": texts, "figures": figures}


def _words(sources: Sequence[str]) -> Mapping[str, list[int]]:
    """For each word of the sources, where runs of kernels that hold it begin and end, as steps from one to the next."""
    runs: dict[str, list[int]] = defaultdict(list)
    end = 0
    for source, alike in itertools.groupby(sources):
        at, end = end, end + len(list(alike))
        for word in set(WORD.findall(source.lower())):
            ends = runs[word]
            if ends and ends[-1] == at:
                ends[-1] = end
            else:
                ends += [at, end]
    return {word: [b - a for a, b in zip([0, *ends], ends, strict=False)] for word, ends in sorted(runs.items())}


def _short(value: Any, digits: int = 4) -> Any:
    return shortened(value, digits) if isinstance(value, float) else value
