"""System: what every request of a backend says alike, so that whoever answers many reads it once."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.schemas import Backend

RULES = Path(__file__).parent / "rules"
WANTED = {
    "gpu": "name", "compute_capability": "compute capability", "sm_count": "multiprocessors", "l2_bytes": "L2 bytes",
    "shared_bytes_per_block": "largest shared memory per block, bytes",
    "copy_bandwidth_gbs": "measured copy bandwidth, GB/s", "matmul_peak_tflops": "measured bf16 matmul, TFLOP/s",
    "triton": "Triton version", "nvrtc": "NVRTC version",
}  # fmt: skip
"""Facts that a kernel's author is told."""
MEASURED = frozenset({"copy_bandwidth_gbs", "matmul_peak_tflops"})
"""Facts of a GPU that differ a little between machines of its type."""


@functools.cache
def system_text(backend: Backend, gpu_facts_json: str) -> str:
    """The part that all requests of a backend share."""
    parts = [(RULES / name).read_text(encoding="utf-8").rstrip() for name in ("every_kernel.md", f"{backend.value}.md")]
    facts = device_facts(json.loads(gpu_facts_json))
    if facts:
        parts.append("# GPU\n" + facts)
    return "\n\n".join(parts)


def device_facts(facts: Mapping[str, Any]) -> str:
    """The GPU in words: what bounds a kernel's speed. Measured figures have two digits, alike on machines of a type."""
    shown = {name: facts[name] for name in WANTED if facts.get(name) is not None}
    for name in MEASURED & shown.keys():
        shown[name] = two_digits(shown[name])
    return "\n".join(f"{WANTED[name]}: {value}" for name, value in shown.items())


def two_digits(value: float) -> str:
    """A number rounded to two significant digits, written out."""
    return f"{float(f'{value:.1e}'):g}"
