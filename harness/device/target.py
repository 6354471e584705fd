"""Target: the architecture machine code is made for, in the spelling of each compiler."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata

from kbench.harness.cuda import architecture
from kbench.schemas import UnknownNameError

KNOWN_TARGETS = {
    "sm_80": (8, 0),
    "sm_86": (8, 6),
    "sm_89": (8, 9),
    "sm_90": (9, 0),
    "sm_100": (10, 0),
    "sm_120": (12, 0),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A compute capability."""

    major: int
    minor: int

    @classmethod
    def named(cls, name: str) -> Target:
        """The target called sm_90 and the like; a trailing `a` is accepted.

        Raises:
            UnknownNameError: with the nearest names.
        """
        try:
            return cls(*KNOWN_TARGETS[name.rstrip("a")])
        except KeyError:
            raise UnknownNameError("target", name, KNOWN_TARGETS) from None

    @property
    def nvrtc(self) -> str:
        """NVRTC's spelling, such as sm_90a."""
        return architecture(self.major, self.minor)

    @property
    def triton(self) -> int:
        """Triton's spelling, such as 90."""
        return self.major * 10 + self.minor

    def __str__(self) -> str:
        return f"sm_{self.major}{self.minor}"


@functools.cache
def compiler_versions() -> str:
    """Versions of everything that decides the machine code; part of a build's identity."""
    found = []
    for package in ("triton", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu13"):
        try:
            found.append(f"{package}={importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return " ".join(found)
