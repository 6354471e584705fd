"""Hardware counters of kernels, read with NVIDIA's profiler Nsight Compute (`ncu`)."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.harness.commands.selection import Selection
from kbench.harness.device.gpu import Gpu
from kbench.harness.harness import Harness
from kbench.harness.plan.cache import BuildCache
from kbench.loaders.storage.lines import LineWriter, parse_json, read_records
from kbench.loaders.storage.scratch import cache_folder, temporary_folder
from kbench.schemas import DataError, InfrastructureError, KernelCounters, KernelSource, UserError, to_dict

DURATION, PASSES = "gpu__time_duration.sum", "profiler__replayer_passes"
SUMS = {
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_bytes": "lts__t_bytes.sum",
}
SHARES = {
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue_percent": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
}
"""The profiler's metrics by the columns they become. All fit into one pass, so a kernel runs once and needs no replay,
which would find a warm cache."""
BATCH = 120
"""Kernels per process under the profiler, which tells what it counted when the process ends."""
START_S, SECONDS_PER_KERNEL = 60.0, 5.0
"""A batch that takes longer than the first, and the second for each of its kernels, is given up."""
Entry = dict[str, Any]
"""A kernel with its plans, as plain values, and the files of its machine code."""
Launch = Mapping[str, str]
"""A line of the profiler's table, by column."""


def count(stored: Selection, out: Path, gpu: Gpu, deadline_s: float | None) -> Iterator[KernelCounters | str]:
    """Read what the file lacks and append it batch by batch; a text says which kernel is left out and why.

    Raises:
        UserError: there is no profiler, or the GPU named is a partition.
        InfrastructureError: the profiler counts nothing.
    """
    if gpu.sms is not None:
        raise UserError(f"--gpu is {str(gpu)!r}; counters are of a whole GPU")
    stop = None if deadline_s is None else time.monotonic() + deadline_s
    tool = Profiler.find()
    done = {row.kernel_id for row in read_records(out, KernelCounters)} if out.exists() else set()
    waiting = [one.kernel for key, one in stored.items() if key not in done]
    with Harness(gpu=gpu) as harness:
        model = harness.environment().gpu
        for start in range(0, len(waiting), BATCH):
            if stop is not None and time.monotonic() > stop:
                return
            entries, left_out = planned(harness, waiting[start : start + BATCH])
            yield from left_out
            rows = tool.profile(entries, gpu, model)
            with LineWriter(out, parse_json) as lines:
                lines.append([json.dumps(to_dict(row)) for row in rows])
            yield from rows


def planned(harness: Harness, kernels: Sequence[KernelSource]) -> tuple[list[Entry], list[str]]:
    """Kernels with plans and machine code, as the profiled process reads them, and why others cannot be profiled."""
    cache = BuildCache((harness.settings.cache or cache_folder()).resolve())
    entries: list[Entry] = []
    left_out: list[str] = []
    for kernel, build in harness.builds(kernels):
        reason = build.error
        if reason is None and any(len(plans) > 1 for plans in build.plans.values()):
            reason = "it is autotuned, so which of its configurations runs is not known beforehand"
        if reason is not None:
            left_out.append(f"{kernel.kernel_id}: {reason}")
            continue
        code = cache.code_files(build)
        named = {"kernel_id": kernel.kernel_id, "problem_id": kernel.problem_id}
        entries.append(named | {"plans": dict(build.plans), "code": code})
    # Kernels of a problem one after another: its inputs are made once.
    return sorted(entries, key=lambda entry: (entry["problem_id"], entry["kernel_id"])), left_out


@dataclasses.dataclass(frozen=True, slots=True)
class Profiler:
    """Nsight Compute's command line."""

    command: str
    version: str

    @classmethod
    def find(cls) -> Profiler:
        """The installed one.

        Raises:
            UserError: there is none.
        """
        command = shutil.which("ncu")
        if command is None:
            raise UserError("ncu is not on PATH; install NVIDIA Nsight Compute, which reads the counters")
        words = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout.split()
        return cls(command, words[words.index("Version") + 1] if "Version" in words else "of unknown version")

    def profile(self, entries: Sequence[Entry], gpu: Gpu, model: str) -> list[KernelCounters]:
        """Counters of kernels on each of their workloads.

        Raises:
            InfrastructureError: the profiler counts nothing, or takes too long.
        """
        if not entries:
            return []
        with temporary_folder() as folder:
            calls, launches = self._run(entries, gpu, folder)
        problems = {entry["kernel_id"]: entry["problem_id"] for entry in entries}
        same: dict[str, Any] = {
            "gpu": model, "profiler": f"ncu {self.version}",
            "measured_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }  # fmt: skip
        return [
            KernelCounters(
                kernel_id=call["kernel_id"], problem_id=problems[call["kernel_id"]], workload=call["workload"],
                **same, **summed(rows),
            )
            for call, rows in matched(calls, launches)
        ]  # fmt: skip

    def _run(self, entries: Sequence[Entry], gpu: Gpu, folder: Path) -> tuple[list[Mapping[str, Any]], list[Launch]]:
        """The calls made under the profiler, and the launches that it saw."""
        batch, order, table = (folder / file for file in ("batch.json", "order.jsonl", "table.csv"))
        batch.write_text(json.dumps(entries))
        metrics = ",".join((DURATION, *SUMS.values(), *SHARES.values()))
        # It leaves clocks and caches alone.
        command = [
            self.command, "--profile-from-start", "off", "--clock-control", "none", "--cache-control", "none",
            "--kernel-name-base", "mangled", "--print-kernel-base", "mangled", "--print-units", "base",
            "--metrics", metrics, "--csv", "--page", "raw", "--log-file", str(table),
            sys.executable, "-m", "kbench.harness.worker.profiled", str(batch), str(order), str(gpu),
        ]  # fmt: skip
        limit_s = START_S + SECONDS_PER_KERNEL * len(entries)
        try:
            profiler = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise InfrastructureError(f"{self.command} took longer than {limit_s:g} s for a batch") from None
        text = table.read_text() if table.exists() else ""
        launches = list(read_table(text))
        if not launches:
            last = (text + profiler.stdout + profiler.stderr).strip().splitlines()[-3:]
            raise InfrastructureError(f"{self.command} counted nothing (exit code {profiler.returncode}): {last}")
        return [json.loads(line) for line in order.read_text().splitlines()], launches


def read_table(text: str) -> Iterator[Launch]:
    """Launches of a table as the profiler prints it: names, units, then a line per launch."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    names = next(csv.reader(lines[:1]), [])
    for row in csv.reader(lines[2:]):
        yield dict(zip(names, row, strict=True))


def matched(
    calls: Sequence[Mapping[str, Any]], launches: Sequence[Launch]
) -> Iterator[tuple[Mapping[str, Any], Sequence[Launch]]]:
    """Each call with its launches.

    Raises:
        DataError: the profiler saw other launches than were made.
    """
    at = 0
    for call in calls:
        rows = launches[at : at + len(call["functions"])]
        if [row["Kernel Name"] for row in rows] != list(call["functions"]):
            seen = ", ".join(row["Kernel Name"] for row in rows) or "none"
            raise DataError(
                f"kernel {call['kernel_id']} launched {', '.join(call['functions'])}, the profiler saw {seen}"
            )
        at += len(rows)
        yield call, rows


def summed(launches: Sequence[Launch]) -> dict[str, Any]:
    """Counters of a call from those of its launches.

    Raises:
        DataError: the profiler ran a launch more than once.
    """
    if any(number(row[PASSES]) > 1 for row in launches if PASSES in row):
        raise DataError("the profiler needs several passes for its metrics, so later ones found a warm cache")
    nanoseconds = [number(row[DURATION]) for row in launches]
    total = sum(nanoseconds)
    sums = {name: round(sum(number(row[metric]) for row in launches)) for name, metric in SUMS.items()}
    shares = {
        name: sum(t * number(row[metric]) for t, row in zip(nanoseconds, launches, strict=True)) / total
        for name, metric in SHARES.items()
    }
    return {"launches": len(launches), "profiled_us": total / 1e3} | sums | shares


def number(text: str) -> float:
    """A number as the profiler prints it, with commas between thousands."""
    return float(text.replace(",", ""))
