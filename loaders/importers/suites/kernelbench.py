"""What KernelBench files share: how problems are named when suite, level or numbering are not stated."""

from __future__ import annotations

from collections.abc import Iterable

from kbench.loaders.importers.context import Context, ImportSettings
from kbench.loaders.importers.fields import RowError

FAMILY = "kernelbench"
LAST_OF_LEVEL = {1: 100, 2: 100, 3: 50}
"""Number of the last problem of a level, where problems are numbered from 1."""
SUITES = {"v0": "v0", "v0.1": "v0_1"}


def problem_id(settings: ImportSettings, level: int | None, number: int, first: int | None) -> str:
    """A problem's id. Suites share numbers while shapes changed, so what is not stated is part of the name.

    Args:
        settings: may state the suite.
        level: 1, 2 or 3; None when not stated.
        number: as the file has it.
        first: number of the file's first problem; None when not stated.

    Raises:
        RowError: the number lies before the first.
    """
    suite = SUITES.get(settings.suite or "", "unstated_suite")
    where = f"l{level}" if level is not None else "unstated_level"
    if first is not None and number < first:
        raise RowError("problem_id", number, f"problems are numbered from {first} in this file")
    # Problems are numbered from 1 in every name that claims to know.
    which = str(number + 1 - first) if first is not None else f"entry_{number}"
    return f"kernelbench_{suite}_{where}_{which}"


def first_number(settings: ImportSettings, level: int | None, numbers: Iterable[int], context: Context) -> int | None:
    """Number of the first problem: stated, or proved by a number that only one way of counting has."""
    if settings.first_id is not None:
        return settings.first_id
    found = set(numbers)
    if 0 in found:
        return 0
    if level is not None and LAST_OF_LEVEL.get(level) in found:
        return 1
    context.note("problems whose numbering (from 0 or from 1) is not stated; state it with --first-id", len(found))
    return None


def note_suite(context: Context) -> None:
    """Say that suites are told apart only when stated."""
    if context.settings.suite is None:
        context.null("suite", "the file does not say whether it is KernelBench v0 or v0.1; state it with --suite")
