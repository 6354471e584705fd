"""Corpora learnt from and asked about apart: a GPU left out of training, or the training rows of another corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.questions.asked import Tables, asked_gpu
from kbench.benchmark.questions.build import TRAIN_SPLITS, VALIDATION
from kbench.loaders.corpus.configs import SPLITS
from kbench.loaders.corpus.corpus import resolve
from kbench.schemas import UserError
from kbench.schemas.ids import content_hash

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_TABLES = ("kernels", "questions")
"""Tables whose rows are trained on or asked about; rows of the others describe both."""


class HeldOutGpu:
    """Training splits of the other GPUs, and the splits that are asked about on the one left out.

    What is built from a corpus is built from this in the same way: questions, training material and priors.
    """

    def __init__(self, corpus: Tables, gpu: str) -> None:
        parts = corpus.batches("kernels", columns=["gpu"])
        gpus = sorted({gpu for part in parts for gpu in part.column("gpu").unique().to_pylist()} - {None})
        gpu = resolve("gpu", gpu, gpus)
        if len(gpus) < 2:
            raise UserError(f"the corpus has {gpu} alone; transfer needs kernels measured on another GPU too")
        self._corpus, self.gpu = corpus, gpu
        self.training_gpus = tuple(name for name in gpus if name != gpu)
        self.configs, self.folders = corpus.configs, corpus.folders
        self.fingerprint = content_hash("held out", corpus.fingerprint, gpu)

    def table(self, name: str, *, columns: list[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered; of kernels and questions, what training or the questions may see."""
        if name not in SPLIT_TABLES:
            return self._corpus.table(name, columns=columns, **filters)
        needed = None if columns is None else [*dict.fromkeys((*columns, "gpu", "split"))]
        return self._seen(self._corpus.table(name, columns=needed, **filters), columns)

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """The same columns in parts."""
        if name not in SPLIT_TABLES:
            yield from self._corpus.batches(name, columns=columns, **filters)
            return
        for part in self._corpus.batches(name, columns=[*dict.fromkeys((*columns, "gpu", "split"))], **filters):
            yield self._seen(part, columns)

    def _seen(self, table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
        import pyarrow.compute as pc

        training, here = pc.field("split").isin(TRAIN_SPLITS), pc.field("gpu") == self.gpu
        seen = table.filter((training & ~here) | (~training & here))
        return seen if columns is None else seen.select(list(columns))

    def elsewhere(self, columns: list[str]) -> pa.Table:
        """Kernels of all splits on the other GPUs: what only a surrogate may see that says so."""
        return self._corpus.table("kernels", columns=columns, gpu=list(self.training_gpus))


class TrainedOn:
    """The tables of a corpus, whose own training rows make way for those of another.

    Of the other corpus nothing but its training splits is seen, and of this one everything but them.
    """

    def __init__(self, test: Tables, train: Tables) -> None:
        self._test, self._train = test, train
        self.fingerprint = content_hash("trained on", test.fingerprint, train.fingerprint)
        self.configs = tuple(dict.fromkeys([*test.configs, *train.configs]))
        self.folders = (*test.folders, *train.folders)
        self.gpu = asked_gpu(test)

    def table(self, name: str, *, columns: list[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered."""
        import pyarrow as pa

        sources = self._sources(name, filters.pop("split", None))
        parts = [source.table(name, columns=columns, **within, **filters) for source, within in sources]
        return pa.concat_tables(part for part in parts if part.num_columns)

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """The same columns in parts."""
        for source, within in self._sources(name, filters.pop("split", None)):
            yield from source.batches(name, columns=columns, **within, **filters)

    def _sources(self, name: str, split: str | Sequence[str] | None) -> list[tuple[Tables, dict[str, list[str]]]]:
        """Where rows of a table come from, each with the splits that are read of it."""
        if name == "measurements":
            # What a measurement costs is asked of the kernels in question.
            return [(self._test, {})]
        if name not in SPLIT_TABLES:
            # Where both describe a problem, the later row counts, which is that of the corpus asked about.
            return [(self._train, {}), (self._test, {})]
        asked = [split] if isinstance(split, str) else list(split or SPLITS)
        learnt = [one for one in asked if one in TRAIN_SPLITS]
        rest = [one for one in asked if one not in TRAIN_SPLITS]
        return [(source, {"split": splits}) for source, splits in ((self._train, learnt), (self._test, rest)) if splits]


class WithoutValidation:
    """A corpus as a surrogate learns from it that is asked about validation problems: these are left out.

    Other attributes are those of the corpus, or of the view of one, behind it.
    """

    def __init__(self, corpus: Tables) -> None:
        self.whole = corpus
        """The corpus itself, for what is no answer: counted work."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def table(self, name: str, *, columns: list[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered."""
        left = self._left(name, filters)
        if left is None:
            return self.whole.table(name, columns=columns, **filters | {"split": TRAIN_SPLITS[0]}).slice(0, 0)
        return self.whole.table(name, columns=columns, **left)

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """The same columns in parts."""
        left = self._left(name, filters)
        if left is not None:
            yield from self.whole.batches(name, columns=columns, **left)

    def _left(self, name: str, filters: dict[str, Any]) -> dict[str, Any] | None:
        """The filters without the validation split; None where they name it alone."""
        if name not in SPLIT_TABLES:
            return filters
        split = filters.get("split")
        splits = [one for one in ([split] if isinstance(split, str) else split or SPLITS) if one != VALIDATION]
        return filters | {"split": splits} if splits else None
