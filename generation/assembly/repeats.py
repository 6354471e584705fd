"""Kernels measured again, read from the corpora the measurements were written to.

Repeats stand beside the logged figures; corrections take the place of figures known to be wrong. The logs stay as they
are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path

from kbench.generation.assembly.gather import Gathered, Measured
from kbench.schemas import Environment, Measurement, UserError, from_dict


def repeated(corpora: Sequence[Path], kernel_ids: Collection[str]) -> tuple[list[Measurement], list[Environment]]:
    """Measurements of these kernels, and their environments.

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


def corrected(gathered: Gathered, corpora: Sequence[Path]) -> tuple[Gathered, list[Environment]]:
    """What was gathered, with some kernels' measurements replaced, and the environments of the new ones.

    Raises:
        UserError: a corpus corrects none of the kernels, or lacks a workload of one, or has another GPU's figures.
    """
    rows, places = repeated(corpora, {one.node.kernel_id for one in gathered.kernels})
    found: dict[str, dict[str, Measurement]] = {}
    for row in rows:
        found.setdefault(row.kernel_id, {})[row.workload] = row
    kernels = tuple(_replaced(one, found[one.node.kernel_id]) if one.node.kernel_id in found else one
                    for one in gathered.kernels)  # fmt: skip
    return dataclasses.replace(gathered, kernels=kernels), places


def _replaced(one: Measured, fresh: dict[str, Measurement]) -> Measured:
    """A kernel with all its figures replaced: a mix would come from two ways of timing."""
    logged = {row.workload: row for row in one.measurements}
    if logged.keys() != fresh.keys():
        missing = ", ".join(sorted(logged.keys() ^ fresh.keys()))
        raise UserError(f"kernel {one.node.kernel_id} was not corrected on the workloads it has in the logs: {missing}")
    for workload, row in fresh.items():
        if row.gpu != logged[workload].gpu:
            here = f"kernel {row.kernel_id}, which was measured on {logged[workload].gpu}"
            raise UserError(f"a figure of {row.gpu} cannot correct {here}")
    return dataclasses.replace(one, measurements=tuple(fresh[workload] for workload in logged))
