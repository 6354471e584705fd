"""`roofline`: what the problem alone allows. Its arithmetic intensity against the GPU's, without reading the code."""

from __future__ import annotations

import functools
import json
import math

from kbench.benchmark.surrogates.baselines.binned import BinnedSurrogate
from kbench.schemas import Query

DEFAULT_BANDWIDTH_GBS = 2000.0
DEFAULT_TFLOPS = 60.0
LAUNCH_US = 3.0
"""What a launch costs: below it neither arithmetic nor memory decides."""


@functools.lru_cache(maxsize=4096)
def floor_us(workloads_json: str, gpu_facts_json: str) -> float:
    """Geometric mean over workloads of the least time any kernel needs, in microseconds."""
    facts = json.loads(gpu_facts_json)
    bandwidth = facts.get("bandwidth_gbs") or DEFAULT_BANDWIDTH_GBS
    tflops = facts.get("fp32_tflops") or DEFAULT_TFLOPS
    times = [
        max(work["min_bytes"] / bandwidth / 1e3, work["flops"] / tflops / 1e6) + LAUNCH_US
        for work in json.loads(workloads_json)
    ]
    return math.exp(sum(map(math.log, times)) / len(times)) if times else LAUNCH_US


class RooflineSurrogate(BinnedSurrogate):
    """Short problems leave a reference room to lose on launches; long ones leave little to gain."""

    def number(self, query: Query) -> float:
        """Log of the roofline's floor."""
        return math.log(floor_us(query.workloads_json, query.gpu_facts_json))
