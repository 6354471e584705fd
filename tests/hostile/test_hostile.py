"""Every known cheat, run: none is recorded with a false time or answer under a plan, none harms its neighbours.

A kernel is planned first, in a sandbox; on a GPU its plan is replayed by a process that never runs foreign Python, and
its record says `trust = "plan"`. Where its host code runs beside its judge (what cannot be planned, with
`allow_unscreened`, and everything in a dry run) the record says `trust = "process"`; what is believed there is known.
"""

import ast
import contextlib
import ctypes
import dataclasses
import datetime
import functools
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from kbench.harness.device.target import H200, Target
from kbench.harness.harness import UNPLANNED, Harness
from kbench.harness.isolate import spawner
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.plan.cache import BuildCache, build_id
from kbench.harness.queue import device_queue
from kbench.harness.record import aggregate
from kbench.schemas import Backend, KernelSource, Measurement, Status
from kbench.schemas.status import Trust

from . import PART, PARTS, PROBLEM, Cell, parts, read_cells

pytestmark = pytest.mark.timeout(4 * 3600)
KERNELS = Path(__file__).parent / "kernels"
CONTROLS = Path(__file__).parent / "honest"
HONEST = Path(__file__).parents[1] / "harness" / "kernels"
HONEST_EVERY = 12
AT_MOST = 1.0
"""Speedup that a disarmed cheat stays below, unless its header names less: all of them work slowly when they work."""
TAGS = {"gpu", "slow", "truthful", "disarmed", "process-open"}
"""Header: `# cheat:` what it does; `# tags:`; `# problem:` where it is not gelu_tanh.

Tags: `class-…` names its file; `gpu` cannot act without a GPU; `slow` never ends by itself; `truthful` breaks rules
without lying about answer or time; `disarmed` finds nothing that it kept when its plan is replayed and so does its work
in every call, so its time is true (`# disarmed:` says why, `# at-most:` below which speedup); `process-open` is
believed where its host code runs beside its judge.
"""
BESIDE_ITS_JUDGE = 12
"""Specimens of each kind that a dry run also runs beside their judge, where nothing is promised but their label."""
STALE = re.compile("unexpected keyword argument|has no attribute|cannot import name|No module named")
"""What Python says of an attack on code that is no longer there: it proves nothing."""
PATIENT_S, SHORT_S = 3600.0, 2.0
"""Limits for what ends by itself, which no load of the machine reaches, and for what does not."""


@functools.cache
def specimens(*, gpu: bool) -> list[Cell]:
    """Those that can act on a GPU or, without one, on the CPU."""
    return [specimen for specimen in read_cells(KERNELS) if gpu or "gpu" not in specimen.tags]


def split(found: Iterable[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Those that end by themselves, and those that do not."""
    known = list(found)
    return [one for one in known if "slow" not in one.tags], [one for one in known if "slow" in one.tags]


def honest(number: int, name: str) -> KernelSource:
    """An honest kernel with an identity of its own."""
    kernel = read_kernel(HONEST / name, PROBLEM)
    return dataclasses.replace(kernel, source=f"# neighbour {number}\n{kernel.source}")


def lined_up(found: list[Cell], names: tuple[str, ...]) -> tuple[list[KernelSource], list[KernelSource]]:
    """Hostile kernels with honest ones between them; and the honest ones alone."""
    queue, neighbours = [], []
    for at, specimen in enumerate(found):
        if at % HONEST_EVERY == 0:
            neighbours.append(honest(at, names[at // HONEST_EVERY % len(names)]))
            queue.append(neighbours[-1])
        queue.append(specimen.kernel)
    last = honest(len(found), names[0])
    return [*queue, last], [*neighbours, last]


def test_every_specimen_names_its_class_and_has_a_name_of_its_own() -> None:
    found = list(read_cells(KERNELS))
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert one.tags - TAGS == {f"class-{one.group}"}, one.name


def test_every_disarmed_specimen_says_what_disarms_it() -> None:
    for specimen in specimens(gpu=True):
        assert ("disarmed" in specimen.tags) == bool(specimen.head.get("disarmed")), specimen.name


def test_every_part_is_in_use_and_none_is_left_in_a_text() -> None:
    files = (PARTS, *KERNELS.glob("*.py"), *CONTROLS.glob("*.py"))
    written = "".join(path.read_text() for path in files)
    assert {found[1] for found in PART.finditer(written)} == parts().keys()
    for one in (*read_cells(KERNELS), *read_cells(CONTROLS)):
        assert not PART.search(one.kernel.source), one.name


def victims() -> list[KernelSource]:
    """Honest kernels that specimens aim at."""
    found = []
    for specimen in specimens(gpu=False):
        # Others are nested too deep to be parsed.
        for statement in ast.parse(specimen.kernel.source).body if "class-build" in specimen.tags else ():
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "VICTIM":
                found.append(KernelSource(PROBLEM, Backend.TRITON, ast.literal_eval(statement.value)))
    return found


Rows = dict[str, Measurement]


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """What the harness said without a GPU, by kernel id, and the cache it used."""

    default: Rows
    beside_its_judge: Rows
    """The same, with some of what cannot be planned run in a process of its own; others every day."""
    unplanned: list[Cell]
    """Those."""
    neighbours: list[KernelSource]
    cache: Path


@contextlib.contextmanager
def on_the_cpu(cache: Path, limit_s: float, *, allow: bool = False) -> Iterator[Callable[..., Rows]]:
    """A harness without a GPU, as a function from kernels to their rows on the tiny workload."""
    settings = {"allow_unscreened": allow, "workloads": ("tiny",), "timeout_s": limit_s, "build_timeout_s": limit_s}
    with pytest.MonkeyPatch.context() as patch, Harness(gpu=None, cache=cache, builders=2, **settings) as harness:
        # On a busy machine a worker may take minutes to start, which says nothing about a kernel.
        patch.setattr(spawner, "START_SECONDS", PATIENT_S)
        patch.setattr(device_queue, "CONTEXT_SECONDS", PATIENT_S)
        yield lambda queue, *, timed=False: {
            row.kernel_id: row for row in harness.measure(list(queue), check_only=not timed)
        }


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory: pytest.TempPathFactory) -> DryRun:
    """All CPU specimens between honest neighbours, and after them the kernels that some of them aim at.

    Kernels that are right only on what is drawn need no clock to be judged, and the interpreter is slow.
    """
    cache = tmp_path_factory.mktemp("hostile")
    found, endless = split(specimens(gpu=False))
    queue, neighbours = lined_up(found, ("gelu_triton.py",))
    with on_the_cpu(cache, PATIENT_S) as measure:
        default = measure(queue)
        default |= measure(victims())
    with on_the_cpu(cache, SHORT_S) as measure:
        default |= measure(one.kernel for one in endless)
    refused = [one for one in found if (default[one.kernel.kernel_id].error or "").startswith(UNPLANNED)]
    rng = random.Random(datetime.date.today().toordinal())
    groups = ([one for one in refused if ("process-open" in one.tags) is wanted] for wanted in (True, False))
    unplanned = [one for group in groups for one in rng.sample(group, min(len(group), BESIDE_ITS_JUDGE))]
    queue, more = lined_up(unplanned, ("gelu_triton.py",))
    with on_the_cpu(cache, PATIENT_S, allow=True) as measure:
        return DryRun(default, default | measure(queue, timed=True), unplanned, neighbours + more, cache)


def check_dry(specimen: Cell, row: Measurement) -> None:
    """Host code beside its judge may talk it into anything, except that it was planned."""
    if row.status is Status.OK:
        assert row.trust is not Trust.PLAN
    else:
        assert row.error
        assert not STALE.search(row.error)


@pytest.mark.parametrize("specimen", specimens(gpu=False), ids=lambda s: s.name)
def test_no_cheat_is_called_planned_in_a_dry_run(specimen: Cell, dry_run: DryRun) -> None:
    check_dry(specimen, dry_run.default[specimen.kernel.kernel_id])


def test_no_cheat_is_called_planned_beside_its_judge(dry_run: DryRun) -> None:
    assert len(dry_run.unplanned) > BESIDE_ITS_JUDGE
    for specimen in dry_run.unplanned:
        check_dry(specimen, dry_run.beside_its_judge[specimen.kernel.kernel_id])


def test_what_is_open_beside_its_judge_is_mostly_believed_and_never_called_planned(dry_run: DryRun) -> None:
    rows = [dry_run.beside_its_judge[s.kernel.kernel_id] for s in dry_run.unplanned if "process-open" in s.tags]
    believed = [row for row in rows if row.status is Status.OK]
    # A busy machine stops some of them by chance.
    assert len(believed) > len(rows) / 2
    assert Trust.PLAN not in {row.trust for row in believed}


def test_honest_neighbours_of_cheats_are_all_measured(dry_run: DryRun) -> None:
    rows = [dry_run.beside_its_judge[kernel.kernel_id] for kernel in dry_run.neighbours]
    assert {(row.status, row.error) for row in rows} == {(Status.OK, None)}


def test_what_a_kernel_does_while_it_is_planned_changes_nothing_about_another(dry_run: DryRun) -> None:
    aimed_at = [dry_run.default[kernel.kernel_id] for kernel in victims()]
    assert aimed_at
    assert {(row.status, row.error) for row in aimed_at} == {(Status.OK, None)}
    # They differ by a comment only, and forged figures say one register and no time.
    (registers,) = {row.registers for row in aimed_at}
    assert registers > 1
    assert min(row.compile_ms or 0.0 for row in aimed_at) > 1.0


def test_the_cache_holds_what_the_parent_stored_and_nothing_else(dry_run: DryRun) -> None:
    assert sorted(path.name for path in dry_run.cache.iterdir()) == ["builds", "extensions"]
    known = {build_id(kernel_id, Target(9, 0), H200) for kernel_id in dry_run.beside_its_judge}
    cache = BuildCache(dry_run.cache)
    stored = list(cache.builds.iterdir())
    assert {path.name for path in stored} <= known
    for path in stored:
        build = cache.get(path.name)
        assert {file.name for file in path.glob("*.cubin")} >= {f"{sha}.cubin" for sha in build.code}
    assert not list(dry_run.cache.rglob("planted*"))


HIDING = {
    "hides_its_variables_from_whoever_restores": "no symbol names",
    "keeps_notes_in_memory_that_no_symbol_types": "no symbol names",
    "keeps_notes_under_a_name_that_is_there_twice": "two device variables of one name",
    "hides_its_heap_behind_a_second_symbol_table": "more than one symbol table",
}


def test_machine_code_that_hides_its_variables_is_refused(tmp_path: Path) -> None:
    kernels = {one.name: one.kernel for one in specimens(gpu=True)}
    named = kernels["keeps_answers_in_hidden_variables"]
    with Harness(gpu=None, cache=tmp_path, builders=2, build_timeout_s=PATIENT_S) as harness:
        built, *refused = (row for name in (None, *HIDING) for row in harness.compile([kernels.get(name, named)]))
    assert built.status is Status.OK
    for row, words in zip(refused, HIDING.values(), strict=True):
        assert row.status is Status.REJECTED
        assert words in (row.error or "")


def test_figures_of_a_build_are_those_of_the_code_that_is_launched(tmp_path: Path) -> None:
    kernels = {one.name: one.kernel for one in specimens(gpu=True) if one.group == "records"}
    names = ("counts_its_instructions_itself", "needs_much_in_a_function_that_is_never_launched")
    with Harness(gpu=None, cache=tmp_path, builders=2, build_timeout_s=PATIENT_S) as harness:
        builds = {kernel.kernel_id: build for kernel, build in harness.builds([kernels[name] for name in names])}
        # Only here does it bring machine code along: where work is counted, its source is compiled.
        (hidden,) = harness.compile([kernels["hides_its_stack"]])
    counted, idle = (builds[kernels[name].kernel_id] for name in names)
    assert counted.instructions["matrix"] == 0
    assert counted.instructions["total"] > 20
    assert {plan["choice"] for plans in counted.plans.values() for plan in plans} == {None}
    assert (idle.shared_bytes, idle.spill_bytes) == (0, 0)
    assert hidden.status is Status.REJECTED
    assert "its machine code declares 0" in (hidden.error or "")


PLANNING = {
    "spreads_its_memory_over_children": (Status.OUT_OF_MEMORY, "at most 6 GiB"),
    "starts_hundreds_of_processes": (Status.REJECTED, "more than 64 processes"),
    "locks_what_it_can_only_read": (Status.LAUNCH_ERROR, "nothing can be locked"),
    "hands_in_a_rivals_machine_code": (Status.LAUNCH_ERROR, "no build of another kernel can be seen"),
    "reads_the_dataset_while_planned": (Status.LAUNCH_ERROR, "no dataset can be seen"),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root here")
@pytest.mark.parametrize("name", PLANNING)
def test_what_planning_may_use_and_see_is_limited_for_all_its_processes(name: str, dry_run: DryRun) -> None:
    (specimen,) = (one for one in specimens(gpu=False) if one.name == name)
    row = dry_run.default[specimen.kernel.kernel_id]
    status, words = PLANNING[name]
    assert row.status is status
    assert words in (row.error or "")


def test_no_shared_memory_of_the_system_is_left_behind(dry_run: DryRun) -> None:
    (specimen,) = (one for one in specimens(gpu=False) if one.name == "leaves_shared_memory_of_the_system_behind")
    assert specimen.kernel.kernel_id in dry_run.default
    assert ctypes.CDLL(None).shmget(0x4B42E5C1, 0, 0) == -1


@pytest.mark.gpu
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("allow", [False, True], ids=["planned", "beside_its_judge"])
def test_on_a_gpu_no_cheat_is_believed_and_honest_neighbours_keep_their_time(
    tmp_path_factory: pytest.TempPathFactory, allow: bool
) -> None:
    shared = {"gpu": 0, "cache": tmp_path_factory.mktemp("hostile"), "allow_unscreened": allow, "spares": 3}
    found, endless = split(specimens(gpu=True))
    if allow:
        # What can be planned is planned here too, so only the others can differ. They may be believed here, but never
        # with trust `plan`.
        found, endless = unplanned(found, shared["cache"]), []
    names = ("gelu_triton.py", "gelu_cuda.py")
    queue, neighbours = lined_up(found, names)
    with Harness(timeout_s=10.0, build_timeout_s=PATIENT_S, **shared) as harness:
        rows = by_kernel(harness.measure(queue))
    with Harness(timeout_s=SHORT_S, build_timeout_s=2 * SHORT_S, **shared) as harness:
        rows |= by_kernel(harness.measure(one.kernel for one in endless))
    with Harness(**shared) as harness:
        alone = [times(each) for each in by_kernel(harness.measure([honest(-1, name) for name in names])).values()]
    for specimen in found + endless:
        for row in rows[specimen.kernel.kernel_id]:
            print(specimen.name, row.workload, row.status, row.trust, row.runtime_us, row.speedup, row.error)  # noqa: T201 - evidence
    assert {s.name: why for s in found + endless if (why := believed_wrongly(s, rows[s.kernel.kernel_id]))} == {}
    for kernel in neighbours:
        assert {(row.status, row.trust) for row in rows[kernel.kernel_id]} == {(Status.OK, Trust.PLAN)}
        assert any(times(rows[kernel.kernel_id]) == pytest.approx(base, rel=0.05) for base in alone)


def unplanned(found: Iterable[Cell], cache: Path) -> list[Cell]:
    """Those that run only where their host code may run beside its judge."""
    known = {one.kernel.kernel_id: one for one in found}
    with Harness(gpu=None, cache=cache, builders=os.cpu_count(), build_timeout_s=PATIENT_S) as harness:
        rows = list(harness.compile([one.kernel for one in known.values()]))
    return [known[row.kernel_id] for row in rows if (row.error or "").startswith(UNPLANNED)]


def believed_wrongly(specimen: Cell, rows: list[Measurement]) -> str | None:
    """Why a kernel should not have been recorded ok as it was; None when it was not, or may be."""
    if aggregate(rows).status is not Status.OK or "truthful" in specimen.tags:
        return None
    if Trust.PLAN not in {row.trust for row in rows}:
        return None
    fastest = max(row.speedup or 0.0 for row in rows)
    if "disarmed" in specimen.tags and fastest < float(specimen.head.get("at-most", AT_MOST)):
        return None
    return f"believed at {fastest:.2f} times the reference's speed, trust {rows[0].trust}"


def by_kernel(measured: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """The rows of each kernel: one for each workload."""
    rows: dict[str, list[Measurement]] = {}
    for row in measured:
        rows.setdefault(row.kernel_id, []).append(row)
    return rows


def times(rows: Iterable[Measurement]) -> dict[str, float | None]:
    """Runtimes by workload."""
    return {row.workload: row.runtime_us for row in rows}
