"""Search: one run carried forward. It turns actions into log entries; its driver measures."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbench.benchmark.llm.batch import Unanswered, WaitingForResponsesError
from kbench.generation.executors.executor import Result
from kbench.generation.log import Clock, LogEntry
from kbench.generation.search import action
from kbench.generation.search.guide import Guess, Guide, decide, guesses, query_id, tokens
from kbench.generation.search.methods.catalogue import SEARCHES, filter_of, learns
from kbench.generation.search.methods.evolve import archive
from kbench.generation.search.methods.method import LLM
from kbench.generation.search.methods.puct import lineage
from kbench.generation.search.proposal import (
    Answer,
    Ask,
    BudgetSpentError,
    Proposal,
    ProposalTask,
    Proposer,
    Refusal,
    near_duplicate,
    refuse_source,
)
from kbench.generation.search.reducer import reduce, start
from kbench.generation.search.settings import RunSettings, refuse_changes
from kbench.generation.search.state import (
    BestKnown,
    BestReference,
    KernelOutcome,
    Node,
    ProposalRequest,
    RunState,
    build_seconds,
    gpu_seconds,
    refereed_outcome,
)
from kbench.harness.timing.second_clock import SecondTimes
from kbench.schemas import Forecast, KbenchError, KernelSource, to_dict
from kbench.schemas.ids import content_hash, kernel_id

Siblings = Callable[[], Iterable[Node]]
"""Measured candidates of other runs on the same problem and backend, for the surrogate to learn from."""


def place_of(origin: str, step: int, slot: int, request: ProposalRequest) -> str:
    """The place of an ask: the same whenever it is made."""
    return content_hash(origin, str(step), str(slot), json.dumps(request.to_json()))


def asked_places(entries: Iterable[LogEntry]) -> Iterator[str]:
    """The places of all asks that a log holds."""
    states: dict[str, RunState] = {}
    for entry in entries:
        if entry.kind == "run_started":
            states[entry.run_id] = start(entry)
        elif entry.kind == "step_started":
            origin = action.origin(dataclasses.replace(states[entry.run_id], step=entry.step))
            for slot, request in enumerate(reduce(states[entry.run_id], entry).requests):
                yield place_of(origin, entry.step, slot, request)


class Search:
    """One run: its state, its proposer and its surrogate."""

    def __init__(
        self, settings: RunSettings, proposer: Proposer, clock: Clock, *,
        surrogate: Guide | None = None, state: RunState | None = None,
        seen_elsewhere: Callable[[str], bool] = lambda key: False, siblings: Siblings = lambda: (),
        references: Mapping[str, BestReference] | None = None, gpu: str = "", gpu_facts_json: str = "{}",
    ) -> None:  # fmt: skip
        self.settings = settings
        self._proposer, self._surrogate, self._clock = proposer, surrogate, clock
        self._seen_elsewhere, self._siblings = seen_elsewhere, siblings
        self._references, self._gpu, self._gpu_facts_json = references or {}, gpu, gpu_facts_json
        self._fresh: list[LogEntry] = []
        self.halted: str | None = None
        """Why the run cannot go on for now; resuming tries again."""
        self.waiting: Unanswered | None = None
        """What its step waits for; once it is answered, resuming goes on with the same requests."""
        if state is None:
            first = LogEntry(settings.run_id, 0, "run_started", 0, clock(), {"settings": settings.to_json()})
            self._fresh.append(first)
            self.state = start(first)
        else:
            refuse_changes(state.run_id, state.settings, settings)
            # Its file may have moved.
            state = dataclasses.replace(state, settings=dataclasses.replace(state.settings, method=settings.method))
            self.state = state
            if (state.settings.budget, state.settings.batch) != (settings.budget, settings.batch):
                self._record("budget_changed", budget=settings.to_json()["budget"], batch=settings.batch)
            elif state.stopped is not None and settings.budget.spent(state.charge) is None:
                self._record("run_resumed")
            if self.state.requests and not self.state.answered:
                # A step that nobody has answered is planned again where the batch or the method asks otherwise.
                todo = action.next_action(dataclasses.replace(self.state, requests=()))
                if isinstance(todo, action.StartStep) and todo.requests != self.state.requests:
                    self._carry_out(todo)

    def _record(self, kind: str, **payload: Any) -> None:
        entry = LogEntry(self.state.run_id, self.state.entries, kind, self.state.step, self._clock(), payload)
        self.state = reduce(self.state, entry)
        self._fresh.append(entry)

    def take_entries(self) -> list[LogEntry]:
        """New entries, to be appended to the log before anything else is done."""
        fresh, self._fresh = self._fresh, []
        return fresh

    @property
    def done(self) -> bool:
        """Whether the run has ended or cannot go on for now."""
        return self.state.stopped is not None or self.halted is not None or self.waiting is not None

    def advance(self) -> tuple[KernelSource, ...]:
        """Carry the run forward until it needs measurements.

        Returns:
            The kernels to measure; none when the run has ended or cannot go on for now.
        """
        while self.halted is None and self.waiting is None:
            todo = action.next_action(self.state)
            if isinstance(todo, action.Measure):
                return tuple(self.kernel(self.state.nodes[key]) for key in todo.kernel_ids)
            if isinstance(todo, action.Done):
                break
            self._carry_out(todo)
        return ()

    def _carry_out(self, todo: action.Action) -> None:
        match todo:
            case action.StartStep():
                requests = [request.to_json() for request in todo.requests]
                self._record("step_started", requests=requests, **self._briefing())
                if not requests:
                    self._record("step_completed")
            case action.Propose():
                self._propose(todo.slots)
            case action.Filter():
                self._filter(todo)
            case action.CompleteStep():
                self._record("step_completed")
            case action.Abandon():
                self._record("step_abandoned", reason=todo.reason)
                self.halted = todo.reason
            case action.Stop():
                self._record("run_stopped", reason=todo.reason)

    def _measured(self) -> Iterator[Node]:
        """Every candidate of the cell that was measured."""
        yield from self._siblings()
        yield from (node for node in self.state.nodes.values() if node.outcome is not None)

    def _briefing(self) -> dict[str, Any]:
        """What the requests of a step tell from outside the run.

        It is logged with the step: what others find later must not change a request that waits for its answer.
        """
        briefing: dict[str, Any] = {}
        if learns(self.settings):
            # The cell's fastest kernel whose author stated an idea.
            with_idea = [(node.reward, node) for node in self._measured() if node.reward is not None and node.idea]
            if with_idea:
                reward, best = max(with_idea, key=lambda pair: pair[0])
                briefing["best_known"] = dataclasses.asdict(BestKnown(best.kernel_id, reward, best.idea or ""))
        if self._references and LLM in self.settings.proposer.split("+"):
            briefing["references"] = {name: dataclasses.astuple(one) for name, one in self._references.items()}
        return briefing

    def kernel(self, node: Node) -> KernelSource:
        """A candidate as what is measured."""
        return KernelSource(self.settings.problem_id, self.settings.backend, node.source)

    def _has(self, key: str) -> bool:
        """Whether the run has this kernel; one that the filter skipped may come again: nothing is known of it."""
        node = self.state.nodes.get(key)
        return node is not None and not node.skipped

    def _seen(self, key: str) -> bool:
        return self._has(key) or self._seen_elsewhere(key)

    def _propose(self, slots: Sequence[int]) -> None:
        task = ProposalTask(
            self.settings.problem_id, self.settings.backend, self._seen, self._gpu_facts_json,
            self.settings.budget.tokens_left(self.state.charge),
        )  # fmt: skip
        answers = self._proposer.propose(task, [self._ask(slot) for slot in slots])
        for slot in slots:
            try:
                answer = next(answers, None)
            except WaitingForResponsesError as error:
                self.waiting = error.unanswered
                return
            except BudgetSpentError as error:
                self._record("run_stopped", reason=f"budget spent: {error}")
                return  # the slots from here on are asked for when the budget is raised
            except KbenchError:
                raise
            except Exception as error:  # noqa: BLE001 - a bug in one family or operator must not end a campaign
                reason = f"proposer error: {type(error).__name__}: {error}"
                self._take(slot, Refusal(reason=reason, proposer=self._proposer.name))
                return  # the slots after it are unanswered and are asked for again
            missing = Refusal(reason="no answer: the proposer gave too few", proposer=self._proposer.name)
            self._take(slot, missing if answer is None else answer)

    def _ask(self, slot: int) -> Ask:
        request, nodes = self.state.requests[slot], self.state.nodes
        parent = nodes[request.parent_id] if request.parent_id else None
        other = nodes[request.other_id] if request.other_id else None
        ancestors = [nodes[key] for key in reversed(lineage(nodes, request.parent_id)[1:])]
        tried = [node for node in nodes.values() if parent and node.parent_id == parent.kernel_id and node.outcome]
        place = place_of(action.origin(self.state), self.state.step, slot, request)
        return Ask(
            operator=request.operator, parent=parent, other=other, ancestors=tuple(ancestors), tried=tuple(tried),
            archive=tuple(archive(self.state.rewarded())) if learns(self.settings) else (),
            best_known=self.state.best_known, references=self.state.references, turn=self._turn(slot),
            rng=action.rng_for(self.state, "propose", slot), place=place,
        )  # fmt: skip

    def _turn(self, slot: int) -> int:
        cell = int(content_hash(self.settings.problem_id, self.settings.backend.value)[:8], 16)
        shared = self.settings.first and not self.state.step
        place = 0 if shared else [*SEARCHES, self.settings.method].index(self.settings.method)
        return cell + place + self.settings.seed + self.state.step + slot

    def _take(self, slot: int, answer: Answer) -> None:
        spent: dict[str, Any] = _token_fields(answer.input_tokens, answer.output_tokens)
        reason = self._refusal(answer)
        if isinstance(answer, Proposal) and reason is None:
            self._record(
                "candidate_proposed", slot=slot, kernel_id=self._key(answer), parent_id=answer.parent_id,
                other_id=answer.other_id, proposer=answer.proposer, edit=answer.edit, recipe=answer.recipe,
                niche=answer.niche, source=answer.source, **spent,
            )  # fmt: skip
            return
        if answer.recipe is not None:
            spent["recipe"] = answer.recipe
        self._record("proposal_failed", slot=slot, reason=reason, proposer=answer.proposer, **spent)

    def _key(self, proposal: Proposal) -> str:
        return kernel_id(self.settings.problem_id, self.settings.backend, proposal.source)

    def _refusal(self, answer: Answer) -> str | None:
        """Why an answer is no candidate; None where it is one."""
        if isinstance(answer, Refusal):
            return answer.reason
        unusable = refuse_source(answer.source, self.settings.backend)
        if unusable is not None:
            return unusable
        if self._has(self._key(answer)):
            return "duplicate: the run already has this kernel"
        twin = near_duplicate(answer.source, self._measured()) if answer.must_differ else None
        return f"near-duplicate: {twin}" if twin else None

    def _filter(self, todo: action.Filter) -> None:
        filter_settings = filter_of(self.settings)
        assert filter_settings is not None
        try:
            expected = self._guesses(list(self._measured()), [self.state.nodes[key] for key in todo.kernel_ids])
        except WaitingForResponsesError as error:
            self.waiting = error.unanswered
            return
        decisions = decide(todo.kernel_ids, expected, filter_settings, todo.keep)
        spent = tokens([guess.forecast for guess in expected])
        self._record(
            "candidates_filtered", surrogate=filter_settings.surrogate, decisions=decisions, **_token_fields(*spent)
        )

    def _guesses(self, known: Sequence[Node], nodes: Sequence[Node]) -> Sequence[Guess]:
        assert self._surrogate is not None
        try:
            parents = {node.kernel_id: self.state.nodes.get(node.parent_id or "") for node in nodes}
            return guesses(self._surrogate, self.settings, known, nodes, self._gpu, self._gpu_facts_json, parents)
        except WaitingForResponsesError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a surrogate is foreign code: its failure must not end a search
            reason = f"{type(error).__name__}: {error}"
            return [Guess(Forecast(query_id=query_id(node, self._gpu), failure=reason)) for node in nodes]

    def receive(self, result: Result) -> None:
        """Record a measurement, or its loss."""
        if result.lost is not None:
            self._record("kernel_lost", kernel_id=result.kernel_id, reason=result.lost)
            return
        rows = result.measurements
        self._record(
            "kernel_measured", kernel_id=result.kernel_id, measurements=[to_dict(row) for row in rows],
            gpu_seconds=gpu_seconds(rows), build_seconds=build_seconds(rows),
        )  # fmt: skip

    def reuse(self, key: str, outcome: KernelOutcome, run_id: str) -> None:
        """Record what a sibling run measured; it is charged nothing."""
        self._record("kernel_reused", kernel_id=key, from_run=run_id, outcome=outcome.to_json())

    def contradicted(self, seconds: Mapping[str, SecondTimes]) -> list[str]:
        """Candidates whose times the profiler does not confirm."""
        times = {node.kernel_id: (node.outcome, seconds.get(node.kernel_id)) for node in self.state.rewarded()}
        return [key for key, (outcome, said) in times.items()
                if outcome and said is not None and refereed_outcome(outcome, said).speedup is None]  # fmt: skip

    def referee(self, seconds: Mapping[str, SecondTimes]) -> None:
        """Record what the profiler says of candidates."""
        for node in self.state.rewarded():
            times = None if node.refereed else seconds.get(node.kernel_id)
            if times is not None:
                silent = isinstance(times, str)
                self._record(
                    "kernel_refereed", kernel_id=node.kernel_id, second_clock_us=None if silent else times,
                    error=times if silent else None,
                )  # fmt: skip

    def hold_finale(self, finalists: Sequence[Node], winner: Node, duels: Sequence[Mapping[str, Any]]) -> None:
        """Record how finalists fared against the first of them."""
        ids = [node.kernel_id for node in finalists]
        self._record("finale_held", finalists=ids, winner=winner.kernel_id, duels=list(duels))


def _token_fields(read: int, written: int) -> dict[str, int]:
    return {"input_tokens": read, "output_tokens": written} if read or written else {}
