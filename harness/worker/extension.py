"""Torch extensions: what the machine lacks when one cannot be built."""

from __future__ import annotations

import traceback
from pathlib import Path

COMPILERS = ("c++", "g++", "gcc", "cc", "clang", "clang++", "nvcc", "ninja")
EXTENSION_BUILDER = "cpp_extension.py"


def missing_tool(error: BaseException | None) -> str | None:
    """What the machine lacks to build a torch extension, when that is why loading failed; None otherwise."""
    if not isinstance(error, OSError | RuntimeError) or not _from_extension(error):
        return None
    said = str(error)
    if "CUDA_HOME environment variable is not set" in said:
        return "a torch extension needs CUDA's compiler, and no nvcc was found; put it on PATH or set CUDA_HOME"
    if "mismatches the version that was used to compile" in said:
        return "a torch extension needs the CUDA that torch was built with: " + " ".join(said.split())[:300]
    if "Ninja is required" in said:
        return "a torch extension needs ninja, and none was found; pip install ninja"
    if isinstance(error, FileNotFoundError) and Path(str(error.filename)).name in COMPILERS:
        return f"a torch extension needs {Path(str(error.filename)).name}, and none was found; install it"
    return None


def _from_extension(error: BaseException) -> bool:
    """Whether torch's building of extensions raised it, and not the kernel's text in its words."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(Path(frame.f_code.co_filename).name == EXTENSION_BUILDER for frame, _ in frames)
