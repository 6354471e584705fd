"""What kernels launch: rows of the config `plans` from the files that a check by plan leaves, one kernel per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kbench.generation.assembly.gather import Measured
from kbench.loaders.storage.lines import parse_json, read_lines
from kbench.schemas import DataError, PlanSummary, UserError, from_dict


def planned(paths: Sequence[Path], kernels: Sequence[Measured]) -> list[PlanSummary]:
    """Plans of these kernels on the workloads they were measured on; of a kernel planned twice, the last.

    Raises:
        DataError: a line is no JSON, or a plan lacks a figure.
        UserError: a file has no plan of any of the kernels.
    """
    found: dict[str, list[PlanSummary]] = {}
    measured = {one.node.kernel_id: one for one in kernels}
    for path in paths:
        lines = [line for line, _ in read_lines(path, parse_record) if line["kernel_id"] in measured]
        if not lines:
            raise UserError(f"{str(path)!r} has no plan of a kernel of these runs; name a file made from theirs")
        found |= {line["kernel_id"]: list(_rows(line, measured[line["kernel_id"]])) for line in lines}
    return [row for rows in found.values() for row in rows]


def parse_record(text: str, where: str) -> dict[str, Any]:
    """A line: what a check by plan found of one kernel.

    Raises:
        DataError: names the place.
    """
    line = parse_json(text, where)
    if not isinstance(line, dict) or not {"kernel_id", "rows", "plans"} <= set(line):
        raise DataError(f"{where} is no record of a planned kernel: it needs kernel_id, rows and plans")
    return line


def _rows(line: dict[str, Any], one: Measured) -> Iterator[PlanSummary]:
    """One row per measured workload; none of a kernel that could not be planned.

    A plan's own id is left out: it names machine code and arguments, which no table holds.
    """
    same = {name: line[name] for name in ("kernel_id", "problem_id", "registers", "spill_bytes")}
    for workload in sorted({row.workload for row in one.measurements} & set(line["plans"] or ())):
        plan = {name: value for name, value in line["plans"][workload].items() if name != "plan_id"}
        where = f"kernel {one.node.kernel_id} workload {workload!r}"
        yield from_dict(PlanSummary, same | {"gpu": one.gpu, "workload": workload} | plan, where)
