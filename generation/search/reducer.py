"""The reducer: the state of a run after each fact of its log. Pure, so that resuming is reading."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kbench.benchmark.llm import chat
from kbench.generation.log import LogEntry, seconds_between
from kbench.generation.search.settings import IDLE_LIMIT_S, Budget, settings_from_json
from kbench.generation.search.state import (
    BestKnown,
    BestReference,
    Node,
    Operator,
    ProposalRequest,
    RunState,
    outcome_from_json,
    outcome_of,
    refereed_outcome,
)
from kbench.schemas import DataError, Measurement, from_dict

OUTAGES = frozenset({*chat.OUTAGES, chat.NOT_ASKED})
"""First words of the reasons that pass once the proposer can be reached again.

An abandoned step asks the same again: a fault that repeats, such as a bug of the proposer, would halt its run for ever.
"""

Payload = Mapping[str, Any]
Changes = dict[str, Any]
"""Fields of the state that a fact changes, with their new values."""


def _with(state: RunState, key: str, **changes: Any) -> Mapping[str, Node]:
    """The nodes with one of them changed."""
    return {**state.nodes, key: dataclasses.replace(state.nodes[key], **changes)}


def _left_out(state: RunState, what: str) -> DataError:
    return DataError(
        f"run {state.run_id!r} leaves out {what}, which a published corpus has; assemble the log by a recipe with "
        "`samples`"
    )


def _step_started(state: RunState, payload: Payload) -> Changes:
    if not payload:
        raise _left_out(state, f"what step {state.step} asked for")
    requests = tuple(
        ProposalRequest(Operator(one["operator"]), one["parent_id"], one["other_id"]) for one in payload["requests"]
    )
    best = payload.get("best_known")
    references = {name: BestReference(*one) for name, one in payload.get("references", {}).items()}
    return {
        "requests": requests, "best_known": BestKnown(**best) if best else None, "references": references,
        "answered": frozenset(), "open": (), "outages": (), "halted": None, "filtered": False, "measured_in_step": 0,
    }  # fmt: skip


def _candidate_proposed(state: RunState, payload: Payload) -> Changes:
    slot = payload["slot"]
    if payload["source"] is None:
        raise _left_out(state, f"the text of kernel {payload['kernel_id']}")
    node = Node(
        kernel_id=payload["kernel_id"], source=payload["source"], step=state.step, slot=slot,
        parent_id=payload["parent_id"], other_id=payload["other_id"], operator=state.requests[slot].operator,
        proposer=payload["proposer"], edit=payload["edit"], recipe=payload["recipe"], niche=payload["niche"],
    )  # fmt: skip
    nodes = {**state.nodes, node.kernel_id: node}
    return {"nodes": nodes, "answered": state.answered | {slot}, "open": (*state.open, node.kernel_id)}


def _proposal_failed(state: RunState, payload: Payload) -> Changes:
    reason = payload["reason"]
    word = reason.split(":")[0]
    return {
        "answered": state.answered | {payload["slot"]},
        "outages": (*state.outages, reason) if word in OUTAGES else state.outages,
        "proposal_failures": Counter(state.proposal_failures) + Counter([word]),
    }


def _candidates_filtered(state: RunState, payload: Payload) -> Changes:
    nodes = dict(state.nodes)
    for decision in payload["decisions"]:
        if not decision["measure"]:
            nodes[decision["kernel_id"]] = dataclasses.replace(nodes[decision["kernel_id"]], skipped=True)
    silent = [decision["forecast"] for decision in payload["decisions"] if "probabilities" not in decision["forecast"]]
    return {
        "nodes": nodes, "filtered": True, "failed_forecasts": state.failed_forecasts + len(silent),
        "forecast_failure": state.forecast_failure or (silent[0]["failure"] if silent else None),
    }  # fmt: skip


def _kernel_measured(state: RunState, payload: Payload) -> Changes:
    outcome = outcome_of([from_dict(Measurement, row) for row in payload["measurements"]])
    charge = dataclasses.replace(
        state.charge,
        measurements=state.charge.measurements + 1,
        gpu_seconds=state.charge.gpu_seconds + payload["gpu_seconds"],
        build_seconds=state.charge.build_seconds + payload["build_seconds"],
    )
    nodes = _with(state, payload["kernel_id"], outcome=outcome)
    return {"nodes": nodes, "charge": charge, "measured_in_step": state.measured_in_step + 1}


def _kernel_refereed(state: RunState, payload: Payload) -> Changes:
    outcome = state.nodes[payload["kernel_id"]].outcome
    assert outcome is not None
    seconds = payload["second_clock_us"] if payload["error"] is None else payload["error"]
    return {"nodes": _with(state, payload["kernel_id"], outcome=refereed_outcome(outcome, seconds), refereed=True)}


def _step_completed(state: RunState, payload: Payload) -> Changes:
    idle = 0 if state.measured_in_step else state.idle_steps + 1
    return {"step": state.step + 1, "requests": (), "open": (), "idle_steps": idle}


def _run_resumed(state: RunState, payload: Payload) -> Changes:
    """What kept it from finding anything may be gone: idle steps count from zero again."""
    return {"stopped": None, "idle_steps": 0}


def _budget_changed(state: RunState, payload: Payload) -> Changes:
    batch = payload.get("batch", state.settings.batch)
    settings = dataclasses.replace(state.settings, budget=from_dict(Budget, payload["budget"]), batch=batch)
    return {"settings": settings, **_run_resumed(state, payload)}


HANDLERS: Mapping[str, Callable[[RunState, Payload], Changes]] = {
    "step_started": _step_started,
    "candidate_proposed": _candidate_proposed,
    "proposal_failed": _proposal_failed,
    "candidates_filtered": _candidates_filtered,
    "kernel_measured": _kernel_measured,
    "kernel_reused": lambda state, payload: {
        "nodes": _with(state, payload["kernel_id"], outcome=outcome_from_json(payload["outcome"]))
    },
    "kernel_lost": lambda state, payload: {"nodes": _with(state, payload["kernel_id"], lost=payload["reason"])},
    "kernel_refereed": _kernel_refereed,
    "finale_held": lambda state, payload: {"finalists": tuple(payload["finalists"]), "winner": payload["winner"]},
    "step_completed": _step_completed,
    # The step is undone: it begins again, with the same requests, when the run is resumed.
    "step_abandoned": lambda state, payload: {"requests": (), "open": (), "halted": payload["reason"]},
    "run_stopped": lambda state, payload: {"stopped": payload["reason"]},
    "run_resumed": _run_resumed,
    "budget_changed": _budget_changed,
}
"""What each kind of fact changes in the state; `run_started` makes it."""


@contextlib.contextmanager
def _fitting(where: str) -> Iterator[None]:
    """Name the entry whose payload or time is not what its kind has."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{where} does not fit the run so far: {type(error).__name__} {error}") from None


def start(entry: LogEntry) -> RunState:
    """The state after a run's first fact."""
    where = f"run {entry.run_id!r} entry {entry.index}"
    if entry.kind != "run_started":
        raise DataError(f"{where} is {entry.kind!r}; a run begins with 'run_started'")
    with _fitting(where):
        settings = settings_from_json(entry.payload["settings"], "settings")
        seconds_between(entry.at, entry.at)
    return RunState(run_id=entry.run_id, settings=settings, entries=1, last_at=entry.at)


def reduce(state: RunState, entry: LogEntry) -> RunState:
    """The state after one more fact."""
    where = f"run {entry.run_id!r} entry {entry.index} ({entry.kind})"
    handler = HANDLERS.get(entry.kind)
    if handler is None:
        raise DataError(f"{where} is of no known kind; known: {', '.join(HANDLERS)}")
    with _fitting(where):
        changes = handler(state, entry.payload)
        gap = max(0.0, seconds_between(state.last_at, entry.at))
        charge = changes.pop("charge", state.charge)
        tokens = entry.payload.get("input_tokens", 0) + entry.payload.get("output_tokens", 0)
        wall = charge.wall_seconds + (gap if gap <= IDLE_LIMIT_S else 0.0)
        charge = dataclasses.replace(charge, tokens=charge.tokens + tokens, wall_seconds=wall)
    return dataclasses.replace(state, **changes, entries=state.entries + 1, last_at=entry.at, charge=charge)


def replay(entries: Iterable[LogEntry]) -> RunState | None:
    """The state after all of a run's entries; None when there are none."""
    state: RunState | None = None
    for entry in entries:
        state = start(entry) if state is None else reduce(state, entry)
    return state
