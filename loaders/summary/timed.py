"""The timed kernels of a corpus as one frame: what coverage, peaks and plots are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars
import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus

WORDS = ("problem_id", "family", "backend", "gpu", "search_method", "proposer", "run_id")
"""Columns of few distinct texts; a null is an empty one."""
COLUMNS = (*WORDS, "kernel_id", "structure_id", "runtime_us", "speedup", "step")
WRITERS = ("llm", "human")
"""Proposers that write whole kernels freely, not from a family of templates."""
# A damaged corpus is described as well: what is wrong with it is said by validation, not by a crash here.
_TIMED = (pc.field("status") == "ok") & pc.is_finite(pc.field("runtime_us")) & pc.is_finite(pc.field("speedup"))
_TIMED = _TIMED & (pc.field("runtime_us") > 0) & (pc.field("speedup") > 0)


def timed(corpus: Corpus, gpu: str | None = None) -> polars.DataFrame:
    """The kernels with status ok and a runtime on one GPU or on all, read a batch at a time, without their sources.

    A kernel measured on several GPUs has a row for each: runtimes of all of them are no distribution of anything.
    """
    batches = corpus.select("kernels", columns=COLUMNS, where=_TIMED, gpu=gpu).batches()
    return gathered(COLUMNS, batches, [polars.col(WORDS).fill_null("").cast(polars.Categorical)])


def gathered(
    columns: Sequence[str], batches: Iterable[pa.RecordBatch], changes: Iterable[polars.Expr]
) -> polars.DataFrame:
    """Batches in one frame, each with some columns changed before the next is read; with the columns where none is."""
    parts = [polars.DataFrame(pa.table(batch)).with_columns(*changes) for batch in batches]
    return polars.concat(parts) if parts else polars.DataFrame(schema=list(columns))
