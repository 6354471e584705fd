"""Kernels in the forms others publish, imported into a corpus, are found, resolved to our problems and measured."""

from pathlib import Path
from typing import Any

import pytest
import stand_in
from torch.utils import cpp_extension

from kbench.benchmark.problems.registry import resolve
from kbench.harness.commands import measure
from kbench.harness.commands.selection import measurable
from kbench.harness.commands.show import show_agreement
from kbench.harness.device.target import Target
from kbench.harness.kernel.adapters import adapter_for
from kbench.harness.kernel.loading import compiler_errors
from kbench.harness.settings import HarnessSettings
from kbench.harness.timing.rounds import TimingSettings
from kbench.harness.worker.serve import build_extension
from kbench.loaders.corpus.corpus import load
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.importers.rows import backend_of, kernel_row
from kbench.schemas import Backend, InfrastructureError, Kernel, KernelSource, Measurement, Status, from_dict

FOLDER = Path(__file__).parents[1] / "fixtures" / "published"
FILES = sorted(FOLDER.glob("*.py"))


def write_corpus(folder: Path) -> Path:
    """The fixtures as imported rows, problems named as their suites name them."""
    rows = []
    for path in FILES:
        source = path.read_text()
        named = source.splitlines()[0].removeprefix("# problem: ")
        problem = named.lower().replace("/", "_")
        row = kernel_row(
            problem, "imported", backend_of(source), source, gpu=None, origin=f"fixture {path.name}", license="MIT",
            split="test",
        )  # fmt: skip
        rows.append(from_dict(Kernel, row))
    with CorpusWriter(folder) as writer:
        writer.append("kernels", rows)
    return folder


def test_there_is_a_kernel_of_each_form_and_backend() -> None:
    found = {(adapter_for(path.read_text()), backend_of(path.read_text()).value) for path in FILES}
    assert found == {(form, backend) for form in ("custom_kernel", "ModelNew") for backend in ("triton", "cuda")}


def test_other_suites_names_lead_to_our_problems() -> None:
    assert resolve("relu") == resolve("kernelbench/v0/L1/19") == resolve("kernelbench_v0_l1_19") == "relu"
    assert resolve("fp8_quant") == "fp8_quant"
    assert resolve("fp8_quant_float32") == "fp8_quant_float32", "what was measured can be measured again"
    assert resolve("kernelbench_unstated_suite_l1_19") is None


def test_rows_that_cannot_be_measured_are_left_out() -> None:
    row: dict[str, Any] = {"problem_id": "kernelbench_v0_l1_19", "backend": "triton", "source": "def run(x): ..."}
    rows = [row, row | {"backend": "config"}, row | {"problem_id": "kernelbench_l3_chain"}]
    found, left_out = measurable(rows)
    assert [one.kernel.problem_id for one in found.values()] == ["relu"]
    assert left_out == ["of problem 'kernelbench_l3_chain' we have no reference; --problem takes its file"]


@pytest.mark.parametrize(
    ("source", "measured_on"),
    [("def custom_kernel(data): ...", "fp8_quant_float32"), ("def run(x, group): ...", "fp8_quant")],
)
def test_a_kernel_of_a_task_that_shares_our_problems_name_is_measured_on_the_task(
    source: str, measured_on: str
) -> None:
    row = {"problem_id": "fp8_quant", "backend": "triton", "source": source}
    found, left_out = measurable([row])
    (one,) = found.values()
    assert (one.kernel.problem_id, one.first["problem_id"]) == (measured_on, "fp8_quant")
    assert list(found) == [one.kernel.kernel_id]
    assert not left_out


EXTENSION = """
import torch
from torch.utils.cpp_extension import load_inline
class ModelNew(torch.nn.Module):
    pass
{last}
"""
MISSING = "RuntimeError('Ninja is required to load C++ extensions (pip install ninja to get it)')"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("OSError('CUDA_HOME environment variable is not set. Please set it to your CUDA install root.')", "nvcc"),
        (MISSING, "ninja"),
        ("FileNotFoundError(2, 'No such file or directory', 'c++')", "c++"),
        ("RuntimeError('The detected CUDA version (12.8) mismatches the version that was used to compile')", "(12.8)"),
    ],
)
def test_a_tool_the_machine_lacks_is_not_held_against_the_kernel(
    tmp_path: Path, error: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As torch raises it: from within its own file.
    names: dict[str, Any] = {}
    exec(compile(f"def load_inline():\n    raise {error}", cpp_extension.__file__, "exec"), names)
    monkeypatch.setattr(cpp_extension, "load_inline", names["load_inline"])
    made = extension_of("load_inline()", tmp_path, monkeypatch)
    assert made["machine"]
    assert told in made["error"]


@pytest.mark.parametrize("error", ["OSError('no such table')", MISSING])
def test_what_the_kernel_does_wrong_on_import_is_held_against_it(
    tmp_path: Path, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = extension_of(f"raise {error}", tmp_path, monkeypatch)
    assert (made["machine"], made["status"]) == (False, Status.COMPILE_ERROR)
    assert error.partition("(")[0] in made["error"]
    built = extension_of("", tmp_path, monkeypatch)
    assert built["unplannable"], "an extension that builds leaves a kernel that cannot be planned"
    assert "machine" not in built


def extension_of(last: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What comes of importing a kernel for its torch extension."""
    for name in ("TORCH_EXTENSIONS_DIR", "TORCH_CUDA_ARCH_LIST"):
        monkeypatch.setenv(name, "")
    return build_extension(KernelSource("relu", Backend.CUDA, EXTENSION.format(last=last)), Target(9, 0), str(folder))


def test_kernels_the_machine_fails_keep_nobody_else_from_being_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = write_corpus(tmp_path / "corpus"), tmp_path / "measured"
    options = measure.MeasureOptions(corpus=str(corpus), out=out)
    machine = stand_in.StandIn("G", "cross_entropy_fwd_bwd")
    monkeypatch.setattr(measure, "make_harness", lambda given: machine)
    with pytest.raises(InfrastructureError, match=r"failed 2 of 5 kernels.*no nvcc was found"):
        measure.remeasure(options)
    assert set(load(out).to_arrow().column("problem_id").to_pylist()) == {"relu", "fp8_quant_float32"}
    machine = stand_in.StandIn("G")
    assert measure.remeasure(options)["kernels"] == 5
    assert machine.asked == 2, "what was measured the first time is not measured again"
    assert load(out).to_arrow().num_rows == load(out, config="measurements").to_arrow().num_rows == 5
    assert load(out, config="environments").to_arrow().num_rows == 1


def test_a_corpus_measured_again_says_what_was_measured_on_a_problem_that_is_not_the_benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, out = write_corpus(tmp_path / "corpus"), tmp_path / "measured"
    options = measure.MeasureOptions(corpus=str(corpus), where="problem_id = 'fp8_quant'", out=out)
    monkeypatch.setattr(measure, "make_harness", lambda given: stand_in.StandIn("G"))
    report = measure.remeasure(options)
    assert report["measured as"] == {"fp8_quant_float32": 1}
    assert "left out" not in report
    show_agreement(report, as_json=False)
    assert "1 measured as fp8_quant_float32, which is no problem of the benchmark\n" in capsys.readouterr().out
    assert load(corpus, where=options.where).to_arrow().num_rows == 1, "what is stored keeps its problem"
    assert load(out, config="measurements").to_arrow().column("problem_id").to_pylist() == ["fp8_quant_float32"]


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("backend", "problems"),
    [("triton", {"cross_entropy_fwd_bwd", "relu", "fp8_quant_float32"}), ("cuda", {"cross_entropy_fwd_bwd", "relu"})],
)
def test_published_forms_are_measured_on_a_gpu(tmp_path: Path, backend: str, problems: set[str]) -> None:
    # What compiles a torch extension cannot be planned; the others are.
    options = measure.MeasureOptions(
        corpus=str(write_corpus(tmp_path / "corpus")),
        where=f"backend='{backend}'",
        out=tmp_path / "measured",
        harness=HarnessSettings(
            timing=TimingSettings(half_width=0.02), timeout_s=300.0, allow_unscreened=backend == "cuda"
        ),
    )
    assert measure.remeasure(options)["kernels"] == len(problems)
    rows = [row for row in load(tmp_path / "measured", config="measurements").records() if isinstance(row, Measurement)]
    assert {row.problem_id for row in rows} == problems
    assert {(row.status, row.error) for row in rows} == {(Status.OK, None)}
    assert {row.trust for row in rows} == {"process" if backend == "cuda" else "plan"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "Error building extension 'mine': [1/2] nvcc -c cuda.cu\nFAILED: cuda.o\ncuda.cu(3): error: no such name\n",
            "Error building extension 'mine'; cuda.cu(3): error: no such name",
        ),
        ("Error building extension 'mine': ninja is missing", "Error building extension 'mine': ninja is missing"),
        ("name 'x' is not defined\nerror", "name 'x' is not defined\nerror"),
    ],
)
def test_an_extension_that_does_not_build_says_what_its_compiler_said(said: str, shown: str) -> None:
    assert compiler_errors(said) == shown
