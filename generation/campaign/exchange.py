"""Exchange: what all searches of a campaign ask a language model in one generation, written together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbench.benchmark.llm.batch import Unanswered, WaitingForResponsesError
from kbench.generation.campaign.progress import CampaignProgress


class CampaignWaitingError(WaitingForResponsesError):
    """Searches of a campaign wait for responses."""

    def __init__(self, message: str, unanswered: Unanswered, progress: CampaignProgress) -> None:
        super().__init__(message, unanswered)
        self._progress = progress

    def to_json(self) -> dict[str, Any]:
        """What waits and where, beside what was done."""
        files = self.unanswered.files
        return {
            "requests": len(self.unanswered.bodies), "requests_file": str(files.requests),
            "responses_file": str(files.responses), "answered_with_error": len(self.unanswered.errors),
            "cut_short": self._progress.live, **self._progress.to_json(),
        }  # fmt: skip


def wait_for_responses(unanswered: Sequence[Unanswered], progress: CampaignProgress) -> None:
    """Write the requests of all searches that wait into their file, and end the command.

    Requests follow from the log alone, so a command killed before this writes the same ones when it is run again.

    Args:
        unanswered: what each waiting search waits for.
        progress: what was done before. Searches that a deadline cut short may wait for earlier requests, which stay.

    Raises:
        CampaignWaitingError: says how many requests wait, and where responses go. Nothing is raised when none do.
    """
    if not unanswered:
        return
    first = unanswered[0]
    bodies = {key: body for one in unanswered for key, body in one.bodies.items()}
    errors = {key: error for one in unanswered for key, error in one.errors.items()}
    first.files.write(bodies, keep=progress.live > 0)
    message = (
        f"{len(bodies)} requests of {len(unanswered)} searches wait in {first.files.requests}; {progress.measured} "
        f"kernels were measured; put responses into {first.files.responses} and run the same command again"
    )
    if progress.live:
        message += f"; {progress.live} searches were cut short: run it at once to have their requests too"
    if errors:
        key, error = next(iter(errors.items()))
        message += f"; {len(errors)} were answered with an error, the first: {key} (got {error})"
    raise CampaignWaitingError(message, Unanswered(first.files, bodies, errors), progress)
