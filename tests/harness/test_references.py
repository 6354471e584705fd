"""Reference times: measured three ways, resumed from what the file holds, and read back for a corpus."""

from __future__ import annotations

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
from kbench.harness.commands.references import measure_references, open_device, with_plain_torch
from kbench.loaders.storage.lines import read_records
from kbench.schemas import ReferenceTime

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
