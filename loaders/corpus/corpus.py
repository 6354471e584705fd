"""Corpus: open a dataset folder, a Hub id or several shards, and select rows of it."""

from __future__ import annotations

import functools
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.loaders.corpus.configs import CONFIGS, DEFAULT, WHOLE, Config, config, unknown_column
from kbench.loaders.corpus.manifest import FileEntry, Manifest, read_manifest
from kbench.loaders.corpus.places import Location, folder_of, from_hub
from kbench.loaders.corpus.selection import Selection
from kbench.loaders.corpus.shards import describe_shards, verify
from kbench.loaders.storage.hub_client import evict_damaged
from kbench.schemas import DataError, UnknownNameError, UserError
from kbench.schemas.record import field_types

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

ALIASES = {"problem": "problem_id"}
"""Filter names that differ from their column's."""
OPEN_FACETS = ("problem_id", "gpu", "search_method", "family", "kind")
"""Facets whose values only the data knows; asking for one it does not have is a slip, not an empty answer."""
UNIONS = ("all", WHOLE)
"""Splits that mean every row: `datasets` takes all as the union of splits, so it means the same here."""
CLOSED_FACETS = ("backend", "status", "split")
EVERY_GPU = "all"
"""Instead of a GPU's name: every one, and rows that name none."""


def load(
    path: Location | Sequence[Location] | None = None,
    *,
    config: str = DEFAULT,
    problem: str | Sequence[str] | None = None,
    backend: str | Sequence[str] | None = None,
    gpu: str | Sequence[str] | None = None,
    search_method: str | Sequence[str] | None = None,
    status: str | Sequence[str] | None = None,
    family: str | Sequence[str] | None = None,
    split: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    where: str | pc.Expression | None = None,
    **equals: Any,
) -> Selection:
    """Select rows of a corpus.

    Args:
        path: a corpus folder, a Hub id, Parquet files, or several of them; the shipped dataset when left out.
        config: kernels, measurements, problems, questions, environments, events, repeats, plans, references, counters,
            live or tuning.
        problem: problem id or ids.
        backend: backend or backends.
        gpu: GPU name or names, as the driver reports them or any unambiguous part or end, such as H200; or all.
        search_method: search method or methods.
        status: status or statuses.
        family: problem family or families.
        split: split or splits.
        columns: column or columns to read; all when left out.
        where: a filter such as "runtime_us < 10", or a pyarrow expression.
        **equals: further columns and the value or values they must have; None is null.

    Warns, once, where times or speedups of several GPUs are mixed.

    Raises:
        UserError: an unknown column or value, with the nearest known ones; or the path is not a corpus.
        DataError: a file is damaged.
    """
    named = {
        "problem": problem, "backend": backend, "gpu": gpu, "search_method": search_method,
        "status": status, "family": family, "split": split,
    }  # fmt: skip
    filters: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    filters |= {name: (None,) if value is None else value for name, value in equals.items()}
    corpus = Corpus.open(path)
    corpus.refuse_absent(config)
    chosen = corpus.select(config, columns=columns, where=where, **filters)
    mixed = chosen.mixed_gpus()
    if mixed:
        _warn_of_mixed(mixed)
    return chosen


@functools.cache
def _warn_of_mixed(gpus: tuple[str, ...]) -> None:
    """Once for each set of GPUs: a mean over their times or speedups would be no GPU's."""
    names = ", ".join(gpus)
    warnings.warn(f"rows of several GPUs are mixed ({names}); choose one with gpu=", stacklevel=3)


class Corpus:
    """An opened corpus: its manifest, and where its files are."""

    def __init__(
        self, files: Mapping[str, Sequence[tuple[Path, FileEntry]]], manifest: Manifest, folders: Sequence[Path] = ()
    ) -> None:
        self._files = files
        self.manifest = manifest
        self.folders = tuple(folders)
        """The folders it was opened from, where names and Hub ids have led to; Parquet files given alone have none."""

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> Corpus:
        """The corpus a manifest describes, its files in `folder`."""
        files = {name: [(folder / entry.path, entry) for entry in found] for name, found in manifest.files.items()}
        return cls(files, manifest, [folder])

    @classmethod
    def open(
        cls, path: Location | Sequence[Location] | None = None, *, check_files: bool = True, verified: bool = False
    ) -> Corpus:
        """Open a corpus.

        Args:
            path: a corpus folder, a Hub id, Parquet files, or several of them; the shipped dataset when left out.
            check_files: whether to look that every file is there and has its size.
            verified: whether to compare every file's bytes, rows and facets with the manifest, and the rows with the
                fingerprint; a corpus from the Hub always is.

        Raises:
            UserError: the path is not a corpus.
            DataError: the corpus is damaged.
        """
        paths = [path] if path is None or isinstance(path, str | os.PathLike) else list(path)
        if not paths:
            raise UserError("no path given; give a corpus folder, a Hub id or Parquet files")
        files: dict[str, list[tuple[Path, FileEntry]]] = {}
        loose = [Path(item) for item in paths if item is not None and str(item).endswith(".parquet")]
        folders: list[Path] = []
        for item in (item for item in paths if item is None or not str(item).endswith(".parquet")):
            folder, manifest = _opened(item, check_files, verified)
            folders.append(folder)
            for name, entries in manifest.files.items():
                files.setdefault(name, []).extend((folder / entry.path, entry) for entry in entries)
        for name, found in describe_shards(loose).items():
            files.setdefault(name, []).extend(found)
        listed = {name: tuple(entry for _, entry in found) for name, found in files.items()}
        release = manifest.release if len(paths) == 1 and folders else None
        return cls(files, Manifest(listed, release=release), folders)

    @property
    def fingerprint(self) -> str:
        """The content fingerprint."""
        return self.manifest.fingerprint

    @property
    def configs(self) -> tuple[str, ...]:
        """Configs that have rows, in order."""
        return tuple(name for name in CONFIGS if self._files.get(name))

    def gpus(self) -> list[str]:
        """The GPUs that kernels were measured on, the one with the most kernels first."""
        names: Counter[str | None] = Counter()
        for part in self.batches("kernels", columns=["gpu"]):
            names.update({item["values"]: item["counts"] for item in part.column("gpu").value_counts().to_pylist()})
        return sorted(filter(None, names), key=lambda name: (-names[name], name))

    def main_gpu(self) -> str | None:
        """Of several GPUs the one with the most kernels; None where there is nothing to choose from."""
        gpus = self.gpus()
        return gpus[0] if len(gpus) > 1 else None

    def refuse_absent(self, name: str) -> None:
        """Refuse a config that has no rows, because a count of 0 would read as an answer; an empty corpus has none."""
        if config(name).name in self.configs or not self.configs:
            return
        where = "this corpus" if self.folders else "the files given"
        raise UserError(f"config {name!r} has no rows in {where}; configs with rows: {', '.join(self.configs)}")

    def files(self, name: str = DEFAULT) -> tuple[FileEntry, ...]:
        """The files of a config."""
        return tuple(entry for _, entry in self._files.get(name, ()))

    def rows(self, name: str = DEFAULT) -> int:
        """How many rows a config has."""
        return sum(entry.rows for entry in self.files(name))

    def table(
        self, name: str = DEFAULT, *, columns: Sequence[str] | None = None, where: Any = None, **filters: Any
    ) -> pa.Table:
        """Rows of a config as an Arrow table; filters as in `load`."""
        return self.select(name, columns=columns, where=where, **filters).to_arrow()

    def batches(self, name: str = DEFAULT, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """Columns of a config in parts that fit in memory, however large the corpus; filters as in `load`."""
        import pyarrow as pa

        for batch in self.select(name, columns=columns, **filters).batches():
            yield pa.Table.from_batches([batch])

    def select(
        self, name: str = DEFAULT, *, columns: str | Sequence[str] | None = None, where: Any = None, **filters: Any
    ) -> Selection:
        """Rows of a config, not yet read; filters as in `load`."""
        chosen = config(name)
        columns = [columns] if isinstance(columns, str) else columns
        fields = field_types(chosen.record)
        for column in columns or ():
            if column not in fields:
                raise unknown_column(chosen, column, self.configs)
        equals = {ALIASES.get(key, key): _values(value) for key, value in filters.items() if value is not None}
        if any(split in UNIONS for split in equals.get("split", ())):
            self._known(chosen, "split", tuple(split for split in equals.pop("split") if split not in UNIONS))
        for column in equals:
            if column not in fields:
                raise unknown_column(chosen, column, self.configs)
        if EVERY_GPU in equals.get("gpu", ()):
            # Still a filter, so that nobody is warned of a mixture that they asked for.
            every = self.manifest.values(name, "gpu")
            equals.pop("gpu")
            equals |= {"gpu": (*every, None)} if every is not None else {}
        equals = {column: self._known(chosen, column, values) for column, values in equals.items()}
        files = [(path, entry) for path, entry in self._files.get(name, ()) if _may_match(entry, chosen, equals)]
        chosen_columns = tuple(columns) if columns is not None else None
        paths = tuple(path for path, _ in self._files.get(name, ()))
        return Selection(chosen, files, equals, where, chosen_columns, self.configs, paths)

    def _known(self, chosen: Config, column: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values as the data spells them; a value it cannot have is refused."""
        if column in CLOSED_FACETS:
            allowed = chosen.splits if column == "split" else [m.value for m in field_types(chosen.record)[column].base]
            for value in values:
                if value not in allowed:
                    raise UnknownNameError(column, value, allowed)
            return tuple(str(value) for value in values)
        spellings = self.manifest.values(chosen.name, column) if column in OPEN_FACETS else None
        if spellings is None or not self._files.get(chosen.name):
            return values
        return tuple(value if value is None else resolve(column, value, spellings) for value in values)


def _opened(item: Location | None, check_files: bool, verified: bool, *, again: bool = True) -> tuple[Path, Manifest]:
    """A folder and its manifest; what is damaged in the Hub's cache is fetched again, once."""
    folder = folder_of(item)
    try:
        manifest = read_manifest(folder, check_files=check_files)
        if verified or (check_files and from_hub(folder)):
            verify(folder, manifest)
    except DataError:
        of_hub = isinstance(item, str) and not Path(item).exists()
        if not (again and of_hub and evict_damaged(folder, unproven=True)):
            raise
        return _opened(item, check_files, verified, again=False)
    return folder, manifest


def resolve(column: str, value: Any, known: Iterable[str]) -> str:
    """A value as the data spells it; of a GPU any part will do that one name has, or that one name ends with."""
    names = list(known)
    if value in names:
        return str(value)
    if column == "gpu":
        near = [name for name in names if re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", name, re.IGNORECASE)]
        # H200 means the whole GPU, not one of its partitions, whose names go on after it.
        ending = [name for name in near if name.lower().endswith(str(value).lower())]
        for candidates in (near, ending):
            if len(candidates) == 1:
                return candidates[0]
    raise UnknownNameError(column, value, names)


def _values(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)


def _may_match(entry: FileEntry, chosen: Config, equals: Mapping[str, tuple[Any, ...]]) -> bool:
    for column, values in equals.items():
        if column == "split" and chosen.is_split and entry.split not in values:
            return False
        listed = entry.values.get(column)
        if listed is not None and not set(values) & set(listed):
            return False
    return True
