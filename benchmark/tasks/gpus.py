"""Public facts of GPUs, as a query states them: from the corpus's environments, else from the maker's data sheets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

FACTS = ("compute_capability", "sm_count", "memory_bytes", "l2_bytes", "shared_bytes_per_block", "bandwidth_gbs",
         "fp32_tflops", "tf32_tflops", "bf16_tflops", "fp8_tflops")  # fmt: skip
"""Every fact, in the order a query carries them."""

MIB = 1024**2
GIB = 1024**3

# name contained in the driver's name of the GPU -> facts in the order above; dense peaks without sparsity.
DATA_SHEETS: Mapping[str, tuple[Any, ...]] = {
    "H200": ("9.0", 132, 141 * 10**9, 50 * MIB, 227 * 1024, 4800, 67, 494, 989, 1979),
    "H100": ("9.0", 132, 80 * 10**9, 50 * MIB, 227 * 1024, 3350, 67, 494, 989, 1979),
    "B200": ("10.0", 148, 180 * 10**9, 126 * MIB, 227 * 1024, 8000, 80, 1100, 2250, 4500),
    "A100": ("8.0", 108, 80 * GIB, 40 * MIB, 163 * 1024, 2039, 19.5, 156, 312, None),
    "L40S": ("8.9", 142, 48 * GIB, 96 * MIB, 99 * 1024, 864, 91.6, 183, 362, 733),
}


def gpu_facts(gpu: str, environments: Iterable[Mapping[str, Any]] = ()) -> str:
    """Facts of one GPU as JSON; what is not known is null.

    Args:
        gpu: the name as the driver reports it.
        environments: rows of the corpus's environments; the first of this GPU overrides the data sheet.
    """
    facts: dict[str, Any] = dict.fromkeys(FACTS)
    for name, sheet in DATA_SHEETS.items():
        if name in gpu.split() or name in gpu:
            facts |= dict(zip(FACTS, sheet, strict=True))
            break
    seen = sorted((row for row in environments if row["gpu"] == gpu), key=lambda row: str(row["env_id"]))
    for row in seen[:1]:
        facts |= {name: row[name] for name in FACTS if row.get(name) is not None}
        facts["bandwidth_gbs"] = row.get("copy_bandwidth_gbs") or facts["bandwidth_gbs"]
    return json.dumps({"gpu": gpu} | facts)
