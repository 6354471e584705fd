"""Prompts with their answers in one file: what training needs of a corpus, so that it runs where only torch is."""

from __future__ import annotations

import dataclasses
import functools
import io
import lzma
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Ints
from kbench.benchmark.surrogates.language.local import prompt
from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.tasks.build import TRAIN_SPLITS, answered_pairs, build_questions
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import DataError, Query, UserError

VALIDATION_QUERIES = 512
"""Validation questions that are taken, by ascending id, which is as good as at random."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prompts:
    """Tokens of many questions. Questions of test splits carry no answer."""

    version: int
    """Of the prompt's text."""
    dataset: str
    """Fingerprint of the corpus."""
    digit_tokens: Ints
    """Tokens of the digits 0 to 9."""
    tokens: npt.NDArray[np.uint32]
    """Of all prompts, one after the other."""
    ends: Ints
    """Where each prompt ends in `tokens`."""
    query_id: npt.NDArray[np.str_]
    split: npt.NDArray[np.str_]
    bin: Ints
    """1 to 8; 0 where the answer is not given."""

    def __getitem__(self, index: int) -> npt.NDArray[np.uint32]:
        return self.tokens[(self.ends[index - 1] if index else 0) : self.ends[index]]

    def lengths(self, chosen: Ints) -> Ints:
        """Tokens of the chosen prompts."""
        result: Ints = np.diff(self.ends, prepend=0)[chosen]
        return result

    def of(self, split: str) -> Ints:
        """Indices of one split.

        Raises:
            UserError: there is no question of it.
        """
        found = np.flatnonzero(self.split == split)
        if not len(found):
            raise UserError(f"the prompts hold no question of split {split!r}; they hold {sorted(set(self.split))}")
        return found

    def write(self, path: Path) -> None:
        """Write them: arrays in NumPy's format, compressed by xz."""
        buffer = io.BytesIO()
        np.savez(buffer, **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)})
        write_atomically(path, lzma.compress(buffer.getvalue(), preset=1))

    @classmethod
    def open(cls, path: Path) -> Prompts:
        """Read what `write` wrote.

        Raises:
            UserError: the file does not exist.
            DataError: it holds no prompts, or those of another version.
        """
        if not path.is_file():
            raise UserError(f"prompts {str(path)!r} do not exist; write them with kbench train prompts")
        try:
            arrays = np.load(io.BytesIO(lzma.decompress(path.read_bytes())))
            values = {field.name: arrays[field.name] for field in dataclasses.fields(cls)}
        except (lzma.LZMAError, ValueError, KeyError, EOFError, OSError) as error:
            raise DataError(f"{path} holds no prompts ({error}); write them with kbench train prompts") from None
        if int(values["version"]) != prompt.VERSION:
            raise DataError(f"{path} has prompts of version {values['version']}; write them again")
        return cls(**values | {"version": int(values["version"]), "dataset": str(values["dataset"])})


def tokenized(
    corpus: Tables,
    encode: prompt.Encode,
    digit_tokens: Sequence[int],
    splits: Iterable[str] = ("train", "validation", "test"),
    source_tokens: int = prompt.SOURCE_TOKENS,
) -> Prompts:
    """The questions of a corpus as a model reads them.

    Args:
        corpus: as a version of the benchmark splits it.
        encode: the tokenizer.
        digit_tokens: tokens of the digits.
        splits: train and validation come with answers; test splits without.
        source_tokens: most tokens of a source.
    """
    remembered = functools.lru_cache(maxsize=50_000)(lambda text: tuple(encode(text)))
    tokens: list[npt.NDArray[np.uint32]] = []
    rows: list[tuple[str, str, int]] = []
    for split in splits:
        for query, number in _asked(corpus, split):
            found = prompt.prompt_tokens(query, lambda text: list(remembered(text)), source_tokens)
            tokens.append(np.array(found, dtype=np.uint32))
            rows.append((query.query_id, split, number))
    return Prompts(
        version=prompt.VERSION,
        dataset=corpus.fingerprint,
        digit_tokens=np.asarray(digit_tokens),
        tokens=np.concatenate(tokens),
        ends=np.cumsum([len(each) for each in tokens]),
        query_id=np.array([row[0] for row in rows]),
        split=np.array([row[1] for row in rows]),
        bin=np.array([row[2] for row in rows]),
    )


def _asked(corpus: Tables, split: str) -> Iterator[tuple[Query, int]]:
    """Questions of a split with their bins, under the ids that forecasts of the split have; 0 where no bin is told."""
    if split == "train":
        known = ((query, pair.bin) for query, pair in answered_pairs(corpus, split) if pair.speedup is not None)
        yield from sorted(known, key=lambda one: one[0].query_id)
        return
    told = split in TRAIN_SPLITS
    questions = build_questions(corpus, split, limit=VALIDATION_QUERIES if told else None)
    numbers = np.zeros(len(questions.queries), dtype=np.int64)
    if told:
        numbers[questions.pairs.query] = questions.pairs.bin
    yield from zip(questions.queries, numbers.tolist(), strict=True)
