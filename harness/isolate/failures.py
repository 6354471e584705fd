"""Judge: what an exception, a death or a time says about a kernel."""

from __future__ import annotations

import signal

from kbench.schemas import Status

REASON_LENGTH = 600
COMPILE_ERRORS = frozenset({"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct",
                            "PTXASError", "NVRTCError"})  # fmt: skip


def classify(error: BaseException) -> tuple[Status, str]:
    """The status and reason for what a kernel raised."""
    name, text = type(error).__name__, str(error).strip()
    reason = f"{name}: {text}"[:REASON_LENGTH]
    if name == "OutOfMemoryError" or isinstance(error, MemoryError) or "CUDA_ERROR_OUT_OF_MEMORY" in text:
        return Status.OUT_OF_MEMORY, reason
    if name in COMPILE_ERRORS or "nvrtc" in text.lower():
        return Status.COMPILE_ERROR, reason
    return Status.LAUNCH_ERROR, reason


def killed_from_outside(exit_code: int | None) -> bool:
    """Whether a death says nothing about screened code, which cannot send itself a signal.

    SIGKILL comes from an operator or the system's memory killer; no code at all means that the starter died too.
    """
    return exit_code is None or exit_code == -signal.SIGKILL


def verdict_on_death(exit_code: int | None, stage: str) -> tuple[Status, str]:
    """The status and reason when a worker died while a kernel was in its hands."""
    if exit_code is None:
        how = "ended without a trace"
    elif exit_code < 0:
        how = f"was ended by {signal.Signals(-exit_code).name}"
    else:
        how = f"exited with code {exit_code}"
    status = Status.OUT_OF_MEMORY if exit_code == -signal.SIGKILL else Status.LAUNCH_ERROR
    outside = exit_code == -signal.SIGSEGV and stage.startswith("verify")
    likely = "; it probably reads or writes outside a tensor: a missing mask?" if outside else ""
    return status, f"the process {how} while the kernel was in {stage}{likely}"
