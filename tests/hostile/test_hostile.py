"""Every known cheat, run: none is recorded ok with a false time or answer, none harms its honest neighbours.

Two layers are tested apart. With the screen on, what breaks the rules is refused by its text. With the screen off,
the same kernels run, and verification, audits and isolation must stop them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kbench.harness.harness import Harness
from kbench.harness.kernel.screen import screen
from kbench.harness.kernel.sources import read_kernel
from kbench.schemas import KernelSource, Measurement, Status

KERNELS = Path(__file__).parent / "kernels"
HONEST = Path(__file__).parents[1] / "harness" / "kernels"
PROBLEM = "gelu_tanh"
HONEST_EVERY = 6


@dataclasses.dataclass(frozen=True, slots=True)
class Specimen:
    """A hostile kernel, described by its first lines.

    Tags: `gpu` cannot act without a GPU; `passes-screen` uses only what honest kernels use; `truthful` breaks the
    rules without lying about answer or time, so only the screen need stop it; `slow` must be ended by its deadline.
    """

    name: str
    cheat: str
    tags: frozenset[str]
    kernel: KernelSource


def specimens(*, gpu: bool) -> list[Specimen]:
    """Those that can act on a GPU or, without one, on the CPU."""
    found = []
    for path in sorted(KERNELS.glob("*.py")):
        kernel = read_kernel(path, PROBLEM)
        head = dict(line[2:].split(": ", 1) for line in kernel.source.splitlines()[:2] if line.startswith("# "))
        specimen = Specimen(path.stem, head["cheat"], frozenset(head.get("tags", "").split()), kernel)
        if gpu or "gpu" not in specimen.tags:
            found.append(specimen)
    return found


def honest(number: int, name: str) -> KernelSource:
    """An honest kernel with an identity of its own."""
    kernel = read_kernel(HONEST / name, PROBLEM)
    return dataclasses.replace(kernel, source=f"# neighbour {number}\n{kernel.source}")


def unscreened_but_honest() -> list[KernelSource]:
    """Kernels that fail the screen by what others do: they compile, and keep files for a while."""
    kernel = read_kernel(HONEST / "gelu_triton.py", PROBLEM)
    heads = ("import torch._dynamo\n", "import tempfile\ntempfile.mkdtemp()\n")
    return [dataclasses.replace(kernel, source=f"{head}{kernel.source}") for head in heads]


def lined_up(found: list[Specimen], names: tuple[str, ...]) -> tuple[list[KernelSource], list[KernelSource]]:
    """Hostile kernels with honest ones between them; and the honest ones alone."""
    queue, neighbours = [], []
    for at, specimen in enumerate(found):
        if at % HONEST_EVERY == 0:
            neighbours.append(honest(at, names[at // HONEST_EVERY % len(names)]))
            queue.append(neighbours[-1])
        queue.append(specimen.kernel)
    last = [honest(len(found), names[0]), *unscreened_but_honest()]
    return queue + last, neighbours + last


def test_there_are_at_least_forty_cheats_that_need_no_gpu() -> None:
    assert len(specimens(gpu=False)) >= 40


@pytest.mark.parametrize("specimen", specimens(gpu=True), ids=lambda s: s.name)
def test_the_screen_refuses_what_breaks_the_rules_by_its_text(specimen: Specimen) -> None:
    assert (screen(specimen.kernel.source) is None) == ("passes-screen" in specimen.tags)


@pytest.fixture(scope="module")
def unscreened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Measurement], list[KernelSource]]]:
    """All CPU specimens run with the screen off, between honest neighbours."""
    queue, neighbours = lined_up(specimens(gpu=False), ("gelu_triton.py",))
    settings = {"allow_unscreened": True, "workloads": ("tiny",), "timeout_s": 2.0, "build_timeout_s": 6.0}
    with Harness(gpu=None, cache=tmp_path_factory.mktemp("cache"), builders=2, **settings) as harness:
        yield {m.kernel_id: m for m in harness.measure(queue)}, neighbours


@pytest.mark.parametrize("specimen", specimens(gpu=False), ids=lambda s: s.name)
def test_without_the_screen_no_cheat_is_recorded_ok(
    specimen: Specimen, unscreened: tuple[dict[str, Measurement], list[KernelSource]]
) -> None:
    row = unscreened[0][specimen.kernel.kernel_id]
    if "truthful" in specimen.tags:
        assert row.status in (Status.OK, Status.REJECTED)
    else:
        assert row.status is not Status.OK
        assert row.error


def test_honest_neighbours_of_cheats_are_all_measured(
    unscreened: tuple[dict[str, Measurement], list[KernelSource]],
) -> None:
    rows, neighbours = unscreened
    assert {rows[kernel.kernel_id].status for kernel in neighbours} == {Status.OK}


@pytest.mark.gpu
@pytest.mark.timeout(600)
def test_on_a_gpu_no_cheat_is_recorded_ok_on_any_workload_and_honest_neighbours_keep_their_time(tmp_path: Path) -> None:
    found = specimens(gpu=True)
    queue, neighbours = lined_up(found, ("gelu_triton.py", "gelu_cuda.py"))
    settings = {"allow_unscreened": True, "timeout_s": 3.0, "build_timeout_s": 20.0, "spares": 4}
    with Harness(gpu=0, cache=tmp_path, **settings) as harness:
        rows = by_kernel(harness.measure(queue))
        alone = by_kernel(harness.measure([honest(10_000, "gelu_triton.py")]))
    for specimen in found:
        for row in rows[specimen.kernel.kernel_id]:
            print(specimen.name, row.workload, row.status.value, row.error or row.runtime_us)  # noqa: T201 - evidence
    wrong = {
        f"{specimen.name} {row.workload}": row.runtime_us
        for specimen in found
        for row in rows[specimen.kernel.kernel_id]
        if row.status is Status.OK and "truthful" not in specimen.tags
    }
    assert wrong == {}
    assert {row.status for kernel in neighbours for row in rows[kernel.kernel_id]} == {Status.OK}
    (base,) = (times(alone_rows) for alone_rows in alone.values())
    for kernel in neighbours:
        if "triton" in kernel.source:
            assert times(rows[kernel.kernel_id]) == pytest.approx(base, rel=0.05)


def by_kernel(measured: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """The rows of each kernel: one for each workload."""
    rows: dict[str, list[Measurement]] = {}
    for row in measured:
        rows.setdefault(row.kernel_id, []).append(row)
    return rows


def times(rows: Iterable[Measurement]) -> dict[str, float | None]:
    """Runtimes by workload."""
    return {row.workload: row.runtime_us for row in rows}
