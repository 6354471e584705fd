"""A release in miniature: the published schemas exactly, every trap at least once, all values invented."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beside import module_at

from kbench.loaders.corpus.corpus import load
from kbench.loaders.importers.gpu_forecasters import DATASETS
from kbench.loaders.importers.reader import ImportSettings, Report
from kbench.loaders.importers.run import import_files

foreign = module_at(Path(__file__).with_name("foreign.py"))
"""Makers of files of the other formats."""
Run = Callable[..., tuple[Path, Report]]
A100, L40S = "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"
SEARCH = "trimul__a"
TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()

PREDICTIONS = pa.schema(
    {
        "comparison_id": TEXT, "pack": TEXT, "surrogate_label": TEXT, "repeat": WHOLE, "predicted_bin": WHOLE,
        "bin_probabilities": pa.list_(pa.struct([("bin", WHOLE), ("p", REAL)])), "reasoning": TEXT,
        "raw_probability_sum": REAL, "parse_failed": pa.bool_(), "parse_error": TEXT, "input_tokens": WHOLE,
        "output_tokens": WHOLE, "elapsed_s": REAL,
    }
)  # fmt: skip


def rows_of(folder: Path, config: str = "kernels") -> list[dict[str, Any]]:
    """The rows of a corpus."""
    return load(folder, config=config).to_arrow().to_pylist()


def kernel(name: str, boast: str = "") -> str:
    """A GPU MODE submission in Triton; `boast` is what its docstring claims."""
    doc = f'    """{boast}"""\n' if boast else ""
    return (
        "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        f"def {name}(x, n, BLOCK: tl.constexpr):\n    tl.store(x + tl.program_id(0), n)\n\n\n"
        f"def custom_kernel(data):\n{doc}    return data[0]  # {boast}\n"
    )


def label(speedup: float) -> int:
    """The release's labels."""
    if speedup <= 0:
        return 1
    return max(1, min(8, math.floor(2 * math.log2(speedup)) + 4))


def eval_row(number: int, speedup: float, **changes: Any) -> dict[str, Any]:
    row = {
        "source_search": SEARCH, "internal_experiment": "x", "comparison_id": f"c{number}", "pack": "trimul",
        "anchor_code": kernel("seed"), "candidate_code": kernel(f"k{number}"), "hardware": A100,
        "aggregated_speedup": speedup, "true_bin": label(speedup), "source_id": f"harvest/{number}",
    }  # fmt: skip
    return row | changes


def eval_rows() -> list[dict[str, Any]]:
    filler = {"source_id": "binfiller/9", "candidate_code": kernel("k9", "This reaches a 3.7x speedup")}
    return [
        eval_row(0, 0.3), eval_row(1, 0.9), eval_row(2, 1.2),
        eval_row(3, 3.0, pack="fp8_quant", hardware=L40S, source_search="fp8_quant__c"),
        # One comparison id on three rows, two of them equal in everything but the answer.
        eval_row(2, 1.7, candidate_code=kernel("other")), eval_row(2, 1.25),
        eval_row(9, 3.7, **filler),
    ]  # fmt: skip


def prediction(number: int, surrogate: str, repeat: int, given: dict[int, float] | None, **changes: Any) -> Any:
    pack = "fp8_quant" if number == 3 else "trimul"
    row = {
        "comparison_id": f"c{number}", "pack": pack, "surrogate_label": surrogate, "repeat": repeat,
        "predicted_bin": None if not given else max(given, key=lambda key: given[key]),
        "bin_probabilities": None if given is None else [{"bin": key, "p": value} for key, value in given.items()],
        "reasoning": "because", "raw_probability_sum": None if given is None else sum(given.values()),
        "parse_failed": given is None, "parse_error": None, "input_tokens": 100, "output_tokens": 10, "elapsed_s": 0.5,
    }  # fmt: skip
    return row | changes


def prediction_rows(surrogate: str, first: int = 0) -> list[dict[str, Any]]:
    rows = []
    for repeat in range(first, first + 3):
        rows += [
            prediction(0, surrogate, repeat, {2: 0.1, 3: 0.05}),  # sums to 0.15
            prediction(1, surrogate, repeat, {3: 1.0, 4: 0.45}),  # sums to 1.45
            prediction(2, surrogate, repeat, {4: 1.0}),
            prediction(3, surrogate, repeat, {1: 0.0, 2: 0.0}),  # all zero
            prediction(2, surrogate, repeat, {5: 1.0}),
            prediction(2, surrogate, repeat, {6: 0.6, 7: 0.4}, predicted_bin=7),  # not the argmax
            prediction(9, surrogate, repeat, None if repeat == first else {}),  # failed; an empty list
        ]
    return rows


def success(speedups: list[float]) -> dict[str, Any]:
    cases = [
        {"speedup": s, "runtime_ns": 1e6 / s, "ref_runtime_ns": 1e6, "shape": str(i)} for i, s in enumerate(speedups)
    ]
    whole = math.prod(speedups) ** (1 / len(speedups))
    feedback = {"kind": "success", "aggregated_speedup": whole, "aggregation_method": "geomean"}
    return {"observation": {"feedback": feedback | {"per_case_speedups": cases}, "per_case_results": []}, "reward": 1.0}


def failed(kind: str, **fields: Any) -> dict[str, Any]:
    return {"observation": {"feedback": {"kind": kind, **fields}, "per_case_results": []}, "reward": None}


def event(index: int, kind: str, search: str = SEARCH, **payload: Any) -> dict[str, Any]:
    return {
        "event_index": index, "event_kind": kind, "payload": {"kind": kind, **payload}, "source_search": search,
        "internal_experiment": "x",
    }  # fmt: skip


def events_v2() -> list[dict[str, Any]]:
    root = {"program_code": kernel("seed"), "ancestors": [], "evaluation": success([1.0, 1.0]), "ulid": "R",
            "is_seed": True}  # fmt: skip
    rows = [event(0, "search_initialized", root=root), event(1, "step_started", step=0, parent_ulids=["R"])]
    verdicts = [
        success([2.0, 0.5]), failed("compile_failed", compilation_error="no"), failed("incorrect", error_message="off"),
        failed("runtime_error", runtime_error_name="torch.OutOfMemoryError", runtime_error="x", traceback="y"),
        failed("infrastructure_failure", reason="node lost"),
    ]  # fmt: skip
    for number, verdict in enumerate(verdicts):
        code = kernel(f"k{number}")
        mutation, request = f"m{number}", f"e{number}"
        rows += [
            event(len(rows), "mutation_requested", request_id=mutation, parent_ulid="R"),
            event(len(rows) + 1, "mutation_completed", request_id=mutation, code=code),
            event(len(rows) + 2, "evaluation_requested", request_id=request, child_ulid=f"N{number}", parent_ulid="R",
                  code=code, from_mutation_request_id=mutation),
            event(len(rows) + 3, "evaluation_completed", request_id=request, evaluation=verdict),
        ]  # fmt: skip
    rows.append(event(len(rows), "mutation_failed", request_id="m9", reason="refused"))
    rows.append(event(len(rows), "step_completed", step=0))
    return rows


def events_v3() -> list[dict[str, Any]]:
    """A filtered KernelBench search: its runtime_us are milliseconds, and it drops a candidate unmeasured."""
    search = "conv_chain__b"
    observation = {"kind": "success", "runtime_us": 0.25, "ref_runtime_us": 0.5, "speedup": 2.0}
    seed = {"observation": {"kind": "success", "runtime_us": 0.5, "ref_runtime_us": 0.5, "speedup": 1.0}, "reward": 1.0}
    root = {"program_code": kernel("model"), "ancestors": [], "evaluation": seed, "ulid": "R", "is_seed": True}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("search_initialized", {"root": root}),
        ("mutation_completed", {"step": 3, "request_id": "a", "parent_ulid": "R", "code": kernel("fast")}),
        ("mutation_completed", {"step": 3, "request_id": "b", "parent_ulid": "R", "code": kernel("slow")}),
        ("forecast_completed", {"step": 3, "request_id": "a", "parent_ulid": "R"}),
        ("candidate_selected", {"step": 3, "request_id": "a", "parent_ulid": "R", "selection_score": 6.0}),
        ("candidate_deferred", {"step": 3, "request_id": "b", "parent_ulid": "R", "selection_score": 2.0}),
        ("evaluation_requested", {"step": 3, "request_id": "a", "parent_ulid": "R", "child_ulid": "C"}),
        ("evaluation_completed", {"step": 3, "request_id": "a", "parent_ulid": "R",
                                  "evaluation": {"observation": observation, "reward": 2.0}}),
        ("evaluations_drained", {"step": 3}),
    ]  # fmt: skip
    return [event(index, kind, search, **payload) for index, (kind, payload) in enumerate(kinds)]


def pool_row(number: int, speedup: float, kind: str = "pair", **changes: Any) -> dict[str, Any]:
    row = {
        "source_search": "fp8_quant__c", "internal_experiment": "x", "row_id": f"r{number}", "pack": "fp8_quant",
        "anchor_code": kernel("base"), "candidate_code": kernel(f"p{number}"), "aggregated_speedup": speedup,
        "relative_bin": label(speedup), "pair_type": kind, "hardware": L40S, "source_id": f"harvest/{number}",
    }  # fmt: skip
    return row | changes


def discovery_row(number: int, speedup: float, **changes: Any) -> dict[str, Any]:
    row = {
        "source_search": "conv_chain__b", "internal_experiment": "x", "pair_id": f"d{number}",
        "problem_id": "conv_chain", "benchmark_family": "kernelbench_l3", "parent_code": kernel("model"),
        "child_code": kernel("fast"), "g_speedup": speedup, "true_bin": label(speedup), "hardware": A100,
        "parent_node_id": "R", "child_node_id": "C", "source_id": "harvest/x",
    }  # fmt: skip
    return row | changes


def write(path: Path, rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def without_errors(schema: pa.Schema) -> pa.Schema:
    """Config gemini3_flash types `parse_error` as null."""
    at = schema.get_field_index("parse_error")
    return schema.set(at, pa.field("parse_error", pa.null()))


def write_release(folder: Path) -> list[Path]:
    """The five datasets, laid out as on the Hub."""
    base = folder / "codezakh"
    predictions = base / "gpu-forecasters-eval-set-predictions"
    gemini = [row | {"parse_error": None} for row in prediction_rows("gemini3_flash")]
    return [
        write(base / "gpu-forecasters-eval-set" / "trimul" / "eval-00000.parquet", eval_rows()),
        write(base / "gpu-forecasters-eval-set" / "combined" / "eval-00000.parquet", eval_rows()),
        write(predictions / "gemini3_flash" / "p-0.parquet", gemini, without_errors(PREDICTIONS)),
        write(predictions / "deepseek_v4" / "p-0.parquet", prediction_rows("deepseek_v4", 1), PREDICTIONS),
        write(base / "gpu-forecasters-rl-training-pool" / "data" / "train-0.parquet",
              [pool_row(0, 1.1, "seed"), pool_row(1, 0.2, "parent_edit"), pool_row(2, 5.0)]),
        write(base / "gpu-forecasters-discovery-pairs" / "kernelbench_l3" / "pairs-0.parquet",
              [discovery_row(0, 2.0)]),
        write(base / "gpu-forecasters-puct-search-events" / SEARCH / "events-0.parquet", events_v2()),
        write(base / "gpu-forecasters-puct-search-events" / "conv_chain__b" / "events-0.parquet", events_v3()),
        write(base / "gpu-forecasters-puct-search-events" / "_summaries" / "summaries-0.parquet",
              [{"source_search": SEARCH, "internal_experiment": "x", "n_steps": 1, "n_evaluations": 4, "n_correct": 1,
                "best_speedup": 1.0, "archive_size_final": 2, "config_snapshot": {"steps": 1}}]),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def release_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="session")
def imported(release_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """The whole release, imported once."""
    out = tmp_path_factory.mktemp("imported") / "gpu-forecasters"
    return out, import_files(None, release_files, out, ImportSettings(revisions=dict.fromkeys(DATASETS, "abc123")))


@pytest.fixture
def run_import(tmp_path: Path) -> Callable[..., tuple[Path, Report]]:
    """Import files into a fresh folder."""

    def run(form: str | None, *paths: Path, **settings: Any) -> tuple[Path, Report]:
        out = tmp_path / "out"
        return out, import_files(form, list(paths), out, ImportSettings(**settings))

    return run
