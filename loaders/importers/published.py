"""Searches and forecasts of the published release: kernels with lineage, verdict and figures; answers by surrogate.

Version 2 of the events ties an evaluation to its code by request id; version 3 repeats step, request and parent on each
event, adds forecasts, and drops candidates before measurement ("deferred" there means dropped, not sent to the GPU).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.reader import Context
from kbench.loaders.importers.rows import Row, backend_of, failure, kernel_row, measurement_row
from kbench.schemas import Forecast, Status, arrow_schema
from kbench.schemas.bins import NUMBERS
from kbench.schemas.ids import kernel_id

EVENT_KINDS = (
    "search_initialized", "step_started", "mutation_requested", "mutation_completed", "mutation_failed",
    "evaluation_requested", "evaluation_completed", "evaluation_failed", "step_completed",
    "forecast_requested", "forecast_completed", "forecast_failed", "candidate_selected", "candidate_deferred",
    "mutations_drained", "forecasts_drained", "evaluations_drained",
)  # fmt: skip
"""The nine kinds of version 2, then the eight that version 3 adds."""


Case = tuple[str, float | None, float]
"""A workload's name, runtime in microseconds and speedup."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What an evaluation says of a kernel; status None when the machine failed, which says nothing of the kernel."""

    status: Status | None
    error: str | None = None
    cases: Sequence[Case] = ()
    stated_speedup: float | None = None

    def figures(self) -> Row:
        """The fields of the kernel's row: geometric means over cases, or the speedup that is stated without them."""
        if self.status is None:
            return {}
        if self.status is not Status.OK:
            return failure(self.status, self.error)
        speedup = _mean([speedup for _, _, speedup in self.cases]) or self.stated_speedup
        runtime = _mean([runtime for _, runtime, _ in self.cases])
        return {"status": Status.OK.value, "runtime_us": runtime, "speedup": speedup}


@dataclasses.dataclass(slots=True)
class Candidate:
    """One kernel of a search, as far as its events have told."""

    code: str
    parent: str | None
    step: int
    seed: bool = False
    verdict: Verdict | None = None
    dropped: bool = False


class PublishedSearch:
    """One search of the release."""

    def __init__(self, search: str, problem: tuple[str, str], gpu: str | None, context: Context) -> None:
        """Start a search."""
        self._search, self._gpu, self._context = search, gpu, context
        self._problem, self._family = problem
        self._candidates: dict[str, Candidate] = {}
        """By the request that a later event names."""
        self._nodes: dict[str, Candidate] = {}
        self._step, self._index = 0, -1
        self._forecast = False

    def event(self, data: Mapping[str, Any]) -> None:
        """Take one event."""
        index, kind = fields.whole(data, "event_index"), fields.text(data, "event_kind")
        if kind not in EVENT_KINDS:
            raise RowError("event_kind", kind, "is not a kind of event this importer knows")
        if index <= self._index:
            raise RowError("event_index", index, f"must be larger than the one before, {self._index}")
        stated = data.get("payload")
        payload = fields.an_object(
            fields.json_value(stated, "payload", stated) if isinstance(stated, str) else stated, "payload"
        )
        if payload.get("kind") not in (None, kind):
            raise RowError("payload.kind", payload["kind"], f"contradicts event_kind {kind!r}")
        self._step = max(self._step, fields.optional(fields.whole, payload, "step") or 0)
        self._apply(kind, payload)
        self._index = index
        self._forecast |= kind in ("forecast_completed", "candidate_selected")

    def _apply(self, kind: str, payload: Mapping[str, Any]) -> None:
        match kind:
            case "search_initialized":
                root, evaluation = fields.mapping(payload, "root"), fields.mapping(payload, "root").get("evaluation")
                seed, node = Candidate(fields.text(root, "program_code"), None, 0, seed=True), fields.text(root, "ulid")
                if isinstance(evaluation, Mapping) and evaluation.get("observation") is not None:
                    seed.verdict = read_evaluation(evaluation)
                self._candidates[f"root/{node}"] = self._nodes[node] = seed
            case "mutation_completed":
                child = Candidate(
                    fields.text(payload, "code"), fields.optional_text(payload, "parent_ulid"), self._step
                )
                self._candidates[fields.text(payload, "request_id")] = child
            case "evaluation_requested":
                self._requested(payload)
            case "evaluation_completed":
                candidate = self._candidate(payload)
                candidate.verdict = read_evaluation(fields.mapping(payload, "evaluation"))
                self._name_node(payload, candidate)
            case "evaluation_failed":
                self._candidate(payload).verdict = Verdict(None, str(payload.get("reason")))
            case "candidate_deferred":
                self._candidate(payload).dropped = True

    def _requested(self, payload: Mapping[str, Any]) -> None:
        request = fields.text(payload, "request_id")
        mutation = fields.optional_text(payload, "from_mutation_request_id")
        candidate = self._candidates.pop(mutation, None) if mutation else self._candidates.get(request)
        code = fields.optional_text(payload, "code")
        if candidate is None:
            candidate = Candidate(fields.text(payload, "code"), None, self._step)
        elif code is not None and code != candidate.code:
            raise RowError("code", code, "differs from the code of the mutation it was requested for")
        candidate.parent = fields.optional_text(payload, "parent_ulid") or candidate.parent
        self._candidates[request] = candidate
        self._name_node(payload, candidate)

    def _candidate(self, payload: Mapping[str, Any]) -> Candidate:
        request = fields.text(payload, "request_id")
        if request not in self._candidates:
            raise RowError("request_id", request, "no earlier event of the search gives its code")
        return self._candidates[request]

    def _name_node(self, payload: Mapping[str, Any], candidate: Candidate) -> None:
        node = fields.optional_text(payload, "child_ulid")
        if node is not None:
            self._nodes[node] = candidate

    def kernels(self, origin: str) -> Iterator[tuple[Row, list[Row]]]:
        """Every kernel of the search, each with its measurements; call it after the last event."""
        method = "puct+surrogate" if self._forecast else "puct"
        for request, candidate in self._candidates.items():
            verdict = candidate.verdict
            if verdict is not None and verdict.status is None:
                self._context.note("evaluations the machine failed; their kernels are kept as not measured")
            elif candidate.dropped:
                self._context.note("candidates a forecast dropped before measurement; kept as not measured")
            row = kernel_row(
                self._problem, self._family, backend_of(candidate.code), candidate.code,
                gpu=self._gpu, origin=origin, license=None, split="train", search_method=method,
                proposer="seed" if candidate.seed else "llm", run_id=fields.slug(self._search, "search"),
                step=candidate.step, parent_id=self._parent_id(candidate),
                **(verdict.figures() if verdict is not None else {}),
            )  # fmt: skip
            place, measured = f"{self._search}/{request}", verdict is not None and verdict.status is not None
            if verdict is None or not measured:
                yield row, []
            elif self._gpu is None:
                self._context.null("gpu", "the events name none, and no pair of the search names exactly one")
                yield row, []
            else:
                cases = verdict.cases or [("published", None, row["speedup"])]
                yield (
                    row,
                    [
                        measurement_row(row, name, place, runtime_us=runtime, speedup=speedup)
                        for name, runtime, speedup in cases
                    ],
                )

    def _parent_id(self, candidate: Candidate) -> str | None:
        parent = self._nodes.get(candidate.parent) if candidate.parent is not None else None
        if parent is None:
            if not candidate.seed:
                self._context.null("parent_id", "the events do not tell the parent's code")
            return None
        return None if parent.code == candidate.code else kernel_id(self._problem, backend_of(parent.code), parent.code)


FAILURES = {
    "compile_failed": (Status.COMPILE_ERROR, ("compilation_error",)),
    "runtime_error": (Status.LAUNCH_ERROR, ("runtime_error_name", "runtime_error")),
    "incorrect": (Status.INCORRECT, ("error_message", "correctness_issue")),
}
"""What a kind of feedback means, and the fields that say more."""
INFRASTRUCTURE = "infrastructure_failure"


def read_evaluation(evaluation: Mapping[str, Any]) -> Verdict:
    """An evaluation's verdict."""
    observation = fields.mapping(evaluation, "observation")
    feedback = observation.get("feedback")
    feedback = feedback if isinstance(feedback, Mapping) else observation
    kind = fields.text(feedback, "kind")
    if kind == INFRASTRUCTURE:
        return Verdict(None, str(feedback.get("reason")))
    if kind in FAILURES:
        status, explaining = FAILURES[kind]
        words = [str(feedback[field]) for field in explaining if feedback.get(field)]
        if "OutOfMemory" in str(feedback.get("runtime_error_name")):
            status = Status.OUT_OF_MEMORY
        return Verdict(status, ": ".join(words) or f"{kind}; no more is stated")
    if kind != "success":
        raise RowError("kind", kind, f"must be success, {INFRASTRUCTURE} or one of {', '.join(FAILURES)}")
    if feedback.get("per_case_speedups") is not None:
        results = [
            fields.an_object(case, "per_case_speedups") for case in fields.sequence(feedback, "per_case_speedups")
        ]
        cases = [_case(f"case_{number}", case, "runtime_ns") for number, case in enumerate(results)]
        stated = fields.optional(fields.positive, feedback, "aggregated_speedup")
        if not cases and stated is None:
            raise RowError("aggregated_speedup", None, "a success states a speedup")
        return Verdict(Status.OK, cases=cases, stated_speedup=stated)
    if feedback.get("runtime_us") is None:
        return Verdict(Status.OK, stated_speedup=fields.positive(feedback, "aggregated_speedup"))
    return Verdict(Status.OK, cases=[_case("published", feedback, "runtime_us")])


def _case(name: str, case: Mapping[str, Any], field: str) -> Case:
    """Figures of one workload; runtimes that give another speedup than the stated one are refused."""
    speedup = fields.positive(case, "speedup")
    runtime, reference = (fields.optional(fields.positive, case, name) for name in (field, f"ref_{field}"))
    if runtime and reference and not math.isclose(reference / runtime, speedup, rel_tol=0.02):
        raise RowError("speedup", speedup, f"the runtimes give {reference / runtime:g}")
    if runtime is None:
        return name, None, speedup
    # The `runtime_us` of KernelBench feedback holds milliseconds.
    return name, runtime / 1000.0 if field == "runtime_ns" else runtime * 1000.0, speedup


def _mean(values: Sequence[float | None]) -> float | None:
    """Geometric mean; None unless every value is known."""
    logs = [math.log(value) for value in values if value is not None]
    return math.exp(math.fsum(logs) / len(logs)) if logs and len(logs) == len(values) else None


SURROGATES = (
    "gemini3_flash", "gpt_oss_120b", "gpt_oss_20b_untrained", "deepseek_v4", "trained_correctness",
    "trained_correctness_brier", "trained_correctness_crps",
)  # fmt: skip
REPEATS = 3
DATASET_KEY = "kbench.dataset"
"""Where a forecasts file names the corpus it is for."""
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class PublishedForecasts:
    """Forecasts of the release by surrogate, joined to the evaluation set by position within a comparison id."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.asked: dict[str, list[tuple[str, str]]] = {}
        """For each comparison id its questions in the evaluation set's order, each with its pack."""
        self._occurrences: Counter[tuple[str, int, str]] = Counter()
        self._forecasts: dict[str, list[dict[str, Any]]] = {}

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one row."""
        surrogate, comparison = fields.text(data, "surrogate_label"), fields.text(data, "comparison_id")
        repeat = fields.whole(data, "repeat")
        if SAFE_NAME.fullmatch(surrogate) is None:
            raise RowError("surrogate_label", surrogate, "must be a plain name; it becomes a file's")
        pairs = self.asked.get(comparison)
        if pairs is None:
            raise RowError("comparison_id", comparison, "is not in the evaluation set")
        key = (surrogate, repeat, comparison)
        if self._occurrences[key] >= len(pairs):
            raise RowError("comparison_id", comparison, f"occurs more often than in the evaluation set ({len(pairs)})")
        pair_id, pack = pairs[self._occurrences[key]]
        if fields.text(data, "pack") != pack:
            raise RowError("pack", data["pack"], f"the comparison is of pack {pack!r}")
        forecast = {
            "query_id": pair_id, "repeat": repeat, **self._answer(data),
            "input_tokens": fields.optional(fields.whole, data, "input_tokens"),
            "output_tokens": fields.optional(fields.whole, data, "output_tokens"),
            "elapsed_s": fields.non_negative(data, "elapsed_s"),
        }  # fmt: skip
        self._occurrences[key] += 1
        self._forecasts.setdefault(surrogate, []).append(forecast)

    def _answer(self, data: Mapping[str, Any]) -> dict[str, Any]:
        predicted = data.get("predicted_bin")
        if predicted is not None and predicted not in NUMBERS:
            raise RowError("predicted_bin", predicted, f"must be null or one of {NUMBERS}")
        values = _probabilities(data)
        reason = fields.optional_text(data, "parse_error")
        if fields.truth(data, "parse_failed"):
            return {"failure": (reason or "the answer could not be parsed; no more is stated")[:500]}
        total = math.fsum(values)
        if total <= 0:
            why = "no probability was given" if not data.get("bin_probabilities") else "all probabilities are zero"
            return {"failure": why, "raw_sum": 0.0}
        stated = fields.non_negative(data, "raw_probability_sum")
        sums = () if stated is None else (1.0, stated)
        if sums and not any(math.isclose(total, wanted, rel_tol=1e-3, abs_tol=1e-3) for wanted in sums):
            raise RowError("raw_probability_sum", stated, f"the probabilities sum to {total:g}")
        raw = total if stated is None else stated
        if abs(raw - 1) > 1e-6:
            self._context.note("forecasts whose probabilities did not sum to one; normalised, the sum is kept")
        if predicted is not None and values[predicted - 1] < max(values):
            self._context.note("forecasts whose predicted_bin is not their most probable bin; the distribution counts")
        return {"probabilities": [value / total for value in values], "raw_sum": raw}

    def check(self) -> None:
        """Report forecasts that are not there."""
        expected = sum(map(len, self.asked.values())) * REPEATS
        for surrogate in SURROGATES:
            count = len(self._forecasts.get(surrogate, ()))
            if count != expected:
                difference = f"forecasts of {surrogate}: {expected:,} expected, {count:,} found"
                self._context.report.differences.append(difference)

    def write(self, folder: Path, fingerprint: str) -> int:
        """Write one Parquet file per surrogate."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = arrow_schema(Forecast).with_metadata({DATASET_KEY: fingerprint})
        folder.mkdir(parents=True, exist_ok=True)
        for surrogate, rows in self._forecasts.items():
            first = min(row["repeat"] for row in rows)
            if first:
                self._context.note(f"repeats of {surrogate} are numbered from {first}; here from 0")
            table = pa.Table.from_pylist([row | {"repeat": row["repeat"] - first} for row in rows], schema=schema)
            pq.write_table(table, folder / f"{surrogate}.parquet", compression="zstd")
        return sum(map(len, self._forecasts.values()))


def _probabilities(data: Mapping[str, Any]) -> list[float]:
    """Eight numbers; bins the list does not name are zero."""
    probabilities: dict[int, float] = {}
    for item in data.get("bin_probabilities") or ():
        if not isinstance(item, Mapping) or item.get("bin") not in NUMBERS:
            raise RowError("bin_probabilities", item, f"each item must name a bin of {NUMBERS}")
        number, value = item["bin"], item.get("p")
        if number in probabilities:
            raise RowError("bin_probabilities", item, "names a bin twice")
        if not fields.is_number(value) or value < 0:
            raise RowError("bin_probabilities", item, "p must be a number of at least 0")
        probabilities[number] = float(value)
    return [probabilities.get(number, 0.0) for number in NUMBERS]
