"""Honest controls: whatever is done against cheats, these kernels are measured ok."""

from pathlib import Path

import pytest

import kbench.harness.cuda as cuda
from kbench.harness.harness import Harness
from kbench.harness.kernel.loading import LoadedKernel
from kbench.schemas import Backend, Measurement, Status
from kbench.schemas.status import Trust

from . import Cell, read_cells

CONTROLS = Path(__file__).parent / "honest"


def has_libcudacxx() -> bool:
    """Whether kernels can include libcu++."""
    return any((folder / "nv" / "target").exists() for folder in cuda.include_folders())


def controls(*, gpu: bool) -> list[Cell]:
    """Those that can be run here and now: with the headers of libcu++ and with a GPU where their tags ask for them."""
    compiles = has_libcudacxx()
    found = (one for one in read_cells(CONTROLS) if compiles or "needs-libcudacxx" not in one.tags)
    return [control for control in found if gpu or "gpu" not in control.tags]


def test_there_are_controls_of_both_backends() -> None:
    found = list(read_cells(CONTROLS))
    assert all(control.head["honest"] and control.head["problem"] for control in found)
    assert {control.kernel.backend for control in found} == {Backend.TRITON, Backend.CUDA}


@pytest.mark.parametrize("control", controls(gpu=True), ids=lambda c: c.name)
def test_cuda_controls_compile(control: Cell) -> None:
    loaded = LoadedKernel(control.kernel)
    modules = [value for value in vars(loaded.module).values() if isinstance(value, cuda.CudaModule)]
    sizes = [len(bytes(module.compile("sm_90a").code)) for module in modules]
    loaded.unload()
    assert bool(sizes) == (control.kernel.backend is Backend.CUDA)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measurement]:
    """What the harness makes of the controls that an interpreter can run."""
    settings = {"workloads": ("tiny",), "timeout_s": 120.0, "build_timeout_s": 120.0}
    queue = [control.kernel for control in controls(gpu=False)]
    with Harness(gpu=None, cache=tmp_path_factory.mktemp("cache"), builders=2, **settings) as harness:
        return {row.kernel_id: row for row in harness.measure(queue, check_only=True)}


@pytest.mark.parametrize("control", controls(gpu=False), ids=lambda c: c.name)
def test_controls_pass_in_the_interpreter(control: Cell, checked: dict[str, Measurement]) -> None:
    row = checked[control.kernel.kernel_id]
    assert (row.status, row.error) == (Status.OK, None)


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_controls_are_planned_and_measured_ok_on_every_workload(tmp_path: Path) -> None:
    found = controls(gpu=True)
    names = {control.kernel.kernel_id: control.name for control in found}
    with Harness(gpu=0, cache=tmp_path, build_timeout_s=120.0) as harness:
        rows = list(harness.measure([control.kernel for control in found]))
    good = (Status.OK, Trust.PLAN)
    wrong = {f"{names[row.kernel_id]} {row.workload}": row.error for row in rows if (row.status, row.trust) != good}
    assert wrong == {}
    assert {row.kernel_id for row in rows} == names.keys()
