"""A corpus as the benchmark sees it, whichever way its questions are made."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.loaders.corpus.corpus import EVERY_GPU, Corpus, resolve

if TYPE_CHECKING:
    import pyarrow as pa


class CorpusView:
    """A corpus whose questions are about one GPU."""

    benchmark: int

    def __init__(self, corpus: Corpus, gpu: str | None = None) -> None:
        """Look at a corpus.

        Args:
            corpus: the corpus.
            gpu: the GPU that questions are about, by its name or as `load` takes it, or EVERY_GPU; by default the one
                with the most kernels. Surrogates learn from all of them.

        Raises:
            UnknownNameError: the corpus has no such GPU.
        """
        self.stated = corpus
        """The corpus as it is."""
        self._wanted = None if gpu is None else resolve("gpu", gpu, [*corpus.gpus(), EVERY_GPU])

    @functools.cached_property
    def gpu(self) -> str | None:
        """The GPU that questions are about; None for every GPU."""
        return None if self._wanted == EVERY_GPU else self._wanted or next(iter(self.stated.gpus()), None)

    @property
    def fingerprint(self) -> str:
        """Content fingerprint of the corpus."""
        return self.stated.fingerprint

    @property
    def configs(self) -> Sequence[str]:
        """Names of the tables it holds."""
        return self.stated.configs

    @property
    def folders(self) -> Sequence[Path]:
        """The folders that hold the answers."""
        return self.stated.folders

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """Columns of a table that the corpus states, in parts."""
        return self.stated.batches(name, columns=columns, **filters)
