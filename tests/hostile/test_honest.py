"""Honest controls: whatever is done against cheats, these kernels are measured ok."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

import kbench.harness.cuda as cuda
from kbench.harness.harness import Harness
from kbench.harness.kernel.loading import LoadedKernel
from kbench.harness.kernel.sources import read_kernel
from kbench.schemas import Backend, KernelSource, Measurement, Status
from kbench.schemas.status import Trust

CONTROLS = Path(__file__).parent / "honest"


@dataclasses.dataclass(frozen=True, slots=True)
class Control:
    """An honest kernel, described by its first lines.

    Tags: `gpu` needs one to run; `needs-libcudacxx` includes headers of libcu++.
    """

    name: str
    honest: str
    tags: frozenset[str]
    kernel: KernelSource

    @property
    def compiles(self) -> bool:
        """Whether this machine has the headers it asks for."""
        return "needs-libcudacxx" not in self.tags or has_libcudacxx()


def has_libcudacxx() -> bool:
    """Whether kernels can include libcu++."""
    return any((folder / "nv" / "target").exists() for folder in cuda.include_folders())


def read_control(path: Path) -> Control:
    """A file with its header."""
    lines = itertools.takewhile(lambda line: line.startswith("# "), path.read_text().splitlines())
    head = dict(line[2:].split(": ", 1) for line in lines if ": " in line)
    kernel = read_kernel(path, head["problem"])
    return Control(path.stem, head["honest"], frozenset(head.get("tags", "").split()), kernel)


def controls(*, gpu: bool) -> list[Control]:
    """Those that can be run here and now."""
    found = map(read_control, sorted(CONTROLS.glob("*.py")))
    return [control for control in found if control.compiles and (gpu or "gpu" not in control.tags)]


def test_there_are_controls_of_both_backends() -> None:
    backends = [read_control(path).kernel.backend for path in CONTROLS.glob("*.py")]
    assert min(backends.count(Backend.TRITON), backends.count(Backend.CUDA)) >= 12


@pytest.mark.parametrize("control", controls(gpu=True), ids=lambda c: c.name)
def test_cuda_controls_compile(control: Control) -> None:
    loaded = LoadedKernel(control.kernel)
    sizes = [len(bytes(module.compile("sm_90a").code)) for module in loaded.cuda_modules]
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
def test_controls_pass_in_the_interpreter(control: Control, checked: dict[str, Measurement]) -> None:
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
