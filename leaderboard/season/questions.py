"""What a season asks: its kernels as a corpus, before they are measured and after, and the queries about them.

Pairs are drawn from hashes of ids alone, because nobody knows yet which kernels are correct. A pair whose anchor turns
out to fail has no answer and is not scored.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.tasks import Questions, build_questions
from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.tasks.sample import pair_row
from kbench.benchmark.tasks.trained import TrainedOn
from kbench.benchmark.tasks.versions import VERSION
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Pair, Query, arrow_schema, to_dict
from kbench.schemas.ids import content_hash

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT = "test"
Row = dict[str, Any]


class SeasonTables:
    """A season's kernels as a corpus to be asked about."""

    benchmark = VERSION

    def __init__(self, kernels: Corpus, gpu: str, figures: Mapping[str, Row] | None = None) -> None:
        """Look at kernels.

        Args:
            kernels: the season's, without figures.
            gpu: the GPU that is asked about.
            figures: what was measured of each, by kernel id; none while the season is open.
        """
        self._kernels, measured = kernels, figures or {}
        place = {"gpu": gpu, "split": SPLIT}
        self._rows = [row | measured.get(row["kernel_id"], {}) | place for row in kernels.table("kernels").to_pylist()]

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the kernels."""
        return self._kernels.fingerprint

    @property
    def configs(self) -> Sequence[str]:
        """Names of the tables it holds."""
        return ("kernels", "pairs", "problems")

    @property
    def folders(self) -> Sequence[Path]:
        """The folders of the kernels, which hold no answers."""
        return ()

    def table(self, name: str, *, columns: list[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered by equality."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if name not in ("kernels", "pairs"):
            return self._kernels.table(name, columns=columns, **filters)
        if name == "kernels":
            table = pa.Table.from_pylist(self._rows, schema=self._kernels.table("kernels").schema)
        else:
            fields = (field.with_nullable(True) for field in arrow_schema(Pair))
            table = pa.Table.from_pylist(
                list(_pairs(self._rows)), schema=pa.schema([*fields, ("relation", pa.string())])
            )
        for column, wanted in filters.items():
            table = table.filter(pc.field(column).isin([wanted] if isinstance(wanted, str) else list(wanted)))
        return table if columns is None else table.select(columns)


def _pairs(rows: Sequence[Row]) -> Iterator[Row]:
    """Each kernel against the reference, and half of each cell's kernels against the other half."""
    cells: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["problem_id"], row["backend"]].append(row)
    for _, members in sorted(cells.items()):
        yield from (pair_row(None, row) for row in members)
        order = sorted(members, key=lambda row: content_hash("side", row["kernel_id"]))
        half = len(order) // 2
        for candidate, anchor in zip(order[:half], order[half:], strict=False):
            yield pair_row(anchor, candidate)


def season_corpus(kernels: Corpus, gpu: str, dataset: Tables, figures: Mapping[str, Row] | None = None) -> Tables:
    """A season's kernels to be asked about, and the training rows of the dataset to learn from."""
    return TrainedOn(SeasonTables(kernels, gpu, figures), dataset)


def season_questions(corpus: Tables) -> Questions:
    """Everything a season asks; labels are there once its kernels have figures."""
    return build_questions(corpus, SPLIT, measured_only=False)


def by_track(questions: Questions) -> dict[str, list[Query]]:
    """Each track's queries, as its file holds them."""
    return {track: [questions.queries[at] for at in questions.asked(track).tolist()] for track in questions.tracks}


def fingerprint(queries: Mapping[str, Sequence[Query]]) -> str:
    """Names every word of every track's queries."""
    texts = [json.dumps([track, *map(to_dict, queries[track])], sort_keys=True) for track in sorted(queries)]
    return content_hash("season", *texts)
