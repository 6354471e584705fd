"""Search events of the release, both versions: every kernel a search wrote, its lineage, verdict and figures.

Version 2 ties an evaluation to its code by request id; version 3 repeats step, request and parent on each event, adds
forecasts, and drops candidates before measurement ("deferred" there means dropped, not sent to the GPU).
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, mapping, optional_text, optional_whole, slug, text, whole
from kbench.loaders.importers.published import release as published
from kbench.loaders.importers.published.feedback import PublishedVerdict, read_evaluation
from kbench.loaders.importers.published.release import Origin
from kbench.loaders.importers.rows import Row, backend_of, failure, kernel_row, measurement_row
from kbench.schemas import Status

KINDS = (
    "search_initialized", "step_started", "mutation_requested", "mutation_completed", "mutation_failed",
    "evaluation_requested", "evaluation_completed", "evaluation_failed", "step_completed",
    "forecast_requested", "forecast_completed", "forecast_failed", "candidate_selected", "candidate_deferred",
    "mutations_drained", "forecasts_drained", "evaluations_drained",
)  # fmt: skip
"""The nine kinds of version 2, then the eight that version 3 adds."""
NO_GPU = "the events name none, and no pair of the search names exactly one"


@dataclasses.dataclass(slots=True)
class PublishedCandidate:
    """One kernel of a search, as far as its events have told."""

    code: str
    parent: str | None
    step: int
    seed: bool = False
    node: str | None = None
    verdict: PublishedVerdict | None = None
    dropped: bool = False


class SearchImporter:
    """One search: events in, kernels and measurements out."""

    def __init__(self, search: str, problem: tuple[str, str], gpu: str | None, context: Context) -> None:
        """Start a search.

        Args:
            search: the search's name.
            problem: our id and family of its problem.
            gpu: what it was measured on, where the release says so.
            context: the import.
        """
        self.search, self.gpu = search, gpu
        self.problem, self.family = problem
        self._context = context
        self._candidates: dict[str, PublishedCandidate] = {}
        self._nodes: dict[str, PublishedCandidate] = {}
        self._step = 0
        self._index = -1
        self.counts: Counter[str] = Counter()

    def event(self, data: Mapping[str, Any]) -> None:
        """Take one event.

        Raises:
            RowError: an unknown kind, an index out of order, or a field that is missing.
        """
        index, kind = whole(data, "event_index"), text(data, "event_kind")
        if kind not in KINDS:
            raise RowError("event_kind", kind, "is not a kind of event this importer knows")
        if index <= self._index:
            raise RowError("event_index", index, f"must be larger than the one before, {self._index}")
        payload = _payload(data)
        if payload.get("kind") not in (None, kind):
            raise RowError("payload.kind", payload["kind"], f"contradicts event_kind {kind!r}")
        self._step = max(self._step, optional_whole(payload, "step") or 0)
        handler = getattr(self, f"_{kind}", None)
        if handler is not None:
            handler(payload)
        self._index = index
        self.counts[kind] += 1

    def _search_initialized(self, payload: Mapping[str, Any]) -> None:
        root = mapping(payload, "root")
        candidate = PublishedCandidate(text(root, "program_code"), None, 0, seed=True, node=text(root, "ulid"))
        if isinstance(root.get("evaluation"), Mapping) and root["evaluation"].get("observation") is not None:
            candidate.verdict = read_evaluation(root["evaluation"])
        self._candidates[f"root/{candidate.node}"] = self._nodes[text(root, "ulid")] = candidate

    def _mutation_completed(self, payload: Mapping[str, Any]) -> None:
        parent = optional_text(payload, "parent_ulid")
        self._candidates[text(payload, "request_id")] = PublishedCandidate(text(payload, "code"), parent, self._step)

    def _evaluation_requested(self, payload: Mapping[str, Any]) -> None:
        request = text(payload, "request_id")
        mutation = optional_text(payload, "from_mutation_request_id")
        candidate = self._candidates.pop(mutation, None) if mutation else self._candidates.get(request)
        code = optional_text(payload, "code")
        if candidate is None:
            candidate = PublishedCandidate(text(payload, "code"), None, self._step)
        elif code is not None and code != candidate.code:
            raise RowError("code", code, "differs from the code of the mutation it was requested for")
        candidate.parent = optional_text(payload, "parent_ulid") or candidate.parent
        candidate.node = optional_text(payload, "child_ulid")
        self._candidates[request] = candidate
        if candidate.node is not None:
            self._nodes[candidate.node] = candidate

    def _evaluation_completed(self, payload: Mapping[str, Any]) -> None:
        candidate = self._known(payload)
        candidate.verdict = read_evaluation(mapping(payload, "evaluation"))
        node = optional_text(payload, "child_ulid")
        if node is not None:
            self._nodes[node] = candidate

    def _evaluation_failed(self, payload: Mapping[str, Any]) -> None:
        candidate = self._known(payload)
        candidate.verdict = PublishedVerdict(None, str(payload.get("reason")))

    def _candidate_deferred(self, payload: Mapping[str, Any]) -> None:
        self._known(payload).dropped = True

    def _known(self, payload: Mapping[str, Any]) -> PublishedCandidate:
        request = text(payload, "request_id")
        if request not in self._candidates:
            raise RowError("request_id", request, "no earlier event of the search gives its code")
        return self._candidates[request]

    def kernels(self) -> Iterator[tuple[Row, list[Row]]]:
        """Every kernel of the search, each with its measurements; call it after the last event."""
        origin = str(Origin(published.EVENTS, self._context.settings.revisions.get(published.EVENTS)))
        method = "puct+surrogate" if self.counts["forecast_completed"] + self.counts["candidate_selected"] else "puct"
        for request, candidate in self._candidates.items():
            verdict = candidate.verdict
            if verdict is not None and verdict.status is None:
                self._context.note("evaluations the machine failed; their kernels are kept as not measured")
            elif candidate.dropped:
                self._context.note("candidates a forecast dropped before measurement; kept as not measured")
            row = kernel_row(
                self.problem, self.family, backend_of(candidate.code), candidate.code,
                gpu=self.gpu, origin=origin, license=None, split="train",
                search_method=method, proposer="seed" if candidate.seed else "llm", run_id=slug(self.search, "search"),
                step=candidate.step, parent_id=self._parent_id(candidate), **_figures(verdict),
            )  # fmt: skip
            yield row, list(self._measurements(row, verdict, request))

    def _parent_id(self, candidate: PublishedCandidate) -> str | None:
        if candidate.parent is None or candidate.parent not in self._nodes:
            if not candidate.seed:
                self._context.null("parent_id", "the events do not tell the parent's code")
            return None
        code = self._nodes[candidate.parent].code
        if code == candidate.code:
            return None
        from kbench.schemas.ids import kernel_id

        return kernel_id(self.problem, backend_of(code), code)

    def _measurements(self, row: Row, verdict: PublishedVerdict | None, request: str) -> Iterator[Row]:
        if verdict is None or verdict.status is None:
            return
        if self.gpu is None:
            self._context.null("gpu", NO_GPU)
            return
        place = f"{self.search}/{request}"
        for case in verdict.cases:
            yield measurement_row(row, case.name, place, runtime_us=case.runtime_us, speedup=case.speedup)
        if not verdict.cases:
            yield measurement_row(row, "published", place, speedup=verdict.speedup)


def _figures(verdict: PublishedVerdict | None) -> Row:
    if verdict is None or verdict.status is None:
        return {}
    if verdict.status is not Status.OK:
        return failure(verdict.status, verdict.error)
    return {"status": Status.OK.value, "runtime_us": verdict.runtime_us, "speedup": verdict.speedup}


def _payload(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload: a struct, or the same as JSON text."""
    value = data.get("payload")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise RowError("payload", value, "must be a struct or a JSON object") from None
    if not isinstance(value, Mapping):
        raise RowError("payload", value, "must be a struct or a JSON object")
    return value
