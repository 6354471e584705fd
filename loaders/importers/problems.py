"""Problems of imported kernels: ours where the origin's name is an alias of one, else what the origin tells."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import is_corpus, shipped
from kbench.loaders.importers.rows import Row, problem_row


@functools.cache
def _ours() -> Mapping[str, Mapping[str, Any]]:
    """Rows of the shipped problems, by id and by alias as ids are spelled."""
    if not is_corpus(shipped()):
        return {}
    rows = Corpus.open(shipped()).table("problems").to_pylist()
    found = {re.sub(r"[^a-z0-9]+", "_", alias.lower()): row for row in rows for alias in row["aliases"]}
    return found | {row["problem_id"]: row for row in rows}


def problem(problem_id: str, family: str, title: str, reference: str = "") -> Row:
    """The row of a problem.

    Args:
        problem_id: its id in the imported corpus.
        family: the family its kernels have there.
        title: what the origin calls it.
        reference: the origin's reference text, where it gives one; it goes before ours.
    """
    ours = _ours().get(problem_id)
    if ours is None or reference:
        aliases = () if ours is None else (ours["problem_id"],)
        return problem_row(problem_id, family, title, reference=reference, aliases=aliases)
    return {**ours, "problem_id": problem_id, "family": family, "aliases": [*ours["aliases"], ours["problem_id"]]}
