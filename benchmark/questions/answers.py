"""Answers apart from their questions: a private edition states its rows without them and keeps them in a second file.

A private edition is a corpus whose held-out questions have null answers and whose held-out kernels have no figures,
but for the few that questions show as known. Whoever has the second file scores forecasts as on a public corpus.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.loaders.storage.atomic import parquet_bytes
from kbench.schemas import DataError, Kernel, Question, arrow_schema, bins

if TYPE_CHECKING:
    import pyarrow as pa

TIMES = ("runtime_us", "runtime_low_us", "runtime_high_us")
ANSWER = ("speedup", "speedup_low", "speedup_high", "bin")
"""Columns of a question that make up its answer."""
UNMEASURED = (
    "status", "error", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high",
    "compile_ms", "registers", "shared_bytes", "spill_bytes", "env_id",
)  # fmt: skip
"""Columns of a kernel that only a measurement fills, beside the GPU's name."""
Answers = Mapping[str, Mapping[str, Any]]
"""The columns of an answer by question id."""


def without_answer(question: Question) -> Question:
    """The question as a private edition states it."""
    nothing: dict[str, Any] = dict.fromkeys(ANSWER)
    return dataclasses.replace(question, **nothing)


def without_figures(kernel: Kernel, **changes: Any) -> Kernel:
    """The kernel as if nobody had measured it."""
    nothing: dict[str, Any] = dict.fromkeys((*UNMEASURED, "speedup_best"))
    return dataclasses.replace(kernel, **nothing | changes)


def ratio(one: Sequence[float | None], other: Sequence[float | None]) -> tuple[float, float | None, float | None]:
    """One figure divided by an independent one, each with the ends of its interval: log half-widths add in quadrature.

    Ends are null where either interval is not known.
    """
    assert one[0] is not None
    assert other[0] is not None
    value = one[0] / other[0]
    if one[1] is None or one[2] is None or other[1] is None or other[2] is None:
        return value, None, None
    down = math.hypot(math.log(one[0] / one[1]), math.log(other[2] / other[0]))
    up = math.hypot(math.log(one[2] / one[0]), math.log(other[0] / other[1]))
    return value, value * math.exp(-down), value * math.exp(up)


def with_answer(question: Question, measured: Mapping[str, Mapping[str, Any]]) -> Question:
    """The question about all workloads with its answer; without one where a kernel of it failed."""
    rows = [measured[key] for key in (question.anchor_id, question.candidate_id) if key is not None]
    if any(row["runtime_us"] is None for row in rows):
        return question
    ends = ("speedup", "speedup_low", "speedup_high") if len(rows) == 1 else TIMES
    figures = [tuple(row[name] for name in ends) for row in rows]
    value, low, high = figures[0] if len(rows) == 1 else ratio(*figures)
    return dataclasses.replace(question, speedup=value, speedup_low=low, speedup_high=high, bin=bins.bin_of(value))


def packed_answers(questions: Iterable[Question]) -> bytes:
    """The second file: the answers of these questions as Parquet."""
    import pyarrow as pa

    columns = ["question_id", *ANSWER]
    schema = pa.schema([arrow_schema(Question).field(name) for name in columns])
    rows = [{name: getattr(one, name) for name in columns} for one in questions]
    return parquet_bytes(pa.Table.from_pylist(rows, schema=schema))


def read_answers(path: Path) -> Answers | None:
    """The answers in a file; None where it is a Parquet file of another kind."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet ({error}); give the file of answers") from None
    if table.column_names != ["question_id", *ANSWER]:
        return None
    return {row["question_id"]: row for row in table.to_pylist()}


def answered(table: pa.Table, answers: Answers) -> pa.Table:
    """A table of questions with these answers in their columns; other questions keep theirs."""
    import pyarrow as pa

    ids = table.column("question_id").to_pylist()
    for name in ANSWER:
        at = table.schema.get_field_index(name)
        own = table.column(at).to_pylist()
        values = [answers[key][name] if key in answers else value for key, value in zip(ids, own, strict=True)]
        table = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    return table
