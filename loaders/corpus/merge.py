"""Merge corpora: all rows of all of them in one, each once, and nothing that would break its splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from kbench.loaders.corpus.configs import CONFIGS, Config
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import Location
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.storage.atomic import whole_folder

SHARD_BYTES = 64 << 20
AGAIN, TWIN, ORPHAN, STRANGE = (
    "rows that an earlier corpus has",
    "kernels whose near-duplicates are in another split of an earlier corpus",
    "rows about a kernel that was left out",
    "kernels in a split that no other kernel of their problem is in",
)
"""Why a row is left out."""
FIRST = ("problems", "kernels")
"""Configs that the rows of the others are about."""
OWNERS = {
    "measurements": ("kernel_id",), "repeats": ("kernel_id",), "pairs": ("anchor_id", "candidate_id"),
    "questions": ("anchor_id", "candidate_id"),
}  # fmt: skip
"""Columns that name the kernels a row is about."""


class Merge:
    """What a merge did, and what is remembered from one corpus to the next."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        """Rows written, by config."""
        self.left_out: Counter[str] = Counter()
        """Rows left out, by config and reason."""
        self.fingerprint = ""
        self._keys: dict[str, set[str]] = {name: set() for name in CONFIGS}
        self._earlier: dict[str, str] = {}
        self._current: dict[str, str] = {}
        self._dropped: set[tuple[str | None, str]] = set()
        self._families: dict[str, str] = {}
        self._splits: dict[str, set[str]] = {}
        """By problem, those of its kernels."""
        self._searches: set[tuple[str, str]] = set()
        self._earlier_searches: set[tuple[str, str]] = set()
        """Of live studies, in earlier corpora."""

    def add(self, config: Config, corpus: Corpus, writer: CorpusWriter) -> Iterator[int]:
        """Write the rows of one config of a corpus that join; yields how many were read."""
        for batch in corpus.select(config.name).batches():
            kept = self._families_of(self._kept(config, pa.Table.from_batches([batch])))
            writer.append(config.name, kept)
            self.rows[config.name] += kept.num_rows
            yield batch.num_rows
        self._earlier = self._current | self._earlier
        self._current = {}
        self._earlier_searches |= self._searches

    def _kept(self, config: Config, table: pa.Table) -> pa.Table:
        columns = [table.column(name).to_pylist() for name in config.key]
        keys = ["\x1f".join(map(str, key)) for key in zip(*columns, strict=True)]
        known_keys = self._keys[config.name]
        reasons = [AGAIN if key in known_keys else None for key in keys]
        if config.name == "kernels":
            facts = table.select(["kernel_id", "gpu", "cluster_id", "split", "problem_id"]).to_pylist()
            reasons = [why or self._twin(row) for why, row in zip(reasons, facts, strict=True)]
            for row in (row for row, why in zip(facts, reasons, strict=True) if why is None):
                self._splits.setdefault(row["problem_id"], set()).add(row["split"])
        for owner in OWNERS.get(config.name, ()):
            owners = zip(table.column(owner).to_pylist(), table.column("gpu").to_pylist(), strict=True)
            reasons = [
                why or (ORPHAN if one in self._dropped else None) for why, one in zip(reasons, owners, strict=True)
            ]
        if config.name == "live":
            reasons = [self._live(row) for row in table.select(["study", "run_id", "problem_id", "split"]).to_pylist()]
        known_keys.update(key for key, why in zip(keys, reasons, strict=True) if why is None)
        self.left_out.update(f"{config.name}: {why}" for why in reasons if why is not None)
        return table.filter(pa.array([why is None for why in reasons], pa.bool_()))

    def _live(self, row: Mapping[str, str]) -> str | None:
        """Why a live kernel is left out. A search is one corpus's: rows of two with one name would make a third."""
        search = row["study"], row["run_id"]
        if search in self._earlier_searches:
            return AGAIN
        self._searches.add(search)
        return None if row["split"] in self._splits.get(row["problem_id"], {row["split"]}) else STRANGE

    def _twin(self, row: Mapping[str, str]) -> str | None:
        if self._earlier.get(row["cluster_id"], row["split"]) == row["split"]:
            self._current[row["cluster_id"]] = row["split"]
            return None
        self._dropped.add((row["kernel_id"], row["gpu"]))
        return TWIN

    def _families_of(self, table: pa.Table) -> pa.Table:
        """Rows with the family their problem has in the first corpus that names it."""
        if not {"problem_id", "family"} <= set(table.column_names):
            return table
        rows = zip(table.column("problem_id").to_pylist(), table.column("family").to_pylist(), strict=True)
        families = [self._families.setdefault(problem, family) for problem, family in rows]
        place = table.column_names.index("family")
        return table.set_column(place, table.schema.field("family"), pa.array(families, pa.string()))


def merge(paths: Sequence[Location], out: Path, advance: Callable[[int], object] = lambda _: None) -> Merge:
    """Join corpora in a new one. Of rows with the same key, the earliest corpus's is kept."""
    corpora = [Corpus.open(path) for path in paths]
    merged = Merge()
    with whole_folder(out) as folder, CorpusWriter(folder, shard_bytes=SHARD_BYTES) as writer:
        for name in (*FIRST, *(name for name in CONFIGS if name not in FIRST)):
            for corpus in corpora:
                for rows in merged.add(CONFIGS[name], corpus, writer):
                    advance(rows)
        merged.fingerprint = writer.commit()
    return merged
