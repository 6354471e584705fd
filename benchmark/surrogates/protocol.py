"""What a surrogate is, what it may return and ask a compiler, and what an answer must be to count."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kbench.schemas import DataError, Forecast, KbenchError, KernelSource, Query, bins, from_dict

if TYPE_CHECKING:
    from kbench.benchmark.work.totals import Work

ENTRY_INPUTS = ("source", "source+compiler")
"""What an entry of the leaderboard may look at."""
INPUTS = (*ENTRY_INPUTS, "labels of other GPUs")
SUM_TOLERANCE = 1e-3
"""How far given probabilities may be from one; they are then normalised and the raw sum is kept."""
ONE_NUMBER = "a model of one number returns kbench.Forecast.from_speedup(query_id, speedup, spread_octaves)"


@runtime_checkable
class Surrogate(Protocol):
    """Anything with `forecast`.

    Optional are `inputs` (one of INPUTS, `source` when absent), `repeats` (forecasts per query), `times_itself` (true
    where its forecasts state what they took, and the calls are not to be timed), and
    `fit(train: Sequence[tuple[Query, Question]])`, which is given training splits only; the question's `split`
    tells train from validation, and its `speedup` and `bin` are the answer.

    Our own may have more, which an evaluation looks for:

    - `fit_corpus(corpus)`, in place of `fit`: learns from the corpus itself. `without_validation(corpus)` is the same
      surrogate learned from train alone. `learned_from(splits)` says what it learned from, None where nobody knows.
    - `check_dataset(fingerprint)` refuses data that it does not fit; `tell(text)` is told what goes on while it learns.
    - `batch_size`: queries per call. `answers_depend_on`: texts that name what else decides its answers.
    - `keep_replies(folder, max_tokens, max_cost)`, `estimate(queries)` and `model_name`, where it pays for answers.
    - `strays(queries)`, how many answers it holds to other queries; `remarks()`, lines for whoever reads the scores.
    - `fits_from_file`: its `fit` takes the path of pickled pairs, and only when there is something left to ask.
    """

    def forecast(self, queries: Sequence[Query]) -> Sequence[Forecast]:
        """One forecast per query, in any order, each with the id of its query."""


class NoAnswerError(KbenchError):
    """The surrogate raised, hung, exited or sent no message; the text says which."""


class NoReplyError(NoAnswerError):
    """It hung, or its process ended: a further call may take the whole time limit, or begins with another `fit`."""


@dataclasses.dataclass(frozen=True, slots=True)
class SurrogateFacts:
    """What a surrogate says of itself."""

    inputs: str
    """One of INPUTS."""
    repeats: int
    """Forecasts per query."""
    fits: bool

    @classmethod
    def of(cls, surrogate: object) -> SurrogateFacts:
        """Look at its attributes."""
        return cls(
            inputs=getattr(surrogate, "inputs", INPUTS[0]),
            repeats=int(getattr(surrogate, "repeats", 1)),
            fits=callable(getattr(surrogate, "fit", None)),
        )


def failure(query_id: str, reason: str, repeat: int = 0, elapsed_s: float | None = None) -> Forecast:
    """No answer, and why."""
    words = "".join(each if each.isprintable() else " " for each in reason[:500]).strip()
    return Forecast(query_id=query_id, repeat=repeat, failure=words or "failed", elapsed_s=elapsed_s)


def distribution_error(probabilities: Any) -> str | None:
    """Why eight numbers are no distribution over the bins; None when they are one."""
    if probabilities is None:
        return f"there are no probabilities; {ONE_NUMBER}"
    if not isinstance(probabilities, tuple | list):
        return f"probabilities are {type(probabilities).__name__}; they must be a tuple of {bins.COUNT} numbers"
    if len(probabilities) != bins.COUNT:
        return f"probabilities hold {len(probabilities)} numbers; they must hold {bins.COUNT}"
    for number, value in zip(bins.NUMBERS, probabilities, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            return f"probability of bin {number} is {value!r}; it must be a finite number ≥ 0"
    total = math.fsum(probabilities)
    if abs(total - 1.0) > SUM_TOLERANCE:
        return f"probabilities sum to {total:.6g}; they must sum to one"
    return None


def accept(forecast: Forecast) -> Forecast:
    """The forecast with probabilities that sum to one exactly; a failure where they are no distribution."""
    if forecast.failure is not None:
        return failure(forecast.query_id, str(forecast.failure), forecast.repeat, forecast.elapsed_s)
    reason = distribution_error(forecast.probabilities)
    if reason is not None:
        return failure(forecast.query_id, reason, forecast.repeat, forecast.elapsed_s)
    assert forecast.probabilities is not None
    return normalised(forecast, forecast.probabilities)


def normalised(forecast: Forecast, probabilities: Sequence[float]) -> Forecast:
    """The forecast with these probabilities divided by their sum, which is kept as `raw_sum`."""
    total = math.fsum(probabilities)
    if not total > 0:
        raise DataError(f"forecast of {forecast.query_id} has probabilities that sum to {total}; they must sum to one")
    shares = tuple(float(value) / total for value in probabilities)
    raw = forecast.raw_sum if forecast.raw_sum is not None else total
    return dataclasses.replace(forecast, probabilities=shares, raw_sum=raw)


@dataclasses.dataclass(frozen=True, slots=True)
class CompilerFacts:
    """Figures of a compiled kernel: the largest over its device functions."""

    registers: int
    shared_bytes: int
    spill_bytes: int
    work: Mapping[str, Sequence[Work]] | None = None
    """What each configuration does, by workload; None without PTX."""


class Compiler(Protocol):
    """Compiles kernels and runs none."""

    def __call__(self, kernels: Sequence[KernelSource], capability: str, /) -> Sequence[CompilerFacts | None]:
        """Facts of each kernel for a compute capability such as 9.0; None where it does not compile."""
        ...


FORMS = (
    "return Forecast objects, dictionaries of their fields, or an array of shape (n, 8), one row for each query; "
    f"{ONE_NUMBER}"
)


def answer_rows(given: Any, asked: Sequence[Query]) -> list[Any]:
    """What `forecast` returned, as forecasts or their fields; what names no query answers the one at its place."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        rows = list(given)
        if all(isinstance(row, Forecast) for row in rows):
            return rows
        if len(rows) == len(asked):
            return [_row(row, query) for row, query in zip(rows, asked, strict=True)]
        if all(isinstance(row, Mapping) and "query_id" in row for row in rows):
            return [dict(row) for row in rows]
        raise TypeError(f"forecast(queries) returned {len(rows)} rows for {len(asked)} queries; return one for each")
    raise TypeError(f"forecast(queries) returned {type(given).__name__}; {FORMS}")


def _row(row: Any, query: Query) -> Any:
    if isinstance(row, Forecast):
        return row
    if isinstance(row, Mapping):
        return {"query_id": query.query_id} | dict(row)
    if (isinstance(row, Sequence) and not isinstance(row, str | bytes)) or getattr(row, "ndim", None) == 1:
        return {"query_id": query.query_id, "probabilities": list(row)}
    raise TypeError(f"forecast(queries) returned a row of type {type(row).__name__}; {FORMS}")


def forecast_from(row: Mapping[str, Any]) -> Forecast:
    """The forecast with these fields; a failure that says why where they make none."""
    repeat = row["repeat"] if isinstance(row.get("repeat"), int) else 0
    try:
        probabilities = row.get("probabilities")
        if isinstance(probabilities, list):
            # Whole numbers are fine as probabilities; `accept` names what is no number.
            numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in probabilities)
            if numeric and not all(map(math.isfinite, probabilities)):
                return failure(row["query_id"], str(distribution_error(probabilities)), repeat)
            row = {**row, "probabilities": [float(v) for v in probabilities] if numeric else probabilities}
        return accept(from_dict(Forecast, row))
    except (DataError, OverflowError) as error:
        return failure(row["query_id"], str(error), repeat)
