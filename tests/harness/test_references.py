"""Reference times: measured three ways, resumed from what the file holds, and read back for a corpus."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from kbench.benchmark.problems import problem
from kbench.benchmark.problems.registry import known
from kbench.benchmark.problems.vendor import ATTENTION, CUBLAS, CUDNN, EPILOGUES, vendor_calls
from kbench.cli import cli
from kbench.harness.commands import counters
from kbench.harness.commands.counters import Profiler, count, matched, read_table, summed
from kbench.harness.commands.references import measure_references, open_device, with_plain_torch
from kbench.harness.device.gpu import Gpu
from kbench.loaders.storage.lines import read_records
from kbench.schemas import DataError, InfrastructureError, ReferenceTime, UserError

NAMES = ("swiglu", "linear_residual_bf16", "conv3x3_fp16")


def unchanged(call: Callable[..., Any]) -> Callable[..., Any]:
    return call


def measured(out: Path, *names: str, compiler: Callable[..., Any] = unchanged) -> list[ReferenceTime | str]:
    return list(measure_references([problem(name) for name in names], out, open_device(None), None, compiler))


def test_a_reference_is_timed_eager_compiled_and_as_the_vendor_has_it(tmp_path: Path) -> None:
    out = tmp_path / "references.jsonl"
    rows = {row.problem_id: row for row in measured(out, *NAMES) if isinstance(row, ReferenceTime)}
    assert list(rows) == list(NAMES)
    assert all(row.reference_us > 0 and row.compiled_us and row.compiled_error is None for row in rows.values())
    assert rows["swiglu"].vendor_us is None
    assert rows["swiglu"].vendor_error is None
    assert rows["linear_residual_bf16"].vendor == "cuBLASLt"
    assert rows["conv3x3_fp16"].vendor == "cuDNN"
    assert read_records(out, ReferenceTime) == list(rows.values())
    assert measured(out, *NAMES) == []


def test_a_wrong_or_broken_answer_has_an_error_and_no_time(tmp_path: Path) -> None:
    def broken(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(*inputs: Any) -> Any:
            if inputs[0].shape[0] == 5:
                raise RuntimeError("no compiler\nhere")
            return call(*inputs) + 1.0

        return wrong

    raised, wrong = measured(tmp_path / "r.jsonl", "swiglu", "conv3x3_fp16", compiler=broken)
    assert isinstance(raised, ReferenceTime)
    assert isinstance(wrong, ReferenceTime)
    assert (raised.compiled_us, raised.compiled_error) == (None, "torch.compile: RuntimeError: no compiler")
    assert wrong.compiled_us is None
    assert "beyond tolerance" in str(wrong.compiled_error)


def test_every_vendor_call_is_of_a_known_problem() -> None:
    assert CUBLAS | CUDNN | ATTENTION | EPILOGUES.keys() <= known().keys()
    assert list(vendor_calls(problem("causal_attention"))) == ["FlashAttention", "cuDNN"]
    assert vendor_calls(problem("relu")) == {}


def test_the_compiler_sees_torch_itself_in_a_reference() -> None:
    plain = with_plain_torch(problem("swiglu").reference)
    assert plain.__globals__["torch"] is torch
    assert plain.__globals__["F"] is torch.nn.functional
    inputs = problem("swiglu").draw(problem("swiglu").tiny, 0)
    assert torch.equal(plain(*inputs), problem("swiglu").reference(*inputs))


@pytest.mark.parametrize("name", ["token_log_probs", "layer_norm"])
def test_the_command_resumes(name: str, tmp_path: Path) -> None:
    out = str(tmp_path / "r.jsonl")
    arguments = ["problems", "references", "--cpu", "--problem", name, "--out", out]
    first, second = CliRunner().invoke(cli, arguments), CliRunner().invoke(cli, arguments)
    assert f'"problem_id": "{name}"' in first.output
    assert (first.exit_code, second.exit_code, second.output) == (0, 0, "")


METRICS = (counters.DURATION, *counters.SUMS.values(), *counters.SHARES.values(), counters.PASSES)


def table(*rows: tuple[str, list[str]]) -> str:
    """A table as ncu prints it."""
    lines = [["ID", "Kernel Name", *METRICS], ["", "", "ns", *[""] * (len(METRICS) - 1)]]
    lines += [[str(at), name, *values] for at, (name, values) in enumerate(rows)]
    text = "\n".join(",".join(f'"{value}"' for value in line) for line in lines)
    return f"==PROF== Connected to process 1\n{text}\n"


SHORT = ["1,000", "2,048", "0", "4,096", "50", "10", "0", "1"]
LONG = ["3,000", "1,000,000", "512", "2,000,000", "90", "30", "80", "1"]


def test_a_call_sums_bytes_and_weighs_shares_by_time() -> None:
    found = summed(list(read_table(table(("split", SHORT), ("gemm", LONG)))))
    assert found["launches"] == 2
    assert found["profiled_us"] == 4.0
    assert (found["dram_read_bytes"], found["dram_write_bytes"], found["l2_bytes"]) == (1_002_048, 512, 2_004_096)
    assert (found["occupancy_percent"], found["issue_percent"], found["tensor_percent"]) == (80.0, 25.0, 60.0)


def test_a_second_pass_is_refused_because_its_cache_is_warm() -> None:
    with pytest.raises(DataError, match="several passes"):
        summed(list(read_table(table(("gemm", [*LONG[:-1], "2"])))))


def test_launches_are_given_to_the_calls_that_made_them() -> None:
    launches = list(read_table(table(("a", SHORT), ("b", LONG), ("a", SHORT))))
    calls = [{"kernel_id": "1", "functions": ["a", "b"]}, {"kernel_id": "2", "functions": ["a"]}]
    assert [len(rows) for _, rows in matched(calls, launches)] == [2, 1]
    calls[1]["functions"] = ["other"]
    with pytest.raises(DataError, match="kernel 2 launched other, the profiler saw a"):
        list(matched(calls, launches))


ENTRY: dict[str, Any] = {"kernel_id": "0123456789abcdef", "problem_id": "relu", "plans": {}, "code": {}}


def fake_ncu(folder: Path, text: str, calls: list[dict[str, Any]]) -> Profiler:
    """A program in the profiler's place: it writes a table and the order of the calls."""
    program = folder / "ncu"
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        f"pathlib.Path(sys.argv[sys.argv.index('--log-file') + 1]).write_text({text!r})\n"
        f"pathlib.Path(sys.argv[-2]).write_text({''.join(json.dumps(call) + chr(10) for call in calls)!r})\n"
    )
    program.chmod(0o755)
    return Profiler(str(program), "2025.3.1")


def test_a_batch_becomes_records(tmp_path: Path) -> None:
    kernel = ENTRY["kernel_id"]
    calls = [{"kernel_id": kernel, "workload": "large", "functions": ["split", "gemm"]}]
    tool = fake_ncu(tmp_path, table(("split", SHORT), ("gemm", LONG)), calls)
    (row,) = tool.profile([ENTRY], Gpu(), "NVIDIA H200")
    assert (row.kernel_id, row.problem_id, row.workload, row.gpu) == (kernel, "relu", "large", "NVIDIA H200")
    assert (row.launches, row.profiler) == (2, "ncu 2025.3.1")


def test_a_profiler_that_may_not_count_says_so(tmp_path: Path) -> None:
    refusal = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters\n"
    tool = fake_ncu(tmp_path, refusal, [])
    with pytest.raises(InfrastructureError, match="ERR_NVGPUCTRPERM"):
        tool.profile([ENTRY], Gpu(), "x")


def test_a_profiler_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "START_S", 0.2)
    monkeypatch.setattr(counters, "SECONDS_PER_KERNEL", 0.0)
    program = tmp_path / "ncu"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(InfrastructureError, match=r"took longer than 0\.2 s for a batch"):
        Profiler(str(program), "2025.3.1").profile([ENTRY], Gpu(), "x")


def test_what_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep)
    with pytest.raises(UserError, match="ncu is not on PATH"):
        list(count({}, tmp_path / "out.jsonl", Gpu(), None))
    with pytest.raises(UserError, match="counters are of a whole GPU"):
        list(count({}, tmp_path / "out.jsonl", Gpu(0, 64), None))
    result = CliRunner().invoke(cli, ["kernels", "counters", "--help"])
    assert result.exit_code == 0
    assert "Nsight Compute" in result.output
