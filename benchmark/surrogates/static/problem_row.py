"""What the problem and the GPU say: work, traffic, roofline, shapes, types, and what the reference calls."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.surrogates.baselines import floor_us

Row = npt.NDArray[np.float32]
Numbers = dict[str, float]

LOG2_KILO = math.log2(1000.0)
LAUNCH_US = 4.0
"""What a launch from PyTorch costs."""
WALK = 0.7
"""Share of the problem's least traffic that one pass of its reference moves."""
SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")
PASS = re.compile(r"[\w)] [-+*/@] [\w(]|(?:torch|F)\.\w+\(|\)\.\w+\(")
DTYPES = ("float32", "bfloat16", "float16", "float8_e4m3fn", "int8", "int32", "int64", "bool")
CALLS: tuple[str, ...] = (
    "matmul", "@", "bmm", "linear", "conv", "transpose", "einsum", "softmax", "layer_norm", "group_norm",
    "batch_norm", "rms", "mean", "sum", "max", "min", "var", "cumsum", "cumprod", "sort", "topk", "gather", "scatter",
    "index", "embedding", "pool", "sigmoid", "tanh", "relu", "gelu", "silu", "exp", "log", "sqrt", "clamp", "where",
    "cross_entropy", "mse", "attention", "dropout", "cat", "stack", "unfold", "pad", "roll", "bincount", "unique",
    "for ", "while", "float()", ".to(", "sdpa", "scaled_dot_product", "normalize", "norm", "hardtanh", "mish",
    "softplus", "logsumexp", "argmax", "triu", "tril",
)  # fmt: skip


def _elements(text: str) -> list[tuple[str, int, list[int]]]:
    tensors = []
    for name, dims in SHAPE.findall(text):
        shape = [int(dim) for dim in dims.split(",") if dim]
        tensors.append((name, math.prod(shape), shape))
    return tensors


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _log2(value: float) -> float:
    return math.log2(max(value, 1e-9))


def _numbers(works: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], reference: str, floor: float) -> Numbers:
    """Work, traffic and shapes, averaged over workloads as logarithms, and the GPU's rates, in feature order.

    `floor` is log2 of the least time any kernel needs, in microseconds.
    """
    ins = [_elements(" ".join(work["inputs"])) for work in works]
    outs = [_elements(" ".join(work["outputs"])) for work in works]
    all_flops = [_log2(work["flops"]) for work in works]
    flops, traffic = _mean(all_flops), _mean([_log2(work["min_bytes"]) for work in works])
    outputs = _mean([_log2(sum(count for _, count, _ in out)) for out in outs])
    sizes = [sorted((count for _, count, _ in found), reverse=True) for found in ins]
    shapes = [max(found, key=lambda item: item[1])[2] if found else [] for found in ins]
    values = {
        "flops": flops,
        "bytes": traffic,
        "intensity": flops - traffic,
        "floor_us": floor,
        "workloads": float(len(works)),
        "inputs": _mean([float(len(found)) for found in ins]),
        "outputs": _mean([float(len(found)) for found in outs]),
        "input_elements": _mean([_log2(sum(size)) for size in sizes]),
        "output_elements": outputs,
        "largest": _mean([_log2(size[0] if size else 0) for size in sizes]),
        "last_dim": _mean([_log2(shape[-1] if shape else 1) for shape in shapes]),
        "rank": _mean([float(len(shape)) for shape in shapes]),
        "largest_second": _mean([_log2(size[1] if len(size) > 1 else 1) for size in sizes]),
        "reference_lines": float(reference.strip().count("\n")),
        "reference_calls": float(reference.count("(")),
        "reduction": _mean([_log2(size[0] if size else 1) for size in sizes]) - outputs,
        "sm_count": float(facts.get("sm_count") or 0),
        "bandwidth": _log2(facts.get("bandwidth_gbs") or 1),
        "peak": _log2(facts.get("bf16_tflops") or 1),
        "capability": float(facts.get("compute_capability") or 0),
        "flop_spread": max(all_flops, default=0.0) - min(all_flops, default=0.0),
        "elements_per_sm": outputs - _log2(facts.get("sm_count") or 1),
        "scalars": _mean([float(len(work["inputs"]) - len(found)) for work, found in zip(works, ins, strict=True)]),
        "plain_peak": _log2(facts.get("fp32_tflops") or 1),
        # Lines that compute are kernels PyTorch launches one after another, each reading what the last one wrote.
        "reference_passes": float(len(PASS.findall(reference))),
    }
    return values | _reference_time(values)


def _reference_time(values: Numbers) -> Numbers:
    """What PyTorch may take: a launch and one pass over memory for each of its steps, and the arithmetic once."""
    passes = 1.0 + values["reference_passes"]
    memory_us = 2.0 ** (values["bytes"] - values["bandwidth"] - LOG2_KILO)
    # Its products run on tensor cores at half their peak (tf32), or on plain ones where those are faster.
    peak = max(values["plain_peak"], values["peak"] - 1.0)
    compute_us = 2.0 ** (values["flops"] - peak - 2 * LOG2_KILO)
    launches_us = LAUNCH_US * passes
    balance = values["plain_peak"] + LOG2_KILO - values["bandwidth"]
    estimate_us = WALK * memory_us * passes + compute_us + launches_us
    return {
        "passes": _log2(passes),
        "launches_over_floor": _log2(launches_us) - values["floor_us"],
        "compute_over_memory": values["intensity"] - balance,
        "reference_over_floor": _log2(estimate_us) - values["floor_us"],
    }


NUMBERS = tuple(_numbers([], {}, "", 0.0))
NAMES: tuple[str, ...] = (
    *(f"problem:{name}" for name in NUMBERS),
    *(f"dtype:{name}" for name in DTYPES),
    *(f"call:{name}" for name in CALLS),
)
"""Names of the features, in order."""


@functools.lru_cache(maxsize=4096)
def problem_row(workloads_json: str, gpu_facts_json: str, problem_text: str) -> Row:
    """The features of one problem on one GPU."""
    works, facts = json.loads(workloads_json), json.loads(gpu_facts_json)
    reference = problem_text.rpartition("PyTorch reference:")[2]
    types = [name for work in works for name, _ in SHAPE.findall(" ".join(work["inputs"]))]
    row = [*_numbers(works, facts, reference, math.log2(floor_us(workloads_json, gpu_facts_json))).values()]
    row += [types.count(name) / max(len(types), 1) for name in DTYPES]
    row += [math.log1p(reference.count(name)) for name in CALLS]
    return np.array(row, dtype=np.float32)
