"""What an evaluation of the release says of a kernel: its verdict, and its figures by case."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from kbench.loaders.importers.fields import RowError, mapping, optional_positive, positive, sequence, text
from kbench.schemas import Status

FAILURES = {
    "compile_failed": (Status.COMPILE_ERROR, ("compilation_error",)),
    "runtime_error": (Status.LAUNCH_ERROR, ("runtime_error_name", "runtime_error")),
    "incorrect": (Status.INCORRECT, ("error_message", "correctness_issue")),
}
INFRASTRUCTURE = "infrastructure_failure"
NS_PER_US = 1000.0
US_PER_MS = 1000.0


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One workload's figures."""

    name: str
    runtime_us: float | None
    speedup: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class PublishedVerdict:
    """What an evaluation found; status None when the machine failed, which says nothing of the kernel."""

    status: Status | None
    error: str | None = None
    cases: tuple[Case, ...] = ()
    stated_speedup: float | None = None

    @property
    def runtime_us(self) -> float | None:
        """Geometric mean over cases; None unless every case has one."""
        return _mean([case.runtime_us for case in self.cases])

    @property
    def speedup(self) -> float | None:
        """Geometric mean over cases, or what is stated where cases are not."""
        return _mean([case.speedup for case in self.cases]) or self.stated_speedup


def read_evaluation(evaluation: Mapping[str, Any]) -> PublishedVerdict:
    """An evaluation's verdict.

    Raises:
        RowError: an unknown kind of feedback, or figures that are missing or impossible.
    """
    observation = mapping(evaluation, "observation")
    feedback = observation.get("feedback")
    feedback = feedback if isinstance(feedback, Mapping) else observation
    kind = text(feedback, "kind")
    if kind == INFRASTRUCTURE:
        return PublishedVerdict(None, str(feedback.get("reason")))
    if kind in FAILURES:
        status, fields = FAILURES[kind]
        words = [str(feedback[field]) for field in fields if feedback.get(field)]
        if "OutOfMemory" in str(feedback.get("runtime_error_name")):
            status = Status.OUT_OF_MEMORY
        return PublishedVerdict(status, ": ".join(words) or f"{kind}; no more is stated")
    if kind != "success":
        raise RowError("kind", kind, f"must be success, {INFRASTRUCTURE} or one of {', '.join(FAILURES)}")
    if feedback.get("per_case_speedups") is not None:
        return _by_case(feedback)
    return _whole(feedback)


def _by_case(feedback: Mapping[str, Any]) -> PublishedVerdict:
    cases = []
    for number, case in enumerate(sequence(feedback, "per_case_speedups")):
        if not isinstance(case, Mapping):
            raise RowError("per_case_speedups", case, "must hold objects")
        speedup = positive(case, "speedup")
        runtime, reference = optional_positive(case, "runtime_ns"), optional_positive(case, "ref_runtime_ns")
        if runtime and reference and not math.isclose(reference / runtime, speedup, rel_tol=0.02):
            raise RowError("speedup", speedup, f"the runtimes give {reference / runtime:g}")
        cases.append(Case(f"case_{number}", None if runtime is None else runtime / NS_PER_US, speedup))
    stated = optional_positive(feedback, "aggregated_speedup")
    if not cases and stated is None:
        raise RowError("aggregated_speedup", None, "a success states a speedup")
    return PublishedVerdict(Status.OK, cases=tuple(cases), stated_speedup=stated)


def _whole(feedback: Mapping[str, Any]) -> PublishedVerdict:
    """KernelBench feedback. Its `runtime_us` holds milliseconds."""
    if feedback.get("runtime_us") is None:
        return PublishedVerdict(Status.OK, stated_speedup=positive(feedback, "aggregated_speedup"))
    runtime, reference = positive(feedback, "runtime_us"), optional_positive(feedback, "ref_runtime_us")
    speedup = positive(feedback, "speedup")
    if reference and not math.isclose(reference / runtime, speedup, rel_tol=0.02):
        raise RowError("speedup", speedup, f"the runtimes give {reference / runtime:g}")
    return PublishedVerdict(Status.OK, cases=(Case("published", runtime * US_PER_MS, speedup),))


def _mean(values: list[float | None]) -> float | None:
    known = [math.log(value) for value in values if value is not None]
    return math.exp(math.fsum(known) / len(known)) if known and len(known) == len(values) else None
