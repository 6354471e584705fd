"""Instruction mixes of training kernels, which the corpus does not record: a small table that ships with the models.

Made by docs/evidence/scripts/instruction_mixes.py; kernels that are not in it, or do not compile, are missing values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kbench.loaders.storage.atomic import replacing
from kbench.schemas import DataError

MIXES_FILE = Path(__file__).with_name("mixes.parquet")
KEY = ("kernel_id", "capability")


class Mixes:
    """Counts of PTX instructions by class, for kernels and the compute capability they were compiled for."""

    def __init__(self, counts: Mapping[tuple[str, str], Mapping[str, int] | None] | None = None) -> None:
        self._counts = dict(counts or {})

    def __contains__(self, key: tuple[str, str]) -> bool:
        """Whether a kernel was compiled, successfully or not."""
        return key in self._counts

    def __len__(self) -> int:
        """How many kernels have a mix."""
        return sum(counts is not None for counts in self._counts.values())

    def get(self, kernel_id: str, capability: str) -> Mapping[str, int] | None:
        """A kernel's mix, or None."""
        return self._counts.get((kernel_id, capability))

    def put(self, kernel_id: str, capability: str, counts: Mapping[str, int] | None) -> None:
        """Record a kernel's mix; None means that it has none."""
        self._counts[kernel_id, capability] = counts

    def save(self, path: Path) -> None:
        """Write the table aside and put it in place, so that a reader sees a whole one."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        classes = sorted({name for counts in self._counts.values() for name in counts or ()})
        rows = sorted(self._counts.items(), key=lambda row: row[0])
        columns = {name: pa.array([key[at] for key, _ in rows], pa.string()) for at, name in enumerate(KEY)}
        for name in classes:
            columns[name] = pa.array([None if counts is None else counts[name] for _, counts in rows], pa.int32())
        with replacing(path) as file:
            pq.write_table(pa.table(columns), file, compression="zstd", compression_level=19)

    @classmethod
    def load(cls, path: Path) -> Mixes:
        """Read a table; no file is an empty one.

        Raises:
            DataError: the file is not such a table.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not path.exists():
            return cls()
        try:
            return cls(dict(_rows(pq.read_table(path).to_pylist())))
        except (pa.ArrowInvalid, KeyError) as error:
            raise DataError(f"{path} is no table of instruction mixes ({error}); make it again") from None


def _rows(rows: list[dict[str, object]]) -> Iterator[tuple[tuple[str, str], dict[str, int] | None]]:
    for row in rows:
        key = (str(row.pop(KEY[0])), str(row.pop(KEY[1])))
        counts = {name: value for name, value in row.items() if isinstance(value, int)}
        yield key, counts or None
