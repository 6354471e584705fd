"""Repeats: measurements of a corpus's kernels that were made again, read from the corpora they were written to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from kbench.schemas import Environment, Measurement, UserError, from_dict


def repeated(corpora: Sequence[Path], kernel_ids: Collection[str]) -> tuple[list[Measurement], list[Environment]]:
    """Measurements of these kernels, and where they were made.

    Raises:
        UserError: a corpus has no measurement of any of the kernels.
    """
    from kbench.loaders.corpus.corpus import Corpus

    rows: list[Measurement] = []
    places: dict[str, Environment] = {}
    for path in corpora:
        corpus = Corpus.open(path)
        measured = [from_dict(Measurement, row) for row in corpus.table("measurements").to_pylist()]
        fresh = [row for row in measured if row.kernel_id in kernel_ids]
        if not fresh:
            raise UserError(f"{str(path)!r} repeats no kernel of these runs; name a corpus measured from theirs")
        rows += fresh
        for row in corpus.table("environments").to_pylist():
            place = from_dict(Environment, row)
            places[place.env_id] = place
    used = {row.env_id for row in rows}
    return rows, [place for key, place in sorted(places.items()) if key in used]
