"""Sweeps: builds first, then the kernels of a part one after another on its workloads."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kbench.harness.harness import Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.queue.job import Job, Outcome
from kbench.harness.queue.sweep import Part, Sweep
from kbench.schemas import KernelSource, Status

KERNEL = read_kernel(Path(__file__).parent / "kernels" / "gelu_triton.py", "gelu_tanh")


def made(kernel: KernelSource, part: Part | None) -> Job:
    return Job(0, kernel, {"workloads": part and part.workloads}, compile_only=part is None)


def renamed(count: int) -> tuple[KernelSource, ...]:
    return tuple(dataclasses.replace(KERNEL, source=f"{KERNEL.source}\n# {number}\n") for number in range(count))


def test_a_part_is_measured_when_all_its_builds_are_known_and_failed_builds_come_with_their_verdict() -> None:
    one, slow, lost, other = renamed(4)
    sweep = Sweep([Part((one, slow, lost), ("a",)), Part((other,), ("b",)), Part((one, slow), ("c",))], made)
    jobs = sweep.jobs()
    builds = [next(jobs) for _ in range(4)]
    assert [job.kernel for job in builds if job and job.compile_only] == [one, slow, lost, other]
    assert next(jobs) is None
    assert sweep.take(Outcome(made(other, None), -1)) is None
    first = next(jobs)
    assert first is not None
    assert (first.kernel, first.task, first.build) == (other, {"workloads": ("b",)}, None)
    sweep.take(Outcome(made(one, None), -1))
    sweep.lose(lost)
    assert next(jobs) is None
    sweep.take(Outcome(made(slow, None), -1, status="timeout", reason="took too long"))
    rest = [(job.kernel, job.task["workloads"], job.build and job.build.error) for job in jobs if job]
    assert rest == [(k, (w,), e) for w in "ac" for k, e in ((one, None), (slow, "took too long"))]


def test_when_time_is_up_nothing_is_handed_out_and_what_the_device_has_is_waited_for() -> None:
    (kernel,) = renamed(1)
    part = Part((kernel,), ("a",))
    sweep = Sweep([part, part], made, seconds=1e6)
    jobs = sweep.jobs()
    next(jobs)
    sweep.take(Outcome(made(kernel, None), -1))
    measuring = next(jobs)
    assert measuring is not None
    sweep._end = 0.0
    assert list(jobs) == []
    assert not sweep.over
    assert sweep.take(Outcome(measuring, 0)) is not None
    assert sweep.over


def test_a_harness_measures_each_part_on_its_own_workloads(tmp_path: Path) -> None:
    wrong = dataclasses.replace(KERNEL, source=KERNEL.source.replace("0.044715", "0.05"))
    broken = dataclasses.replace(KERNEL, source=KERNEL.source.replace("tl.exp(", "tl.no_such("))
    parts = [Part((KERNEL, wrong, broken), ("tiny",)), Part((KERNEL,), ("tiny",))]
    with Harness(gpu=None, cache=tmp_path, builders=1) as harness:
        rows = list(harness.sweep(parts))
    found = [(row.kernel_id, row.workload, row.status) for row in rows]
    assert sorted(found) == sorted(
        [
            *[(KERNEL.kernel_id, "tiny", Status.OK)] * 2,
            (wrong.kernel_id, "tiny", Status.INCORRECT),
            (broken.kernel_id, "tiny", Status.COMPILE_ERROR),
        ]
    )
