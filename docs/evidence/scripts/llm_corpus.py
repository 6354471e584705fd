"""What the language model's kernels are: how many, how right, how new, how fast, at what cost.

python docs/evidence/scripts/llm_corpus.py [DATASET] --out docs/evidence/llm-corpus.json
prints the tables of docs/results/llm-corpus.md.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.similarity import Grams
from kbench.loaders.source.stripped import stripped

COLUMNS = ["kernel_id", "problem_id", "family", "backend", "gpu", "model", "proposer", "status", "error", "speedup",
           "generation", "parent_id", "source", "runtime_us"]  # fmt: skip
TWIN = 0.9
"""Similarity (Jaccard of token 5-grams, numbers masked) from which two kernels of a cell are twins."""
HARDWARE: dict[str, tuple[str, str]] = {
    "wgmma": ("cuda", r"wgmma"),
    "TMA or cp.async.bulk": ("cuda", r"TensorMap|cp\.async\.bulk"),
    "mma.sync": ("cuda", r"mma\.sync|nvcuda::wmma"),
    "cp.async": ("cuda", r"cp\.async\.(?:cg|ca)|__pipeline_memcpy_async"),
    "clusters": ("cuda", r"cluster="),
    "tensor descriptors": ("triton", r"TensorDescriptor|make_tensor_descriptor"),
    "warp specialisation": ("triton", r"warp_specialize\s*=\s*True"),
    "tl.dot": ("triton", r"tl\.dot\("),
}
Row = dict[str, Any]


@click.command()
@click.argument("dataset", required=False)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(dataset: str | None, out: Path) -> None:
    """Count, compare and write."""
    corpus = Corpus.open(dataset)
    rows: list[Row] = corpus.table("kernels", columns=COLUMNS, gpu=corpus.gpus()[:1]).to_pylist()
    mine = [row for row in rows if row["model"]]
    found = {
        "dataset": corpus.fingerprint,
        "kernels": len(mine),
        "statuses": Counter(row["status"] for row in mine),
        "by_backend": {
            name: Counter(row["status"] for row in mine if row["backend"] == name) for name in ("cuda", "triton")
        },
        "reasons": Counter(reason(row) for row in mine if row["status"] != "ok").most_common(),
        "cells": cells(mine),
        "twins": {name: twins([row for row in rows if test(row)]) for name, test in PROPOSERS.items()},
        "hardware": hardware(rows),
        "best": best(rows),
        "gain_by_generation": generations(rows, mine),
        "cost": cost(corpus),
    }
    out.write_text(json.dumps(found) + "\n", "utf-8")
    click.echo(json.dumps({key: value for key, value in found.items() if key != "best"}, indent=1))
    click.echo(json.dumps({key: value for key, value in found["best"].items() if key != "problems"}, indent=1))


PROPOSERS: dict[str, Callable[[Row], bool]] = {
    "llm": lambda row: row["model"] is not None,
    "written": lambda row: row["proposer"] == "llm" and row["model"] is None,
    "genome": lambda row: row["proposer"] == "genome",
    "rewrite": lambda row: row["proposer"] == "rewrite",
}


def reason(row: Row) -> str:
    """Why a kernel failed, in a few words."""
    text = str(row["error"])
    words = {
        "out of resource": "too much shared memory", "illegal memory": "illegal memory access",
        "overwritten": "wrote outside its buffers", "PassManager": "compiler crashed", "beyond tolerance": "values off",
        "NaN or Inf": "NaN or Inf", "two calls": "two calls differ", "deadline": "too slow", "timeout": "too slow",
        "torch operator": "host code refused", "refused": "host code refused", "ptxas": "ptxas", "nvrtc": "NVRTC",
        "NVRTC": "NVRTC", "CompilationError": "Triton refused", "illegal instruction": "illegal instruction",
    }  # fmt: skip
    short = next((short for word, short in words.items() if word in text), re.split(r"[:\n]", text)[0][:40])
    return f"{row['status']}: {short}"


def cells(mine: Sequence[Row]) -> dict[str, Any]:
    """How many kernels and generations the cells have."""
    by_cell: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in mine:
        by_cell[row["problem_id"], row["backend"]].append(row)
    counts = [len(rows) for rows in by_cell.values()]
    depth = Counter(max(row["generation"] for row in rows) + 1 for rows in by_cell.values())
    return {"cells": len(by_cell), "least": min(counts), "median": statistics.median(counts), "most": max(counts),
            "with 12": sum(count >= 12 for count in counts), "generations": dict(sorted(depth.items()))}  # fmt: skip


def twins(rows: Sequence[Row]) -> dict[str, Any]:
    """Share of kernels without a near copy in their cell."""
    alone = 0
    by_cell: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        by_cell[row["problem_id"], row["backend"]].append(stripped(row["source"]))
    for sources in by_cell.values():
        grams = Grams(sources)
        copies = Counter(grams.row.tolist())
        every = np.arange(int(grams.row.max()) + 1)
        nearest = np.zeros(len(every))
        for at, block in grams.similarities(every, every):
            own = every[at]
            block[np.arange(len(own)), own] = 0.0
            nearest[own] = block.max(axis=1)
        alone += sum(copies[number] == 1 and bool(nearest[number] < TWIN) for number in grams.row.tolist())
    return {"kernels": len(rows), "without twin": alone, "share": round(alone / len(rows), 3)}


def hardware(rows: Sequence[Row]) -> dict[str, Any]:
    """Correct kernels that use a feature: the language model's, and everyone else's."""
    found = {}
    for name, (backend, pattern) in HARDWARE.items():
        using = [row for row in rows if row["backend"] == backend and re.search(pattern, row["source"])]
        right = [row for row in using if row["status"] == "ok"]
        ours = sum(bool(row["model"]) for row in right)
        tried = sum(bool(row["model"]) for row in using)
        found[name] = {"llm": ours, "llm failed": tried - ours, "others": len(right) - ours}
    return found


def best(rows: Sequence[Row]) -> dict[str, Any]:
    """The fastest kernel of every problem, by who proposed it."""
    tops: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row["status"] == "ok":
            who = "llm" if row["model"] else "others"
            if who not in tops[row["problem_id"]] or row["speedup"] > tops[row["problem_id"]][who]["speedup"]:
                tops[row["problem_id"]][who] = row
    both = {name: top for name, top in tops.items() if len(top) == 2}
    gains = [math.log(max(1.0, top["llm"]["speedup"] / top["others"]["speedup"])) for top in both.values()]
    return {
        "problems with both": len(both),
        "llm fastest": sum(top["llm"]["speedup"] > top["others"]["speedup"] for top in both.values()),
        "geometric mean gain of the best": round(math.exp(statistics.mean(gains)), 3),
        "faster than PyTorch": sum(max(row["speedup"] for row in top.values()) > 1 for top in tops.values()),
        "of": len(tops),
        "problems": {
            name: {who: {"kernel_id": row["kernel_id"], "backend": row["backend"], "speedup": round(row["speedup"], 3)}
                   for who, row in top.items()}
            for name, top in sorted(tops.items())
        },
    }  # fmt: skip


def generations(rows: Sequence[Row], mine: Sequence[Row]) -> dict[str, Any]:
    """Kernels with a correct parent: how often they are right, and faster than it."""
    known = {row["kernel_id"]: row for row in rows}
    found: dict[str, Any] = {}
    for number in sorted({row["generation"] for row in mine}):
        here = [row for row in mine if row["generation"] == number]
        pairs = [(row, known[row["parent_id"]]) for row in here if row["parent_id"] in known]
        gains = [math.log2(row["speedup"] / parent["speedup"]) for row, parent in pairs
                 if row["status"] == parent["status"] == "ok"]  # fmt: skip
        repaired = [row["status"] == "ok" for row, parent in pairs if parent["status"] != "ok"]
        found[str(number)] = {
            "kernels": len(here), "right": round(sum(row["status"] == "ok" for row in here) / len(here), 3),
            "beat parent": round(sum(gain > 0 for gain in gains) / len(gains), 3) if gains else None,
            "median gain, octaves": round(statistics.median(gains), 3) if gains else None,
            "largest gain, octaves": round(max(gains), 2) if gains else None,
            "repairs": len(repaired), "repaired": sum(repaired),
        }  # fmt: skip
    return found


def cost(corpus: Corpus) -> dict[str, Any]:
    """Characters read and written, and GPU-seconds, of the language model's kernels."""
    read = written = answers = 0
    seconds: list[float] = []
    told: set[tuple[str, str]] = set()
    for event in corpus.table("events", columns=["run_id", "kind", "payload_json"]).to_pylist():
        payload = json.loads(event["payload_json"])
        if event["kind"] == "candidate_proposed" and (payload.get("recipe") or {}).get("model"):
            read += payload["recipe"]["input_characters"]
            written += payload["recipe"]["output_characters"]
            answers += 1
            told.add((event["run_id"], payload["kernel_id"]))
        elif event["kind"] == "kernel_measured" and (event["run_id"], payload["kernel_id"]) in told:
            seconds.append(payload["gpu_seconds"])
    return {
        "answers": answers,
        "characters read": read,
        "characters written": written,
        "GPU-seconds": round(sum(seconds), 1),
        "kernels per GPU-hour": round(3600 * len(seconds) / sum(seconds)),
    }


if __name__ == "__main__":
    main()
