"""Cache: one folder per build, written aside and renamed so that what is there is complete.

builds/<build id>/build.json   the Build record, plans included
builds/<build id>/<sha>.cubin  machine code by hash
extensions/<kernel id>/        torch extensions that a kernel which cannot be planned compiles on import

Only the parent process writes here. A build's name is a hash that the parent computes from everything that decides it:
the kernel, the target, the compilers and the facts that host code may ask of the device.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.harness.device.target import DeviceFacts, Target, compiler_versions
from kbench.schemas import Status, UserError
from kbench.schemas.ids import content_hash

BUILD_VERSION = "11"
"""Raised when planning itself changes what an entry holds."""
FIGURES = ("registers", "shared_bytes", "spill_bytes")
"""Resources of a multiprocessor that launches need, read from their machine code."""
REASON_LENGTH = 2000
"""Characters of foreign text that are kept in a record."""


def readable(text: str) -> str:
    """Foreign text, cut to a length, with lone surrogates replaced so that it can be written as UTF-8."""
    return text[:REASON_LENGTH].encode("utf-8", "replace").decode()


@dataclasses.dataclass(frozen=True, slots=True)
class Build:
    """The result of planning a kernel: plans and machine code, or why there are none."""

    build_id: str
    status: str = Status.OK.value
    error: str | None = None
    """Why it cannot be run; None when it can."""
    unplannable: bool = False
    """Whether the error may only say that its host code cannot be planned: it may yet run beside its judge."""
    compile_ms: float | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    cubin_sha: str | None = None
    plans: Mapping[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)
    """Checked plans by workload, as plain values."""
    configs: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    """Of an autotuned kernel, the configuration of each plan as the planning process names it: for people to read."""
    code: tuple[str, ...] = ()
    """Hashes of the machine code that the plans launch."""
    resources: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    """Resources of each plan, by its id: the largest of FIGURES over its launches."""
    instructions: Mapping[str, int] | None = None
    """Counts of machine instructions by class (see `plan.resources`), the largest over the functions that timed
    workloads launch; None without a launch."""
    work: Mapping[str, list[dict[str, Any]]] | None = None
    """Work of each plan of a timed workload (see `kbench.benchmark.work.table`); None where nobody asked. A claim of
    the planning process, which counts it in PTX."""

    def configuration(self, result: Mapping[str, Any]) -> str | None:
        """The name of the configuration whose plan a worker's result is of; None without a choice."""
        names, workload = self.configs.get(str(result["workload"]), []), str(result["workload"])
        ids = [plan["plan_id"] for plan in self.plans.get(workload, [])]
        return names[ids.index(result["plan_id"])] or None if names and result.get("plan_id") in ids else None

    def answers(self, *, count_work: bool) -> bool:
        """Whether nothing is left to build, where the work of its plans is wanted or not."""
        return not count_work or self.error is not None or self.work is not None


def build_id(kernel_id: str, target: Target, facts: DeviceFacts, *, edition: str = "") -> str:
    """Identity of a build: kernel, target, compilers, device facts and this code.

    Args:
        kernel_id: what was built.
        target: the architecture.
        facts: what host code may ask of the device.
        edition: version of the problem, where it has versions: plans are made for its workloads.
    """
    asked = json.dumps(dataclasses.asdict(facts), sort_keys=True)
    versions = [edition] if edition else []
    return content_hash("build", BUILD_VERSION, kernel_id, str(target), compiler_versions(), asked, *versions)


class BuildCache:
    """A folder of builds, safe to share between processes and machines of the same kind."""

    def __init__(self, folder: Path) -> None:
        """Open a cache folder, creating it when absent.

        Raises:
            UserError: it cannot be written.
        """
        self.folder = folder
        self.builds, self.extensions = folder / "builds", folder / "extensions"
        try:
            for place in (self.builds, self.extensions):
                place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = f"cannot be written ({error.strerror})"
            raise UserError(f"the folder of builds {str(folder)!r} {why}; set KBENCH_CACHE to another") from error

    def extension_folder(self, kernel_id: str) -> Path:
        """Where a kernel's torch extension is built, once."""
        place = self.extensions / kernel_id
        place.mkdir(exist_ok=True)
        return place

    def get(self, identity: str) -> Build | None:
        """A finished build, or None."""
        try:
            fields = json.loads((self.builds / identity / "build.json").read_text())
        except FileNotFoundError:
            return None
        return Build(**fields | {"code": tuple(fields["code"])})

    def put(self, build: Build, cubins: Mapping[str, bytes]) -> None:
        """Store a build."""
        aside = Path(tempfile.mkdtemp(prefix="tmp.", dir=self.builds))
        for sha, cubin in cubins.items():
            (aside / f"{sha}.cubin").write_bytes(cubin)
        (aside / "build.json").write_text(json.dumps(dataclasses.asdict(build)))
        place = self.builds / build.build_id
        try:
            os.rename(aside, place)
        except OSError:
            # It is there, but a compiler may have made other code of equal inputs: code first, so that a record never
            # names what is not there.
            for file in (*(f"{sha}.cubin" for sha in cubins), "build.json"):
                os.replace(aside / file, place / file)
            shutil.rmtree(aside)

    def code_files(self, build: Build) -> dict[str, str]:
        """The files of a build's machine code, by hash."""
        return {sha: str(self.builds / build.build_id / f"{sha}.cubin") for sha in build.code}
