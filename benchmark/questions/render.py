"""Queries: the one place where kernels and problems become what a surrogate is shown.

Comments and docstrings are stripped, and no label, runtime or kernel id gets in.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbench.benchmark.work.gpus import gpu_named
from kbench.loaders.source.normalise import normalised
from kbench.loaders.source.strip import strip_comments
from kbench.schemas import Backend, DataError, KnownKernel, PairKind, Query, UnknownNameError
from kbench.schemas.gpus import partition_size, whole_gpu
from kbench.schemas.ids import content_hash

FACTS = ("compute_capability", "sm_count", "memory_bytes", "l2_bytes", "shared_bytes_per_block", "bandwidth_gbs",
         "fp32_tflops", "tf32_tflops", "bf16_tflops", "fp8_tflops")  # fmt: skip
"""Every fact, in the order a query carries them."""

UNKNOWN_GPU = "no table here has this GPU: nothing is known of it but its name"
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


def gpu_facts(gpu: str, environments: Sequence[Mapping[str, Any]] = ()) -> str:
    """Facts of one GPU as JSON; what is not known is null."""
    facts: dict[str, Any] = dict.fromkeys(FACTS)
    for name, sheet in DATA_SHEETS.items():
        if name in gpu.split() or name in gpu:
            facts |= dict(zip(FACTS, sheet, strict=True))
            break
    else:
        facts |= _table_facts(gpu)
    row = _environment(gpu, environments)
    facts |= {name: row[name] for name in FACTS if row.get(name) is not None}
    facts["bandwidth_gbs"] = row.get("copy_bandwidth_gbs") or facts["bandwidth_gbs"]
    size = partition_size(gpu)
    if size is not None:
        facts["sm_count"] = size[0]
        # The sheet's rates are the whole GPU's; a partition has the share of them that a matrix product showed.
        rates = [one.get("matmul_peak_tflops") for one in (row, _environment(whole_gpu(gpu), environments))]
        share = rates[0] / rates[1] if rates[0] and rates[1] else size[0] / size[1]
        facts |= {name: facts[name] and share * facts[name] for name in FACTS if name.endswith("_tflops")}
    return json.dumps({"gpu": gpu} | facts)


def _table_facts(gpu: str) -> dict[str, Any]:
    """Facts of a GPU for which no sheet is kept here, from the table of GPUs; a note where that has it not either."""
    try:
        known = gpu_named(gpu)
    except UnknownNameError:
        return {"note": UNKNOWN_GPU}
    rates = {name: known.tensor_tflops.get(bits) for name, bits in (("tf32", 32), ("bf16", 16), ("fp8", 8))}
    return {
        "compute_capability": known.capability, "sm_count": known.multiprocessors, "l2_bytes": int(known.l2_bytes),
        "shared_bytes_per_block": known.block_shared_bytes, "bandwidth_gbs": known.dram_gbps,
        "fp32_tflops": round(known.fp32_tflops, 1),
    } | {f"{name}_tflops": rate and round(rate) for name, rate in rates.items()}  # fmt: skip


def _environment(gpu: str, environments: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first environment of a GPU; empty when there is none."""
    return min((row for row in environments if row["gpu"] == gpu), key=lambda row: str(row["env_id"]), default={})


WORKLOAD_FACTS = ("name", "params_json", "inputs", "outputs", "flops", "min_bytes")


def reference_query_id(candidate_id: str, gpu: str) -> str:
    """Identity of the question 'how much faster than the PyTorch reference?' about a kernel on a GPU."""
    return content_hash("query", candidate_id, gpu, PairKind.REFERENCE.value)


def workload_facts(problem: Mapping[str, Any], workload: str | None = None) -> str:
    """What a query says about a problem's workloads, or about one of them, as JSON."""
    rows = [row for row in problem["workloads"] if workload in (None, row["name"])]
    return json.dumps([{name: row[name] for name in WORKLOAD_FACTS} for row in rows])


def render_query(
    *,
    query_id: str,
    problem: Mapping[str, Any],
    backend: str,
    kind: str,
    candidate_source: str,
    gpu: str,
    gpu_facts_json: str,
    anchor_source: str | None = None,
    workloads_json: str | None = None,
    shown: Callable[[str], str] = normalised,
) -> Query:
    """One query."""
    return Query(
        query_id=query_id,
        problem_id=problem["problem_id"],
        family=problem["family"],
        problem_text=problem["prompt"],
        workloads_json=workload_facts(problem) if workloads_json is None else workloads_json,
        backend=Backend(backend),
        kind=PairKind(kind),
        anchor_source=strip_comments(problem["reference_source"]) if anchor_source is None else shown(anchor_source),
        candidate_source=shown(candidate_source),
        gpu=gpu,
        gpu_facts_json=gpu_facts_json,
    )


class Renderer:
    """Renders the queries about one corpus's kernels."""

    def __init__(
        self,
        problems: Mapping[str, Mapping[str, Any]],
        sources: Mapping[str, str],
        environments: list[Mapping[str, Any]],
    ) -> None:
        """Keep what queries quote."""
        self._problems = problems
        self._sources = sources
        self._gpu_facts = functools.cache(lambda gpu: gpu_facts(gpu, environments))
        self._workload_facts = functools.cache(
            lambda problem_id, workload: workload_facts(self._problem(problem_id, True), workload)
        )

    def query(
        self,
        query_id: str,
        problem_id: str,
        backend: str,
        kind: str,
        anchor_id: str | None,
        candidate_id: str,
        gpu: str,
        workload: str | None = None,
    ) -> Query:
        """The query about one kernel against another, or against the reference when there is no anchor.

        A workload's name asks about that one alone.

        Raises:
            DataError: the corpus lacks the problem or one of the kernels.
        """
        return render_query(
            query_id=query_id,
            problem=self._problem(problem_id, may_be_unknown=anchor_id is not None),
            backend=backend,
            kind=kind,
            candidate_source=self._source(candidate_id),
            gpu=gpu,
            gpu_facts_json=self._gpu_facts(gpu),
            anchor_source=None if anchor_id is None else self._source(anchor_id),
            workloads_json=self._workload_facts(problem_id, workload),
            shown=str,
        )

    def known(self, row: Mapping[str, Any]) -> KnownKernel:
        """A measured kernel, as a query shows it."""
        return KnownKernel(
            source=self._source(row["kernel_id"]), backend=Backend(row["backend"]), speedup=row["speedup"]
        )

    def _problem(self, problem_id: str, may_be_unknown: bool) -> Mapping[str, Any]:
        """The problem's row; a stub for an imported problem without one, whose kernels can still be compared."""
        if problem_id in self._problems:
            return self._problems[problem_id]
        if not may_be_unknown:
            raise DataError(f"questions.problem_id {problem_id!r} is not in the corpus's problems; add its row")
        text = f"Problem {problem_id}; its reference is not known."
        return {"problem_id": problem_id, "family": problem_id, "prompt": text, "workloads": []}

    def _source(self, kernel_id: str) -> str:
        try:
            return self._sources[kernel_id]
        except KeyError:
            raise DataError(
                f"kernel {kernel_id!r} is asked about but not in the corpus's kernels; add its row"
            ) from None
