"""Cache: one folder a build, named by its content hash, written aside and renamed so that what is there is complete.

builds/<build id>/build.json   the Build record
builds/<build id>/<key>.cubin  machine code of each CUDA module
triton/                        Triton's own cache, addressed by content and written by atomic replacement
extensions/<kernel id>/        torch extensions a foreign kernel compiles on import, under torch's own lock
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

from kbench.harness.cuda import Prebuilt
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import Status


@dataclasses.dataclass(frozen=True, slots=True)
class Build:
    """What the build stage found out about a kernel."""

    build_id: str
    error: str | None
    """Why it does not compile; None when it does."""
    compile_ms: float | None
    registers: int | None
    shared_bytes: int | None
    spill_bytes: int | None
    cubin_sha: str | None
    ahead_of_time: bool
    """False when the machine code is only made at the first call, in the worker that runs it."""
    note: str | None = None
    """Why it could not be built ahead of time."""
    machine: bool = False
    """Whether the error is the machine's, which lacks a tool, and says nothing about the kernel; never stored."""
    refused: bool = False
    """Whether it compiles, and the error says which rule it breaks."""
    symbols: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    """Mangled names by exported name, for each CUDA module's key."""
    instructions: Mapping[str, int] | None = None
    """Counts of PTX instructions by class (see kbench.harness.build.instructions), the largest over the functions;
    empty where no PTX was made, None where nobody asked."""

    @property
    def status(self) -> Status:
        """What the build makes of the kernel."""
        if self.error is None:
            return Status.OK
        return Status.REJECTED if self.refused else Status.COMPILE_ERROR

    def answers(self, mix: bool) -> bool:
        """Whether nothing is left to build, where the instruction mix is wanted or not."""
        return not mix or self.error is not None or self.instructions is not None


class BuildCache:
    """A folder of builds, safe to share between processes and machines of the same kind."""

    def __init__(self, folder: Path) -> None:
        """Open a cache folder, creating it when absent."""
        self.folder = folder
        self.builds, self.triton, self.extensions = folder / "builds", folder / "triton", folder / "extensions"
        for place in (self.builds, self.triton, self.extensions):
            place.mkdir(parents=True, exist_ok=True)

    def extension_variables(self, kernel_id: str, target: str) -> dict[str, str]:
        """Environment under which a torch extension is built once and found again."""
        return {"TORCH_EXTENSIONS_DIR": str(self.extensions / kernel_id), "TORCH_CUDA_ARCH_LIST": target}

    def get(self, build_id: str) -> Build | None:
        """A finished build, or None."""
        try:
            text = (self.builds / build_id / "build.json").read_text()
        except FileNotFoundError:
            return None
        return Build(**json.loads(text))

    def put(self, build: Build, cubins: Mapping[str, bytes]) -> None:
        """Store a build; when another process stored it first, that one stays."""
        aside = Path(tempfile.mkdtemp(prefix="tmp.", dir=self.builds))
        for key, cubin in cubins.items():
            (aside / f"{key}.cubin").write_bytes(cubin)
        (aside / "build.json").write_text(json.dumps(as_json(build)))
        try:
            os.rename(aside, self.builds / build.build_id)
        except OSError:
            # The entry exists: equal content by construction of its name.
            shutil.rmtree(aside)

    def complete(self, build: Build) -> None:
        """Replace the record of a stored build by one that says more about the same machine code."""
        write_atomically(self.builds / build.build_id / "build.json", json.dumps(as_json(build)))

    def prebuilt(self, build: Build) -> dict[str, Prebuilt]:
        """Machine code of a build's CUDA modules, ready for CudaModule.prebuilt."""
        folder = self.builds / build.build_id
        return {
            key: Prebuilt((folder / f"{key}.cubin").read_bytes(), symbols) for key, symbols in build.symbols.items()
        }


def as_json(build: Build) -> dict[str, Any]:
    """A build as plain values."""
    return dataclasses.asdict(build)


def default_folder() -> Path:
    """Where builds are kept unless told otherwise: $KBENCH_CACHE, or the user's cache folder."""
    told = os.environ.get("KBENCH_CACHE")
    if told:
        return Path(told)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kbench"
