"""Every known cheat, run: none is recorded ok with a false time or answer, none harms its honest neighbours.

Two layers are tested apart. With the screen on, what breaks the rules is refused by its text. With the screen off,
the same kernels run, and verification, audits and isolation must stop them.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from kbench.harness.harness import Harness
from kbench.harness.kernel.screen import screen
from kbench.harness.kernel.sources import read_kernel
from kbench.schemas import Backend, KernelSource, Measurement, Status

pytestmark = pytest.mark.timeout(600)
KERNELS = Path(__file__).parent / "kernels"
HONEST = Path(__file__).parents[1] / "harness" / "kernels"
PROBLEM = "gelu_tanh"
HONEST_EVERY = 6


@dataclasses.dataclass(frozen=True, slots=True)
class Specimen:
    """A hostile kernel, described by its first lines.

    Header: `# cheat:` what it does; `# tags:`; `# problem:` where it is not gelu_tanh.

    Tags: `class-…` names its folder; `gpu` cannot act without a GPU; `passes-screen` uses only what honest kernels use;
    `truthful` breaks the rules without lying about answer or time, so only the screen need stop it; `slow` must be
    ended by its deadline; `contaminates` spoils a shared process for what comes after it; `needs-monitoring` acts from
    Python 3.12 on; `known-open` is believed by the harness as it is: a specimen that no longer is must lose the tag.
    """

    name: str
    cheat: str
    tags: frozenset[str]
    kernel: KernelSource

    @property
    def acts(self) -> bool:
        """Whether this interpreter has what it needs."""
        return "needs-monitoring" not in self.tags or hasattr(sys, "monitoring")


def read_specimen(path: Path) -> Specimen:
    """A file with its header."""
    lines = itertools.takewhile(lambda line: line.startswith("# "), path.read_text().splitlines())
    head = dict(line[2:].split(": ", 1) for line in lines if ": " in line)
    kernel = read_kernel(path, head.get("problem", PROBLEM))
    return Specimen(path.stem, head["cheat"], frozenset(head["tags"].split()), kernel)


@functools.cache
def specimens(*, gpu: bool) -> list[Specimen]:
    """Those that can act on a GPU or, without one, on the CPU."""
    found = map(read_specimen, sorted(KERNELS.glob("*/*.py")))
    return [specimen for specimen in found if specimen.acts and (gpu or "gpu" not in specimen.tags)]


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


def test_every_specimen_names_its_class_and_has_a_name_of_its_own() -> None:
    paths = list(KERNELS.glob("*/*.py"))
    assert len({path.stem for path in paths}) == len(paths) >= 190
    for path in paths:
        assert [tag for tag in read_specimen(path).tags if tag.startswith("class-")] == [f"class-{path.parent.name}"]


def test_there_are_at_least_a_hundred_cheats_that_need_no_gpu() -> None:
    assert len(specimens(gpu=False)) >= 100


@pytest.mark.parametrize("specimen", specimens(gpu=True), ids=lambda s: s.name)
def test_the_screen_refuses_what_breaks_the_rules_by_its_text(specimen: Specimen) -> None:
    assert (screen(specimen.kernel.source) is None) == ("passes-screen" in specimen.tags)


Rows = dict[str, Measurement]


def on_the_cpu(
    *queues: Iterable[KernelSource], cache: Path, check_only: bool = False, timeout_s: float = 5.0
) -> list[Rows]:
    """The tiny workload of each kernel, queue by queue, in one harness with the screen off."""
    settings = {"allow_unscreened": True, "workloads": ("tiny",), "timeout_s": timeout_s, "build_timeout_s": 12.0}
    with Harness(gpu=None, cache=cache, builders=2, **settings) as harness:
        return [{row.kernel_id: row for row in harness.measure(queue, check_only=check_only)} for queue in queues]


@pytest.fixture(scope="module")
def unscreened(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, list[KernelSource]]:
    """All CPU specimens run with the screen off, between honest neighbours; those that spoil a shared worker apart.

    Kernels that are right only on what is drawn need no clock to be judged, and the interpreter is slow.
    """
    found = specimens(gpu=False)
    timed = [one for one in found if not one.tags & {"contaminates", "class-build", "class-distribution"}]
    queue, neighbours = lined_up(timed, ("gelu_triton.py",))
    (rows,) = on_the_cpu(queue, cache=tmp_path_factory.mktemp("cache"))
    checked = [one.kernel for one in found if "class-distribution" in one.tags]
    rows |= on_the_cpu(checked, cache=tmp_path_factory.mktemp("cache"), check_only=True, timeout_s=20.0)[0]
    for one in found:
        if "contaminates" in one.tags and "class-build" not in one.tags:
            rows |= on_the_cpu([one.kernel], cache=tmp_path_factory.mktemp("cache"))[0]
    return rows, neighbours


def builders(*, contaminate: bool) -> list[Specimen]:
    """Those that act while they are built, on others that come later."""
    found = [one for one in specimens(gpu=False) if "class-build" in one.tags]
    return [one for one in found if ("contaminates" in one.tags) == contaminate]


def victim_of(specimen: Specimen) -> KernelSource | None:
    """The honest kernel a specimen aims at; None when it only writes files."""
    for statement in ast.parse(specimen.kernel.source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "VICTIM":
            return KernelSource(PROBLEM, Backend.TRITON, ast.literal_eval(statement.value))
    return None


def harmed_by(found: list[Specimen], cache: Path) -> set[str]:
    """Names of the specimens that planted a file, or whose victim is not measured as it would be without them."""
    victims = {one.name: victim for one in found if (victim := victim_of(one)) is not None}
    try:
        _, rows = on_the_cpu([one.kernel for one in found], victims.values(), cache=cache)
    except Exception:  # noqa: BLE001 - a harness that fails on what a kernel left behind was harmed by it
        return {one.name for one in found}
    spoilt = {name for name, victim in victims.items() if (row := rows[victim.kernel_id]).registers or row.error}
    planted = {path.name for path in cache.rglob("planted*")}
    return spoilt | {one.name for one in found for name in planted if name in one.kernel.source}


@pytest.fixture(scope="module")
def harmful(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The specimens that harmed somebody by what they did while they were built."""
    groups = [builders(contaminate=False), *([one] for one in builders(contaminate=True))]
    return set().union(*(harmed_by(group, tmp_path_factory.mktemp("cache")) for group in groups))


@pytest.mark.parametrize("specimen", builders(contaminate=False) + builders(contaminate=True), ids=lambda s: s.name)
def test_what_a_kernel_does_while_it_is_built_harms_nobody(specimen: Specimen, harmful: set[str]) -> None:
    assert (specimen.name in harmful) == ("known-open" in specimen.tags)


def judged() -> list[Specimen]:
    """Those that are judged by their own result."""
    return [one for one in specimens(gpu=False) if "class-build" not in one.tags]


@pytest.mark.parametrize("specimen", judged(), ids=lambda s: s.name)
def test_without_the_screen_no_cheat_is_recorded_ok(
    specimen: Specimen, unscreened: tuple[Rows, list[KernelSource]]
) -> None:
    row = unscreened[0][specimen.kernel.kernel_id]
    if "known-open" in specimen.tags:
        if row.status is Status.TIMEOUT or "keeps answers" in (row.error or ""):
            pytest.skip(f"the machine is too busy to tell: {row.error}")
        assert row.status is Status.OK, f"no longer believed, remove the tag: {row.error}"
    elif "truthful" in specimen.tags:
        assert row.status in (Status.OK, Status.REJECTED)
    else:
        assert row.status is not Status.OK
        assert row.error


def test_honest_neighbours_of_cheats_are_all_measured(
    unscreened: tuple[Rows, list[KernelSource]],
) -> None:
    rows, neighbours = unscreened
    assert {rows[kernel.kernel_id].status for kernel in neighbours} == {Status.OK}


@pytest.mark.gpu
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
        if row.status is Status.OK and not specimen.tags & {"truthful", "known-open"}
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
