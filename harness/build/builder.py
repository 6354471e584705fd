"""Building one kernel: load it, compile what it declares for a target, store the result. Runs in a build worker."""

from __future__ import annotations

import dataclasses
import os
import time
import traceback
from pathlib import Path
from typing import Any

from kbench.benchmark.problems import ScalarSpec, problem
from kbench.harness.build.cache import Build, BuildCache
from kbench.harness.build.instructions import largest_counts, read_instructions
from kbench.harness.build.resources import Resources, kept_bytes, largest, read_resources, uses_heap
from kbench.harness.build.target import Target, build_id
from kbench.harness.build.triton_target import build_launcher, compile_only
from kbench.harness.kernel.loading import LoadedKernel, LoadError
from kbench.schemas import Backend, KernelSource
from kbench.schemas.ids import content_hash

COMPILERS = ("c++", "g++", "gcc", "cc", "clang", "clang++", "nvcc", "ninja")
EXTENSION_BUILDER = "cpp_extension.py"
KEPT_BYTES = 4096
"""Device variables a kernel may keep between calls: room for tickets and small tables, not for a whole answer."""
ERROR_LENGTH = 2000
"""Characters of a compiler's complaint that are kept."""


def build(kernel: KernelSource, target: Target, cache: BuildCache, *, call: bool = True, mix: bool = False) -> Build:
    """The kernel's build for a target: from the cache, or made now and stored.

    Args:
        kernel: what to build.
        target: the architecture.
        cache: where builds are kept.
        call: whether `run` may be called to see which Triton functions it launches; without, a Triton kernel is
            compiled at its first call in the worker that runs it.
        mix: whether the instruction mix is wanted; a stored build without one is compiled again for it.
    """
    identity = build_id(kernel.kernel_id, target)
    found = cache.get(identity)
    if found is not None and found.answers(mix):
        return found
    os.environ |= cache.extension_variables(kernel.kernel_id, f"{target.major}.{target.minor}")
    texts: list[str] | None = [] if mix else None
    made, cubins = _compiled(kernel, target, cache, call, texts)
    if texts is not None and made.error is None:
        counts = [counts for text in texts for counts in read_instructions(text).values()]
        made = dataclasses.replace(made, instructions=largest_counts(counts))
    if made.machine:
        return found or made
    if found is not None:
        # What is stored stays, machine code and all; its record alone grows.
        found = dataclasses.replace(found, instructions=made.instructions or {})
        cache.complete(found)
        return found
    cache.put(made, cubins)
    return made


def _compiled(
    kernel: KernelSource, target: Target, cache: BuildCache, call: bool, texts: list[str] | None
) -> tuple[Build, dict[str, bytes]]:
    """Load and compile; PTX is added to `texts` where there is such a list."""
    identity, started = build_id(kernel.kernel_id, target), time.perf_counter()
    try:
        loaded = LoadedKernel(kernel)
    except LoadError as error:
        missing = missing_tool(error.__cause__)
        made = _failed(identity, missing or str(error))
        return dataclasses.replace(made, machine=missing is not None), {}
    try:
        if kernel.backend is Backend.CUDA:
            return _build_cuda(loaded, target, identity, started, texts)
        if not call:
            note = "not called in the build stage: its text did not pass the screen"
            return _made(identity, started, [], None, ahead_of_time=False, note=note), {}
        with compile_only(target, cache.triton, texts) as compiled:
            return _build_triton(loaded, kernel, identity, started, compiled, texts), {}
    finally:
        loaded.unload()


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


def _failed(identity: str, error: str) -> Build:
    return Build(identity, error[:ERROR_LENGTH], None, None, None, None, None, True)


def _made(identity: str, started: float, cubins: list[bytes], dynamic_shared: int | None, **more: Any) -> Build:
    reason = _outliving(cubins)
    if reason is not None:
        return dataclasses.replace(_failed(identity, reason), refused=True)
    found: list[Resources] = [r for cubin in cubins for r in read_resources(cubin).values()]
    most = largest(found)
    shared = None if most is None else max(most.shared_bytes, dynamic_shared or 0)
    return Build(
        identity,
        None,
        1e3 * (time.perf_counter() - started),
        most.registers if most else None,
        shared,
        most.spill_bytes if most else None,
        content_hash(*sorted(cubins)) if cubins else None,
        **more,
    )


def _outliving(cubins: list[bytes]) -> str | None:
    """Why machine code could keep answers from one call to the next; None when it has no room for them."""
    kept = sum(map(kept_bytes, cubins))
    if kept > KEPT_BYTES:
        # A compiler puts constant arrays beside variables, and nothing tells the two apart.
        return (
            f"keeps {kept} bytes of device variables between calls, at most {KEPT_BYTES} are allowed; "
            "put tables into __constant__ and scratch into a tensor"
        )
    if any(map(uses_heap, cubins)):
        return "allocates on the device's heap, which outlives the call; put scratch into a tensor"
    return None


def _build_cuda(
    loaded: LoadedKernel, target: Target, identity: str, started: float, texts: list[str] | None
) -> tuple[Build, dict[str, bytes]]:
    cubins: dict[str, bytes] = {}
    symbols: dict[str, dict[str, str]] = {}
    for module in loaded.cuda_modules:
        try:
            if texts is None:
                code = module.compile(target.nvrtc)
            else:
                code, text = module.compile_with_ptx(target.nvrtc)
                texts.append(text)
        except Exception as error:  # noqa: BLE001 - whatever the compiler raises is the kernel's compile error
            return _failed(identity, f"{type(error).__name__}: {error}"), {}
        key = module.key(target.nvrtc)
        cubins[key] = bytes(code.code)
        symbols[key] = {_text(name): _text(mangled) for name, mangled in dict(code.symbol_mapping).items()}
    made = _made(identity, started, list(cubins.values()), None, ahead_of_time=True, symbols=symbols)
    return made, {} if made.refused else cubins


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _build_triton(
    loaded: LoadedKernel,
    kernel: KernelSource,
    identity: str,
    started: float,
    compiled: list[Any],
    texts: list[str] | None,
) -> Build:
    note, timed = None, 0
    for size in (*problem(kernel.problem_id).sizes, problem(kernel.problem_id).tiny):
        timed = len(texts or ())
        try:
            loaded.run(*_meta_inputs(kernel.problem_id, dict(size.params)))
        except Exception as error:  # noqa: BLE001 - judged below: a compiler's complaint, or code that needs values
            if _is_compile_error(error):
                return _failed(identity, _complaint(error))
            note = f"{type(error).__name__}: {error}"[:ERROR_LENGTH]
    if texts and timed:
        # Odd sizes have functions of their own with narrow loads; the tiny workload is such a size and is never timed.
        del texts[timed:]
    for made in compiled:
        build_launcher(made)
    cubins = [made.asm["cubin"] for made in compiled]
    shared = max((made.metadata.shared for made in compiled), default=None)
    ahead = note is None and bool(compiled)
    return _made(identity, started, cubins, shared, ahead_of_time=ahead, note=note)


def _meta_inputs(problem_id: str, params: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    return tuple(
        spec.value
        if isinstance(spec, ScalarSpec)
        else torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
        for spec in problem(problem_id).inputs(params)
    )


def _is_compile_error(error: BaseException) -> bool:
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError

    if isinstance(error, CompilationError | PTXASError | OutOfResources):
        return True
    # Triton's passes report that they gave up by a plain RuntimeError.
    return isinstance(error, RuntimeError) and "PassManager::run failed" in str(error)


def _complaint(error: BaseException) -> str:
    inner = error.__cause__
    return f"{type(error).__name__}: {error}" + (f" ({inner})" if inner is not None else "")
