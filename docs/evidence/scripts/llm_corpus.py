"""What the language model's kernels are: how many, how right, how new, how fast, at what cost.

python docs/evidence/scripts/llm_corpus.py [--dataset DATASET] --out llm-corpus.json
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

from kbench.benchmark.problems.registry import problems
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.similarity import Grams
from kbench.loaders.source.strip import strip_comments
from kbench.loaders.summary.best import reference_speedups

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
EXAMINED = (
    "softmax", "rms_norm", "rope", "layernorm_backward", "attention_decode", "matmul_square", "matmul_batched",
    "grouped_gemm", "int8_gemm", "int4_weight_gemm", "attention_prefill", "paged_attention_decode", "conv2d_square",
    "conv3d", "conv1d", "sort", "trimul", "matmul_tensor3d", "matmul_symmetric",
)  # fmt: skip
"""Problems whose best kernel of release 1 was compared with an honest roofline, or lost to PyTorch."""
CLOSE = ("softmax", "rms_norm", "rope", "layernorm_backward", "attention_decode")
"""Those of them that reached 0.79 of it or more."""
GEMMS = ("matmul", "fused_matmul", "quantized_matmul")
Row = dict[str, Any]


@click.command()
@click.option("--dataset", help="Folder of a corpus; the shipped one by default.")
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(dataset: str | None, out: Path) -> None:
    """Count, compare and write."""
    corpus = Corpus.open(dataset)
    rows: list[Row] = corpus.table("kernels", columns=COLUMNS, gpu=corpus.gpus()[:1]).to_pylist()
    mine = [row for row in rows if row["model"]]
    click.echo(f"comparing {len(rows):,} kernels of {corpus.fingerprint[:8]} with each other: minutes …", err=True)
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
        "far from the roofline": far(rows),
        "references": against(corpus, rows),
        "products": products(rows),
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
        by_cell[row["problem_id"], row["backend"]].append(strip_comments(row["source"]))
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


def fastest(rows: Sequence[Row], **facets: str) -> dict[str, float]:
    """The best speedup of every problem, among rows with these values."""
    found: dict[str, float] = {}
    for row in rows:
        if row["status"] == "ok" and all(row[name] == value for name, value in facets.items()):
            found[row["problem_id"]] = max(row["speedup"], found.get(row["problem_id"], 0.0))
    return found


def far(rows: Sequence[Row]) -> dict[str, Any]:
    """How much faster the best kernels became on problems whose share of the roofline was examined in release 1.

    The roofline of a workload does not change, so the share grows as the best speedup does.
    """
    before, now = fastest([row for row in rows if not row["model"]]), fastest(rows)
    gains = {name: now[name] / before[name] for name in EXAMINED if name in before}
    below = [gain for name, gain in gains.items() if name not in CLOSE]
    return {
        "problems": {name: round(gain, 3) for name, gain in gains.items()},
        "geometric mean": round(statistics.geometric_mean(gains.values()), 3),
        "without those at 0.79 of it or more": round(statistics.geometric_mean(below), 3),
    }


def against(corpus: Corpus, rows: Sequence[Row]) -> dict[str, Any]:
    """How many present problems have a kernel that beats each kind of reference."""
    present, now = set(problems()), fastest(rows)
    speedups = {name: reference_speedups(corpus, name, corpus.gpus()[0]) for name in sorted(present & now.keys())}
    compiled = {name: found["torch.compile"] for name, found in speedups.items() if "torch.compile" in found}
    vendor = {name: value for name, found in speedups.items() for key, value in found.items() if key != "torch.compile"}
    return {
        "problems": len(speedups),
        "beat eager": sum(now[name] > 1 for name in speedups),
        "compiled": len(compiled),
        "beat torch.compile": sum(now[name] > value for name, value in compiled.items()),
        "vendor": len(vendor),
        "beat the vendor's call": sum(now[name] > value for name, value in vendor.items()),
    }


def products(rows: Sequence[Row]) -> dict[str, Any]:
    """The best CUDA kernel's time over the best Triton kernel's, on matrix products of the present problems."""
    mine = [row for row in rows if row["family"] in GEMMS and row["problem_id"] in set(problems())]
    cuda, triton = fastest(mine, backend="cuda"), fastest(mine, backend="triton")
    ratios = {name: triton[name] / cuda[name] for name in sorted(cuda.keys() & triton.keys())}
    return {
        "problems": len(ratios),
        "geometric mean": round(statistics.geometric_mean(ratios.values()), 3),
        "within 1.5": sum(ratio <= 1.5 for ratio in ratios.values()),
        "worst": sorted(((round(ratio, 2), name) for name, ratio in ratios.items()), reverse=True)[:5],
    }


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
