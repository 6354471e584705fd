"""Files of the other formats, as their makers write them; all values invented."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TRITON = "import triton\n\n\n@triton.jit\ndef k(x):\n    pass\n\n\ndef custom_kernel(data):\n    return data\n"
CUDA = 'source = r"""\n__global__ void k(float* x) {}\n"""\n\n\nclass ModelNew:\n    pass\n'
PLAIN = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
H100 = "NVIDIA H100 80GB HBM3"


def timing(mean: float, **changes: Any) -> dict[str, Any]:
    stats = {"mean": mean, "std": 0.01, "min": mean * 0.9, "max": mean * 1.2, "num_trials": 100, "hardware": H100}
    return stats | {"device": "cuda:0"} | changes


def sample(compiled: bool, correct: bool, runtime: float, **changes: Any) -> dict[str, Any]:
    stats = timing(runtime) if runtime > 0 else {}
    record = {"compiled": compiled, "correctness": correct, "runtime": runtime, "runtime_stats": stats}
    return record | {"metadata": {"hardware": H100, "device": "cuda:0"}} | changes


def kernelbench_eval(path: Path) -> Path:
    wrong = sample(True, False, -1, metadata={"correctness_issue": "max difference 3.0"})
    crashed = sample(True, False, -1, metadata={"runtime_error": "misaligned address", "runtime_error_name": "Error"})
    broken = sample(False, False, -1, metadata={"compilation_error": "no such header"})
    results = {
        "1": {"0": sample(True, True, 1.25), "1": sample(True, True, -1)},
        "2": [wrong, crashed, broken],
        "100": sample(True, True, 0.5, sample_id=3),
    }
    path.write_text(json.dumps(results))
    return path


def kernelbench_timing(path: Path) -> Path:
    levels = {
        "level1": {"1_Square_matrix_multiplication_.py": timing(2.5), "19_ReLU.py": timing(0.05)},
        "level2": {"3_Conv.py": timing(1.5, hardware="")},
    }
    path.write_text(json.dumps(levels))
    return path


def cuda_l1_rows() -> list[dict[str, Any]]:
    base = {"level_id": 1, "ref_code": PLAIN}
    return [
        base | {"task_id": 1, "custom_code": CUDA, "score_default": 2.5, "score_torch_compile_default": 1.5},
        base | {"task_id": 2, "custom_code": None, "score_default": None},
        base | {"task_id": 3, "custom_code": PLAIN, "score_default": 130.0},
        base | {"task_id": 4, "custom_code": TRITON, "score_torch_compile_default": 1.5},
    ]


def cuda_l1(path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in cuda_l1_rows()))
    return path


def cache_entry(block: int, time: Any, times: list[float] | None = None) -> tuple[str, dict[str, Any]]:
    entry = {"block_size_x": block, "tile": 2, "time": time, "compile_time": 90.0}
    return f"{block},2", entry | ({"times": times} if times else {})


def cache_text(closed: bool = True, **head: Any) -> str:
    """A cache as Kernel Tuner appends to it: a line an entry."""
    entries = [
        cache_entry(32, 1.5, [1.4, 1.5, 1.6]), cache_entry(64, 0.75, [0.7, 0.8]), cache_entry(128, "InvalidConfig"),
        cache_entry(256, "CompilationFailedConfig"), cache_entry(512, 1e20),
    ]  # fmt: skip
    opening = {"schema_version": "1.0.0", "device_name": "NVIDIA A100-PCIE-40GB", "kernel_name": "vector_add"} | head
    opening |= {"tune_params_keys": ["block_size_x", "tile"], "tune_params": {"block_size_x": [32], "tile": [2]}}
    start = json.dumps(opening)[:-1] + ',\n"cache": {\n'
    body = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in entries)
    return start + body + ("}\n}\n" if closed else ",")


def kernel_tuner(path: Path) -> Path:
    path.write_text(cache_text())
    return path


def t4_result(block: int, value: float, invalidity: str = "correct", unit: str = "ms") -> dict[str, Any]:
    return {
        "timestamp": "2026-01-01T00:00:00+00:00", "configuration": {"block_size_x": block},
        "times": {"compilation_time": 90, "framework": 1, "search_algorithm": 0, "validation": 0, "runtimes": [value]},
        "invalidity": invalidity, "correctness": int(invalidity == "correct"), "objectives": ["time"],
        "measurements": [{"name": "time", "value": value, "unit": unit}] if invalidity == "correct" else [],
    }  # fmt: skip


def t4(path: Path) -> Path:
    results = [t4_result(32, 1.5), t4_result(64, 800.0, unit="microseconds"), t4_result(96, 1.0, "compile"),
               t4_result(128, 1.0, "constraints")]  # fmt: skip
    head = {"schema_version": "1.0.0", "metadata": {"device": "NVIDIA A100-PCIE-40GB", "kernel_name": "conv"}}
    path.write_text(json.dumps(head | {"results": results}))
    return path


def trace(uuid: str, status: str = "PASSED", latency: float = 0.5, solution: str = "gemm_triton") -> dict[str, Any]:
    passed = status == "PASSED"
    evaluation = {
        "status": status, "log": "" if passed else "boom", "timestamp": "2026-01-01T00:00:00",
        "environment": {"hardware": "NVIDIA B200", "libs": {"torch": "2.8"}},
        "correctness": {"max_relative_error": 0.001, "max_absolute_error": 0.01} if passed else None,
        "performance": {"latency_ms": latency, "reference_latency_ms": 1.0, "speedup_factor": 1.0 / latency}
        if passed else None,
    }  # fmt: skip
    workload = {"axes": {"M": 16}, "inputs": {}, "uuid": uuid}
    return {"definition": "gemm_n4096", "workload": workload, "solution": solution, "evaluation": evaluation}


def flashinfer_trace(path: Path) -> Path:
    rows = [trace("1a-2b"), trace("3c-4d", latency=0.25), trace("1a-2b", "INCORRECT_NUMERICAL", solution="other")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def gpu_mode(path: Path) -> Path:
    rows = [
        {"code": TRITON, "run_score": 0.0015, "leaderboard_name": "trimul", "gpu_type": "A100", "run_passed": True},
        {"code": CUDA, "run_score": None, "leaderboard_name": "vector add", "gpu_type": "H100", "run_passed": False},
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def ktt_result(block: int, duration: float, status: str = "Ok") -> dict[str, Any]:
    parameters = [{"Name": "BLOCK", "Value": block, "ValueType": "UnsignedInt"}]
    return {
        "KernelName": "Convolution", "Configuration": parameters, "Status": status, "TotalDuration": duration,
        "ComputationResults": [{"Duration": duration, "KernelFunction": "Convolution"}], "ExtraDuration": 0.0,
    }  # fmt: skip


def ktt(path: Path) -> Path:
    metadata = {"ComputeApi": "CUDA", "Device": "NVIDIA GeForce RTX 3090", "TimeUnit": "Microseconds"}
    results = [ktt_result(8, 1189.696), ktt_result(16, 900.0), ktt_result(32, 0.0, "CompilationFailed")]
    path.write_text(json.dumps({"Metadata": metadata, "Results": results}, indent=4))
    return path


def evaluated(status: str = "PASSED", latency: float = 0.5, uuid: str = "1a-2b") -> dict[str, Any]:
    timed = {"latency_ms": latency, "reference_latency_ms": 1.0} if status == "PASSED" else {}
    return {"workload_uuid": uuid, "status": status, "log": "boom" if not timed else "", **timed}


def evaluation(*workloads: dict[str, Any], **more: Any) -> str:
    provenance = {"torch": {"devices": ["AMD Instinct MI350X"]}}
    return json.dumps({"_provenance": provenance, "workloads": len(workloads), "per_workload": workloads, **more})


def sol_execbench(folder: Path) -> Path:
    """Five evaluations of one trajectory: correct, cheated, correct again, crashed, and one whose text is lost."""
    trajectory = folder / "run-1" / "trajectory" / "L1__001_softmax"
    trajectory.mkdir(parents=True)
    second = evaluated(latency=2.0, uuid="3c-4d")
    for stamp, source, text in (
        (11, TRITON, evaluation(evaluated(), second)),
        (12, CUDA, evaluation(evaluated(), evaluated("REWARD_HACK", uuid="3c-4d"))),
        (13, TRITON + "\n", evaluation(evaluated(), second)),
        (14, PLAIN, evaluation(error="RuntimeError: no traces")),
        (15, None, evaluation(evaluated(), second)),
    ):
        (trajectory / f"eval-{stamp}.json").write_text(text)
        if source is not None:
            (trajectory / f"kernel-{stamp}.py").write_text(source)
    workloads = folder / "workloads" / "L1" / "001_softmax"
    workloads.mkdir(parents=True)
    (workloads / "workload.jsonl").write_text(json.dumps({"uuid": "1a-2b", "axes": {"rows": 64}}) + "\n")
    axes = {"rows": {"type": "var"}, "cols": {"type": "const", "value": 128}}
    tensors = {"x": {"shape": ["rows", "2 * cols"], "dtype": "bfloat16"}, "scale": {"shape": None, "dtype": "float32"}}
    definition = {"axes": axes, "inputs": tensors, "outputs": {"y": tensors["x"]}, "reference": PLAIN}
    (workloads / "definition.json").write_text(json.dumps(definition))
    return folder


def openevolve(folder: Path) -> Path:
    """Two evaluated texts, one the parent of the other, and a program that only a checkpoint holds."""
    for name, source, status, time in (("a", TRITON, "success", 1.5), ("b", CUDA, "validation_failed", 0.0)):
        place = folder / "moe" / "evaluator" / f"eval_{name}"
        place.mkdir(parents=True)
        (place / f"llm_code_{name}.py").write_text(source)
        metrics = {"exec_time_ms": time, "speedup": 4.0} if time else {}
        result = {"status": status, "summary": "said", "metrics": metrics, "artifacts": {"task_id": "moe_fp8"}}
        (place / "evaluation_result.json").write_text(json.dumps(result))
    programs = folder / "moe" / "database" / "checkpoints" / "checkpoint-2" / "solutions"
    programs.mkdir(parents=True)
    kept = json.dumps({"status": "success", "metrics": {"exec_time_ms": 2.0}, "artifacts": {"task_id": "moe_fp8"}})
    for name, source, parent in (("1", TRITON, None), ("2", CUDA, "1"), ("3", PLAIN, "1")):
        program = {"solution": source, "solution_id": name, "parent_id": parent, "iteration": 7, "evaluation": kept}
        (programs / f"{name}.json").write_text(json.dumps(program))
    return folder


MAKERS = {
    "kernelbench-eval": (kernelbench_eval, "eval_results.json"),
    "kernelbench-timing": (kernelbench_timing, "baseline_time_torch.json"),
    "cuda-l1": (cuda_l1, "a100.json"),
    "kernel-tuner": (kernel_tuner, "cache.json"),
    "t4": (t4, "results.json"),
    "ktt": (ktt, "KTTOutput.json"),
    "flashinfer-trace": (flashinfer_trace, "traces.jsonl"),
    "gpu-mode": (gpu_mode, "submissions.parquet"),
    "sol-execbench": (sol_execbench, "artifacts"),
    "openevolve": (openevolve, "traces"),
}
