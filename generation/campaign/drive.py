"""Drive: open a run folder, bring its runs up to date from the log, and drive them over an executor."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.llm.batch import Unanswered, WaitingForResponsesError
from kbench.generation.campaign.campaign import Campaign, CampaignProgress, Drive, counted
from kbench.generation.log import LogWriter, by_run, found_files, read_environments, read_log, record_environments
from kbench.generation.proposers.mixed import proposer as proposer_named
from kbench.generation.search.methods.catalogue import filter_of, with_hash
from kbench.generation.search.reducer import replay
from kbench.generation.search.search import Search, asked_places
from kbench.generation.search.settings import RunSettings, refuse_changes
from kbench.generation.search.state import BestReference, RunState
from kbench.loaders.storage.atomic import write_atomically
from kbench.loaders.storage.lines import read_records
from kbench.schemas import Environment, ReferenceTime, UserError, to_dict

REFERENCES = "references.jsonl"
"""Reference times in a run folder (`kbench problems references`): a language model is told of the best of them."""

WAITING = "waiting.json"
"""The ids of each search's open requests in a run folder, for `kbench generate status`."""


def recorded_states(folder: Path) -> dict[str, RunState]:
    """The state of every run in a folder's log; empty when there is no log yet."""
    if not found_files(folder):
        return {}
    states = {run_id: replay(entries) for run_id, entries in by_run(read_log(folder)).items()}
    return {run_id: state for run_id, state in states.items() if state is not None}


def drive(folder: Path, runs: Sequence[RunSettings], how: Drive) -> CampaignProgress:
    """Start or resume runs: the same code, since a run is its log.

    Raises:
        UserError: two runs are the same search, a proposer or surrogate is not available, or a run in the folder was
            started with other settings; the message shows the difference.
        WaitingForResponsesError: searches wait for a language model's responses, everything else is done.
    """
    began = time.monotonic()
    runs = [with_hash(settings) for settings in runs]
    # Two runs of one key would write two courses of one search into the log, which could not be read again.
    keys = Counter(map(run_key, runs))
    if twice := next((settings for settings in runs if keys[run_key(settings)] > 1), None):
        raise UserError(
            f"problem {twice.problem_id!r}, backend {twice.backend.value!r}, method {twice.search_method!r}, seed "
            f"{twice.seed} is named twice; name each search once"
        )
    # What is not available is refused before anything is written.
    by_name = functools.cache(proposer_named)
    proposers = [how.proposer_for(settings) if how.proposer_for else by_name(settings.proposer) for settings in runs]
    guides = [how.surrogate_for(chosen.surrogate) if (chosen := filter_of(settings)) else None for settings in runs]
    authors = [part for one in (*proposers, *guides) for part in (one, *getattr(one, "parts", ()))]
    for author in authors:
        # What a language model answers is paid for before the log knows of it.
        if keep_replies := getattr(author, "keep_replies", None):
            keep_replies(folder)
    with LogWriter(folder) as log:
        states = recorded_states(folder)
        if len(states) == 1 and len(runs) == 1:
            only = next(iter(states.values()))
            refuse_changes(only.run_id, only.settings, runs[0])
        recorded = {run_key(state.settings): state for state in states.values()}
        for settings in runs:
            if state := recorded.get(run_key(settings)):
                refuse_changes(state.run_id, state.settings, settings)
        with how.executor as executor:
            places = executor.environments()
            record_environments(folder, places)
            place = _described(folder, places)
            references = _references(folder, how.references, place)
            # Opening the log and the GPU counts: a deadline is for the whole command.
            left = None if how.deadline_s is None else how.deadline_s - (time.monotonic() - began)
            campaign = Campaign(dataclasses.replace(how, deadline_s=left), log.write)
            changed = ((recorded.get(run_key(one)), one.budget) for one in runs)
            spent = (new.spent(state.charge) for state, new in changed if state and state.settings.budget != new)
            campaign.progress.spent_before = next(filter(None, spent), None)
            driven = {run_key(settings) for settings in runs}
            campaign.remember(state for key, state in recorded.items() if key not in driven)
            for settings, proposer, guide in zip(runs, proposers, guides, strict=True):
                campaign.add(Search(
                    settings, proposer, how.clock, surrogate=guide, state=recorded.get(run_key(settings)),
                    seen_elsewhere=functools.partial(campaign.seen, settings.label),
                    siblings=functools.partial(campaign.siblings, settings),
                    references=references.get(settings.problem_id, {}), gpu=place.gpu if place else "unknown",
                    gpu_facts_json=json.dumps(to_dict(place), sort_keys=True) if place else "{}",
                ))  # fmt: skip
            try:
                progress = campaign.run()
            finally:
                record_environments(folder, executor.environments())
            for find in {find for author in authors if (find := getattr(author, "unknown_responses", None))}:
                progress.unknown_responses = find(asked_places(read_log(folder)))
            _write_open_requests(folder, campaign.unanswered, keep=progress.live > 0)
            if not campaign.unanswered:
                for drop in {drop for author in authors if (drop := getattr(author, "drop_answered", None))}:
                    drop(keep=progress.live > 0)
            wait_for_responses([*campaign.unanswered.values()], progress)
            return progress


def _references(
    folder: Path, recorded: Iterable[ReferenceTime], place: Environment | None
) -> Mapping[str, Mapping[str, BestReference]]:
    """The best reference on this GPU by problem and workload: as timed for the run folder, or else as recorded."""
    file = folder / REFERENCES
    references: dict[str, dict[str, BestReference]] = defaultdict(dict)
    for row in read_records(file, ReferenceTime) if file.is_file() else recorded:
        if place is not None and row.gpu == place.gpu:
            references[row.problem_id][row.workload] = BestReference(*row.best)
    return references


def _write_open_requests(folder: Path, unanswered: Mapping[str, Unanswered], *, keep: bool) -> None:
    """Write what each search waits for, for `kbench generate status`; searches not come to wait as they did."""
    before = open_requests(folder)
    if before or unanswered:
        answered = {key for one in unanswered.values() for key in one.files.answers().replies}
        kept = {run: [key for key in keys if key not in answered] for run, keys in before.items()} if keep else {}
        waiting = {run: [*one.bodies] for run, one in unanswered.items()}
        write_atomically(folder / WAITING, json.dumps(kept | waiting))


def open_requests(folder: Path) -> dict[str, list[str]]:
    """The requests of each search that had no response when the last command of a run folder ended."""
    path = folder / WAITING
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def _described(folder: Path, places: Sequence[Environment]) -> Environment | None:
    """The environment proposers are told of: the first recorded one with this GPU.

    Measured figures differ a little between machines; a request must be the same one on all of them.
    """
    if not places:
        return None
    return next((one for one in read_environments(folder) if one.gpu == places[0].gpu), places[0])


def run_key(settings: RunSettings) -> tuple[str, str, str, int, str]:
    """What tells the runs of a folder apart."""
    return (settings.problem_id, settings.backend.value, settings.search_method, settings.seed, settings.label)


class CampaignWaitingError(WaitingForResponsesError):
    """Searches of a campaign wait for responses."""

    def __init__(self, message: str, unanswered: Unanswered, progress: CampaignProgress, requests: int) -> None:
        super().__init__(message, unanswered)
        self._progress, self._requests = progress, requests

    def to_json(self) -> dict[str, Any]:
        """What waits and where, beside what was done."""
        files = self.unanswered.files
        return {
            "requests": self._requests, "requests_file": str(files.requests),
            "responses_file": str(files.responses), "answered_with_error": len(self.unanswered.errors),
            "cut_short": self._progress.live, **self._progress.to_json(),
        }  # fmt: skip


def wait_for_responses(unanswered: Sequence[Unanswered], progress: CampaignProgress) -> None:
    """Write the requests of all searches that wait into their file, and end the command.

    The message counts what the file then holds: with those of searches that this command did not come to.

    Requests follow from the log alone, so a command killed before this writes the same ones when it is run again.
    """
    if not unanswered:
        return
    first = unanswered[0]
    bodies = {key: body for one in unanswered for key, body in one.bodies.items()}
    errors = {key: error for one in unanswered for key, error in one.errors.items()}
    # Whoever forecasts has other files than whoever proposes.
    places = {one.files.requests: one.files for one in unanswered}
    waiting = 0
    for path, files in places.items():
        own = [one.bodies for one in unanswered if one.files.requests == path]
        waiting += files.write({key: body for some in own for key, body in some.items()}, keep=progress.live > 0)
    whose = "" if progress.live else f" of {counted(len(unanswered), 'search', 'searches')}"
    answers = " and ".join(str(files.responses) for files in places.values())
    message = (
        f"{counted(waiting, 'request')}{whose} {'waits' if waiting == 1 else 'wait'} in "
        f"{' and '.join(map(str, places))}; {progress.counted()}; "
        f"put responses into {answers} and run the same command again"
    )
    if progress.live:
        searches, their = counted(progress.live, "search", "searches"), "its" if progress.live == 1 else "their"
        message += (
            f"; {searches} could not continue in this call; run the same command again to get {their} next requests"
        )
    if errors:
        key, error = next(iter(errors.items()))
        were = "was" if len(errors) == 1 else "were"
        message += f"; {len(errors)} {were} answered with an error, the first: {key} (got {error})"
    message += "".join(f"; {said}" for said in progress.no_kernel_text())
    if progress.unknown_responses:
        message += f"; {progress.unknown_text()}"
    raise CampaignWaitingError(message, Unanswered(first.files, bodies, errors), progress, waiting)
