"""The timed kernels of a corpus as one frame: what coverage, peaks and plots are computed from."""

from __future__ import annotations

import itertools

import polars
import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.selection import Selection
from kbench.schemas import arrow_schema

WORDS = ("problem_id", "family", "backend", "gpu", "search_method", "proposer", "run_id")
"""Columns of few distinct texts; a null is an empty one."""
FIGURES = ("kernel_id", "runtime_us", "speedup", "speedup_low", "speedup_high", "speedup_best", "step")
COLUMNS = (*WORDS, "structure_id", *FIGURES)
WRITERS = ("llm", "human")
"""Proposers that write whole kernels freely, not from a family of templates."""
# A damaged corpus is described as well: what is wrong with it is said by validation, not by a crash here.
_TIMED = (pc.field("status") == "ok") & pc.is_finite(pc.field("runtime_us")) & pc.is_finite(pc.field("speedup"))
_TIMED = _TIMED & (pc.field("runtime_us") > 0) & (pc.field("speedup") > 0)


def timed(corpus: Corpus, gpu: str | None = None) -> polars.DataFrame:
    """The kernels with status ok and a runtime on one GPU or on all, read a batch at a time, without their sources.

    A kernel measured on several GPUs has a row for each: runtimes of all of them are no distribution of anything.
    """
    words = polars.col(WORDS).fill_null("").cast(polars.Categorical)
    # Half of an id tells structures apart in a fraction of the memory.
    structure = polars.col("structure_id").str.slice(0, 16).str.to_integer(base=16, dtype=polars.UInt64)
    selection = corpus.select("kernels", columns=COLUMNS, where=_TIMED, gpu=gpu)
    return gathered(selection, words, structure, *FIGURES)


def gathered(selection: Selection, *columns: polars.Expr | str) -> polars.DataFrame:
    """What is computed of selected rows, in one frame: a batch of rows is gone when the next is read."""
    empty = arrow_schema(selection.config.record).empty_table().select(selection.columns or ())
    parts = itertools.chain([empty], map(pa.table, selection.batches()))
    return polars.concat([polars.DataFrame(part).select(*columns) for part in parts])
