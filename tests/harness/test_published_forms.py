"""Kernels in the forms others publish, imported into a corpus, are found, resolved to our problems and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.problems.registry import resolve
from kbench.harness.adapters import LAYOUTS, adapt, adapter_for
from kbench.harness.session import measurable
from kbench.loaders.expression import read_expression
from kbench.loaders.importers.rows import backend_of, kernel_row
from kbench.loaders.writer import CorpusWriter
from kbench.schemas import Kernel, Status, from_dict

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
    assert resolve("kernelbench_unstated_suite_l1_19") is None


def test_rows_that_cannot_be_measured_are_left_out() -> None:
    row: dict[str, Any] = {"problem_id": "kernelbench_v0_l1_19", "backend": "triton", "source": "def run(x): ..."}
    rows = [row, row | {"backend": "config"}, row | {"problem_id": "kernelbench_l3_chain"}]
    found, strangers = measurable(rows, None)
    assert [kernel.problem_id for kernel, _ in found.values()] == ["relu"]
    assert strangers == ["kernelbench_l3_chain"]
    assert measurable(rows, 0) == ({}, [])


def test_trimul_gets_the_data_its_task_hands_over() -> None:
    import torch

    weights = [torch.zeros(32), torch.zeros(32), *(torch.zeros(128, 32) for _ in range(5))]
    inputs = [torch.zeros(1, 4, 4, 32), torch.zeros(1, 4, 4), *weights, torch.zeros(128), torch.zeros(128)]
    run = adapt({"custom_kernel": lambda data: data}, "trimul")
    assert run is not None
    x, mask, named, config = run(*inputs, torch.zeros(32, 128))
    assert (x.shape, mask.shape) == ((1, 4, 4, 32), (1, 4, 4))
    assert named["to_out.weight"].shape == (32, 128)
    assert config == {"dim": 32, "hidden_dim": 128}
    assert set(LAYOUTS) == {"trimul"}


def test_a_condition_may_be_written_with_one_equals_sign() -> None:
    class Words:
        def field(self, name: str) -> Any:
            return name

        def among(self, field: Any, values: list[Any]) -> Any:
            return (field, values)

        def null(self, field: Any) -> Any:
            return (field, None)

    assert read_expression("backend='backend'", ["backend"], Words()) is True
    assert read_expression("backend='a=b'", ["backend"], Words()) is False


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["triton", "cuda"])
def test_published_forms_are_measured_on_a_gpu(tmp_path: Path, backend: str) -> None:
    from kbench.harness.progress import Progress
    from kbench.harness.session import remeasure
    from kbench.loaders.corpus import load
    from kbench.schemas.measurement import Measurement

    options = {
        "corpus": str(write_corpus(tmp_path / "corpus")), "where": f"backend='{backend}'", "limit": None, "gpu": "0",
        "out": tmp_path / "measured", "half_width": 0.02, "timeout_s": 300.0,
    }  # fmt: skip
    assert remeasure(options, Progress)["kernels"] == 2
    rows = [row for row in load(tmp_path / "measured", config="measurements").records() if isinstance(row, Measurement)]
    assert {row.problem_id for row in rows} == {"fp8_quant", "relu"}
    assert {(row.status, row.error) for row in rows} == {(Status.OK, None)}
