"""A corpus to be asked about, with the training rows of another: how well does what was learnt here hold there?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.questions.asked import Tables, asked_gpu
from kbench.benchmark.questions.build import TRAIN_SPLITS
from kbench.loaders.corpus.configs import SPLITS
from kbench.schemas.ids import content_hash

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_TABLES = ("kernels", "questions")
"""Tables whose rows are trained on or asked about; rows of the others describe both."""


class TrainedOn:
    """The tables of a corpus, whose own training rows make way for those of another.

    Of the other corpus nothing but its training splits is seen, and of this one everything but them.
    """

    def __init__(self, test: Tables, train: Tables) -> None:
        """Join two corpora.

        Args:
            test: the corpus that is asked about.
            train: the corpus whose training splits are learnt from.
        """
        self._test, self._train = test, train

    @property
    def fingerprint(self) -> str:
        """Names both corpora."""
        return content_hash("trained on", self._test.fingerprint, self._train.fingerprint)

    @property
    def configs(self) -> Sequence[str]:
        """Names of the tables either holds."""
        return tuple(dict.fromkeys([*self._test.configs, *self._train.configs]))

    @property
    def gpu(self) -> str | None:
        """The GPU that questions are about."""
        return asked_gpu(self._test)

    @property
    def folders(self) -> Sequence[Path]:
        """The folders that hold the answers of either."""
        return (*self._test.folders, *self._train.folders)

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
