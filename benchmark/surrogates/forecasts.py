"""Forecasts as columns aligned with the queries they answer, their files, and what their numbers may be."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.protocol import SUM_TOLERANCE, failure
from kbench.schemas import DataError, Forecast, Record, Submission, arrow_schema, bins, to_dict
from kbench.schemas.record import Limit, field_types

if TYPE_CHECKING:
    import pyarrow as pa

DATASET_KEY = b"kbench.dataset"
LEARNED_KEY = b"kbench.learned_from"
"""Splits that the forecaster learned from, comma-separated; absent where nobody knows."""
UNIFORM = np.full(bins.COUNT, 1 / bins.COUNT)
NUMBERS = tuple(name for name, kind in field_types(Forecast).items() if kind.base in (int, float))
"""Fields that hold one number."""
Number = TypeVar("Number", int, float)
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""A column that pandas writes for the index of a filtered frame."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTable:
    """Answers of one surrogate: every array is [repeats, queries]."""

    probabilities: Floats
    """[repeats, queries, 8]; the uniform forecast where there is no answer."""
    failed: npt.NDArray[np.bool_]
    speedup: Floats
    """NaN where none was given."""
    p_valid: Floats
    """NaN where none was given."""
    confidence: Floats
    """The surrogate's own, or the largest probability; 0 where there is no answer."""
    tokens: Floats
    """Input plus output; NaN where unknown."""
    elapsed_s: Floats
    """NaN where unknown."""
    reasons: Mapping[str, int]
    """Failures by reason."""

    @property
    def repeats(self) -> int:
        """How many repeats."""
        return len(self.failed)


def to_arrow(forecasts: Iterable[Forecast]) -> pa.Table:
    """Forecasts as an Arrow table with the record's schema."""
    import pyarrow as pa

    return pa.Table.from_pylist([to_dict(forecast) for forecast in forecasts], schema=arrow_schema(Forecast))


def read_forecasts(path: Path) -> pa.Table:
    """A forecasts file: Parquet, or JSON Lines."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
        else:
            rows = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines() if text.strip()]
            table = pa.Table.from_pylist(rows, schema=arrow_schema(Forecast))
    except (OSError, ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException) as error:
        first = str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read as forecasts ({first}); write .parquet or .jsonl forecasts") from None
    table = conform(table, str(path))
    if table.num_rows and all(table.column(name).null_count == table.num_rows for name in ("probabilities", "failure")):
        raise DataError(f"{path} has rows without 'probabilities'; give {bins.COUNT} numbers that sum to one in each")
    return table


def conform(table: pa.Table, where: str) -> pa.Table:
    """The table with the record's columns and types; absent optional columns become null."""
    import pyarrow as pa

    schema = arrow_schema(Forecast)
    table = table.drop_columns([name for name in table.column_names if PANDAS_INDEX.fullmatch(name)])
    unknown = sorted(set(table.column_names) - set(schema.names))
    if "question_id" in unknown and "query_id" not in table.column_names:
        raise DataError(f"{where} has column 'question_id'; forecasts call it 'query_id', rename it")
    if unknown:
        raise DataError(f"{where} has unknown column {unknown[0]!r}; known: {', '.join(schema.names)}")
    names = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{where} has column {twice[0]!r} twice; keep one")
    if "query_id" not in names:
        raise DataError(f"{where} has no column 'query_id'; add it")
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            default = 0 if field.name == "repeat" else None
            columns.append(pa.array([default] * table.num_rows, field.type))
            continue
        try:
            columns.append(table.column(field.name).cast(field.type))
        except pa.ArrowException as error:
            first = str(error).splitlines()[0]
            raise DataError(f"{where} column {field.name!r} has the wrong type ({first}); use {field.type}") from None
    return pa.table(columns, schema=schema).replace_schema_metadata(table.schema.metadata)


def forecasts_file(forecasts: Sequence[Forecast], dataset: str, learned_from: Sequence[str] | None = None) -> bytes:
    """A forecasts file as Parquet; its metadata say the dataset's fingerprint and what the forecaster learned from."""
    import pyarrow.parquet as pq

    facts = {DATASET_KEY: dataset} | ({} if learned_from is None else {LEARNED_KEY: ",".join(learned_from)})
    file = io.BytesIO()
    pq.write_table(to_arrow(forecasts).replace_schema_metadata(facts), file, compression="zstd")
    return file.getvalue()


def align(table: pa.Table, query_ids: Sequence[str], where: str = "forecasts") -> ForecastTable:
    """Columns in the order of the queries. Rows for other queries are left out; missing ones are failures.

    Raises:
        DataError: two rows for one query and repeat, or a repeat that is out of range.
    """
    check_repeats(table, where)
    position = {query_id: index for index, query_id in enumerate(query_ids)}
    ids = table.column("query_id").to_pylist()
    at = np.array([position.get(query_id, -1) for query_id in ids], dtype=np.int64)
    repeat = np.array(table.column("repeat").fill_null(0).to_numpy(), dtype=np.int64)
    matching = np.flatnonzero(at >= 0)
    repeats = int(repeat[matching].max(initial=0)) + 1
    flat = repeat[matching] * len(query_ids) + at[matching]
    _refuse_duplicates(flat, query_ids, where)
    given, wrong, reasons = _probabilities(table.take(matching) if len(matching) < len(ids) else table)
    shape = (repeats, len(query_ids))
    probabilities = np.tile(UNIFORM, (repeats * len(query_ids), 1))
    probabilities[flat[~wrong]] = given[~wrong]
    failed = np.ones(repeats * len(query_ids), dtype=np.bool_)
    failed[flat[~wrong]] = False
    unanswered = repeats * len(query_ids) - len(flat)
    if unanswered:
        reasons["no answer to this query"] = reasons.get("no answer to this query", 0) + unanswered
    columns = {
        name: _spread(table, name, matching, flat, failed, shape)
        for name in ("speedup", "p_valid", "confidence", "elapsed_s", "input_tokens", "output_tokens")
    }
    largest = np.where(failed, 0.0, probabilities.max(axis=1)).reshape(shape)
    tokens = np.nan_to_num(columns["input_tokens"]) + np.nan_to_num(columns["output_tokens"])
    return ForecastTable(
        probabilities=probabilities.reshape(*shape, bins.COUNT),
        failed=failed.reshape(shape),
        speedup=columns["speedup"],
        p_valid=columns["p_valid"],
        confidence=np.where(np.isnan(columns["confidence"]), largest, columns["confidence"]),
        tokens=np.where(np.isnan(columns["input_tokens"]) & np.isnan(columns["output_tokens"]), np.nan, tokens),
        elapsed_s=columns["elapsed_s"],
        reasons=reasons,
    )


def check_repeats(table: pa.Table, where: str) -> None:
    """Refuse a file before memory is allocated for all repeats it speaks of."""
    values = column_of(table, "repeat")
    wrong = values[~np.isnan(values) & ~allowed("repeat", values)]
    if len(wrong):
        raise DataError(f"{where} has repeat {wrong[0]:.0f}; repeats are numbered from 0 to {REPEATS - 1}")


def column_of(table: pa.Table, name: str) -> Floats:
    """A column of numbers; NaN where there is none."""
    import pyarrow as pa

    # Not the safe cast: it raises for whole numbers that a double rounds, and how large one may be is checked after.
    return np.array(table.column(name).cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def from_forecasts(forecasts: Sequence[Forecast], query_ids: Sequence[str]) -> ForecastTable:
    """Columns of forecasts in memory."""
    return align(to_arrow(forecasts), query_ids)


def _refuse_duplicates(flat: npt.NDArray[np.int64], query_ids: Sequence[str], where: str) -> None:
    values, counts = np.unique(flat, return_counts=True)
    if counts.max(initial=0) > 1:
        repeat, index = divmod(int(values[counts.argmax()]), len(query_ids))
        raise DataError(
            f"{where} holds {counts.max()} rows for query {query_ids[index]} repeat {repeat}; keep one of them"
        )


def _probabilities(table: pa.Table) -> tuple[Floats, npt.NDArray[np.bool_], dict[str, int]]:
    """Eight probabilities per row, which rows are no distribution, and why."""
    import pyarrow as pa

    column = table.column("probabilities").combine_chunks()
    lengths = np.array(column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    stated = table.column("failure").is_valid().to_numpy()
    values = np.full((len(lengths), bins.COUNT), np.nan)
    complete = lengths == bins.COUNT
    flat = column.filter(pa.array(complete)).flatten().to_numpy(zero_copy_only=False)
    values[complete] = flat.reshape(-1, bins.COUNT)
    sums = values.sum(axis=1)
    with np.errstate(invalid="ignore"):
        reasons = {
            "stated by the surrogate": stated,
            "no probabilities": lengths < 0,
            f"not {bins.COUNT} probabilities": (lengths >= 0) & ~complete,
            "a probability that is negative or not a number": complete & ~(values >= 0).all(axis=1),
            "probabilities that do not sum to one": complete & ~(np.abs(sums - 1.0) <= SUM_TOLERANCE),
        }
    wrong = np.zeros(len(lengths), dtype=np.bool_)
    counted: dict[str, int] = {}
    for reason, rows in reasons.items():
        new = rows & ~wrong
        if new.any():
            counted[reason] = int(new.sum())
        wrong |= rows
    return values / np.where(wrong, 1.0, sums)[:, None], wrong, counted


def _spread(
    table: pa.Table,
    name: str,
    kept: npt.NDArray[np.int64],
    flat: npt.NDArray[np.int64],
    failed: npt.NDArray[np.bool_],
    shape: tuple[int, int],
) -> Floats:
    """One optional column; values that the field may not hold count as not given."""
    values = column_of(table, name)[kept]
    values = np.where(allowed(name, values), values, np.nan)
    column = np.full(shape[0] * shape[1], np.nan)
    column[flat] = values
    if name not in ("elapsed_s", "input_tokens", "output_tokens"):
        column[failed] = np.nan
    if name == "confidence":
        column[failed] = 0.0
    return column.reshape(shape)


def _limit(record: type[Record], name: str) -> Limit:
    return field_types(record)[name].limit or Limit()


REPEATS = int(_limit(Submission, "repeats").maximum or 1)
"""Most forecasts of one query: tables are as large as the largest repeat says, so one row must not say a million."""
CAPS = {"repeat": REPEATS - 1, "input_tokens": 1e9, "output_tokens": 1e9, "elapsed_s": 1e6}
"""Low enough that sums over any file stay finite and exact."""


def _largest(name: str) -> float:
    stated = _limit(Forecast, name).maximum
    return min(np.inf if stated is None else stated, CAPS.get(name, np.inf))


def allowed(name: str, values: Floats) -> npt.NDArray[np.bool_]:
    """Which values a field may hold; NaN is not one of them."""
    limit = _limit(Forecast, name)
    low = -np.inf if limit.minimum is None else limit.minimum
    floor = -np.inf if limit.exclusive_minimum is None else limit.exclusive_minimum
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & (values >= low) & (values > floor) & (values <= _largest(name))


def described(name: str) -> str:
    """The same rule in words."""
    limit, words = _limit(Forecast, name), ["must be finite"]
    if limit.minimum is not None:
        words.append(f"at least {limit.minimum:g}")
    if limit.exclusive_minimum is not None:
        words.append(f"more than {limit.exclusive_minimum:g}")
    if np.isfinite(_largest(name)):
        words.append(f"at most {_largest(name):,.0f}")
    return ", ".join(words)


def ensembled(forecasts: Iterable[Forecast]) -> list[Forecast]:
    """One forecast per query, in the order in which queries first appear: the mean over the repeats that answered."""
    by_query: dict[str, list[Forecast]] = {}
    for forecast in forecasts:
        by_query.setdefault(forecast.query_id, []).append(forecast)
    return [_averaged(repeats) for repeats in by_query.values()]


def _averaged(repeats: Sequence[Forecast]) -> Forecast:
    """Probabilities and P(valid) by their mean, speedups by their geometric mean; costs add up."""
    answered = [forecast for forecast in repeats if forecast.probabilities is not None]
    query_id, elapsed_s = repeats[0].query_id, total_of([forecast.elapsed_s for forecast in repeats])
    if not answered:
        return failure(query_id, repeats[0].failure or "", elapsed_s=elapsed_s)
    columns = zip(*(forecast.probabilities for forecast in answered if forecast.probabilities), strict=True)
    logs = [math.log(forecast.speedup) for forecast in answered if forecast.speedup is not None]
    return Forecast(
        query_id=query_id,
        probabilities=tuple(fmean(column) for column in columns),
        speedup=math.exp(fmean(logs)) if logs else None,
        p_valid=mean_of([forecast.p_valid for forecast in answered]),
        input_tokens=total_of([forecast.input_tokens for forecast in repeats]),
        output_tokens=total_of([forecast.output_tokens for forecast in repeats]),
        elapsed_s=elapsed_s,
    )


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of those that are stated."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def total_of(values: Iterable[Number | None]) -> Number | None:
    """The sum of those that are stated."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
