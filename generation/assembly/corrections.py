"""Corrections: kernels measured again whose first figures are known to be wrong. The logs stay as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from kbench.generation.assembly.gather import Gathered, Measured
from kbench.generation.assembly.repeats import repeated
from kbench.schemas import Environment, Measurement, UserError


def corrected(gathered: Gathered, corpora: Sequence[Path]) -> tuple[Gathered, list[Environment]]:
    """What was gathered, with the measurements of some kernels in place of their logged ones; and where they were made.

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
    """A kernel with all its figures made anew: those of one workload alone would come from two ways of timing."""
    logged = {row.workload: row for row in one.measurements}
    if logged.keys() != fresh.keys():
        missing = ", ".join(sorted(logged.keys() ^ fresh.keys()))
        raise UserError(f"kernel {one.node.kernel_id} was not corrected on the workloads it has in the logs: {missing}")
    for workload, row in fresh.items():
        if row.gpu != logged[workload].gpu:
            here = f"kernel {row.kernel_id}, which was measured on {logged[workload].gpu}"
            raise UserError(f"a figure of {row.gpu} cannot correct {here}")
    return dataclasses.replace(one, measurements=tuple(fresh[workload] for workload in logged))
