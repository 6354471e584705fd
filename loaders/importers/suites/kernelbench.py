"""What KernelBench files share: how problems are named when suite, level or numbering are not stated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kbench.loaders.importers.context import Context, ImportSettings
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.problems import problem
from kbench.loaders.importers.rows import Row

FAMILY = "kernelbench"
LAST_OF_LEVEL = {1: 100, 2: 100, 3: 50}
"""Number of the last problem of a level, where problems are numbered from 1."""
SUITES = {"v0": "v0", "v0.1": "v0_1"}
LEVEL = re.compile(r"(?:^|[^a-z])level[_ -]?([1-9])(?![0-9])", re.IGNORECASE)


def level_named(path: Path) -> int | None:
    """The level that a file's name or its folder's states, or a folder above that is named by a level alone."""
    parts = path.absolute().parts[::-1]
    found = [LEVEL.search(part) for part in parts[:2]] + [LEVEL.fullmatch(part) for part in parts[2:5]]
    return next((int(match.group(1)) for match in found if match), None)


def problem_id(settings: ImportSettings, level: int | None, number: int | str, first: int | None) -> str:
    """A problem's id. Suites share numbers while shapes changed, so what is not stated is part of the name.

    Args:
        settings: may state the suite.
        level: 1 to 9; None when not stated.
        number: as the file has it; a name where problems have none.
        first: number of the file's first problem; None when not stated.

    Raises:
        RowError: the number lies before the first.
    """
    suite = SUITES.get(settings.suite or "", "unstated_suite")
    where = f"l{level}" if level is not None else "unstated_level"
    if isinstance(number, str):
        return f"kernelbench_{suite}_{where}_{number}"
    if first is not None and number < first:
        raise RowError("problem_id", number, f"problems are numbered from {first} in this file")
    # Problems are numbered from 1 in every name that claims to know.
    which = str(number + 1 - first) if first is not None else f"entry_{number}"
    return f"kernelbench_{suite}_{where}_{which}"


def problem_of(problem_id: str, reference: str = "") -> Row:
    """The row of a problem: ours where its id is an alias of one, else its name with its reference."""
    return problem(problem_id, FAMILY, problem_id.removeprefix("kernelbench_").replace("_", " "), reference)


def first_numbers(
    settings: ImportSettings, numbers: Mapping[int | None, Iterable[int]], context: Context
) -> dict[int | None, int | None]:
    """Number of the first problem of each level: stated, or proved by a number that only one way of counting has."""
    if settings.first_id is not None:
        return dict.fromkeys(numbers, settings.first_id)
    found = {level: set(given) for level, given in numbers.items()}
    if any(0 in given for given in found.values()):
        return dict.fromkeys(found, 0)
    if any(level is not None and LAST_OF_LEVEL.get(level) in given for level, given in found.items()):
        return dict.fromkeys(found, 1)
    unclear = sum(map(len, found.values()))
    context.note("problems whose numbering (from 0 or from 1) is not stated; state it with --first-id", unclear)
    return dict.fromkeys(found, None)


def note_unstated(context: Context, level: int | None = 0) -> None:
    """Say what would have to be stated for problems to be known ones."""
    if context.settings.suite is None:
        context.null("suite", "the file does not say whether it is KernelBench v0 or v0.1; state it with --suite")
    if level is None:
        context.null("level", "neither the file nor its folders name a level; state it with --level")
