"""Selection: rows chosen but not yet read, handed out in whichever form is wanted."""

from __future__ import annotations

import dataclasses
import functools
import html
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.loaders.corpus.configs import Config, unknown_column
from kbench.loaders.corpus.expression import among, is_prefix, kind_of, member, read_expression
from kbench.loaders.corpus.manifest import FileEntry
from kbench.schemas import DataError, Record, UnknownNameError, UserError, arrow_schema, from_dict
from kbench.schemas.errors import first_line
from kbench.schemas.record import field_types

if TYPE_CHECKING:
    import datasets
    import pandas
    import polars
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

BATCH_ROWS = 8192
SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_CHARACTERS = 5, 10, 40
"""What a notebook shows of a selection."""
LONG_COLUMNS = ("source", "normalised")
FEW_WORDS = {
    "proposer": ("genome", "rewrite", "llm", "human"),
    "search_method": ("random", "hill_climb", "evolve", "puct", "written", "none"),
}
"""Columns that hold one of few words, and those of kbench's own; a corpus may have others."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Selection:
    """Rows of one config that match; nothing is read before a `to_…`, `batches` or `records` is called."""

    config: Config
    files: list[tuple[Path, FileEntry]]
    equals: Mapping[str, tuple[Any, ...]]
    where: Any
    columns: tuple[str, ...] | None
    configs: tuple[str, ...] = ()
    """Configs of the corpus that have rows."""
    every: tuple[Path, ...] = ()
    """Files of the config, those without a chosen row included."""

    def __repr__(self) -> str:
        """What was selected, in a line: a notebook shows it."""
        chosen = [f"{name}={', '.join(map(str, values))}" for name, values in self.equals.items()]
        chosen += [f"where={self.where}"] if self.where is not None else []
        chosen += [f"columns={', '.join(self.columns)}"] if self.columns is not None else []
        return f"<{'; '.join([f'{self.config.name} in {len(self.files)} files', *chosen])}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: how many rows, and the first of them."""
        names = [name for name in self._names() if name not in LONG_COLUMNS][:SHOWN_COLUMNS]
        rows = next(dataclasses.replace(self, columns=tuple(names)).batches(SHOWN_ROWS), None)
        head = "".join(f"<th>{name}</th>" for name in names)
        shown = [] if rows is None else rows.slice(0, SHOWN_ROWS).to_pylist()
        body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>" for row in shown)
        columns = f"{len(names)} of {len(self._names())} columns"
        text = f"{len(shown):,} of {self.count():,} rows, {columns}: {html.escape(repr(self))}"
        return f"<table><caption>{text}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def mixed_gpus(self) -> tuple[str, ...]:
        """The GPUs whose times or speedups a reader would mix up; none where one GPU is chosen, or no figure."""
        figures = any(name.startswith(("runtime_", "speedup")) for name in self._names())
        asked = "gpu" in self.equals or "gpu" in str(self.where)
        if not figures or asked or "gpu" not in self.config.facets:
            return ()
        names = {gpu for _, entry in self.files for gpu in entry.values.get("gpu", ()) if gpu}
        return tuple(sorted(names)) if len(names) > 1 else ()

    def ancestors(self, kernel_id: str) -> pa.Table:
        """A kernel with those it descends from, the first ancestor first; it ends where a parent is not selected.

        Of a cross it follows the first parent: the second, `other_id` in its event, is no column of kernels.

        Args:
            kernel_id: the kernel's id, or how it begins. Of several GPUs, the first that has it counts.

        Raises:
            UserError: no selected kernel has such an id, or several have, or the rows are no kernels.
        """
        if "parent_id" not in field_types(self.config.record):
            raise UserError(f"config {self.config.name!r} has no ancestors; load config 'kernels'")
        lines = dataclasses.replace(self, columns=("kernel_id", "gpu", "parent_id")).to_arrow().to_pylist()
        start = next((row for row in lines if row["kernel_id"].startswith(kernel_id)), None)
        if start is None:
            raise UserError(f"kernel {kernel_id!r} is not among the {len(lines):,} selected rows; check its id")
        several = {row["kernel_id"] for row in lines if row["kernel_id"].startswith(kernel_id)}
        if len(several) > 1:
            raise UserError(f"kernel {kernel_id!r} could be {len(several)} kernels; give more of its id")
        places = {row["kernel_id"]: at for at, row in enumerate(lines) if row["gpu"] == start["gpu"]}
        descent: list[int] = []
        at = places.get(start["kernel_id"])
        while at is not None and at not in descent:
            descent.insert(0, at)
            at = places.get(lines[at]["parent_id"])
        return self.to_arrow().take(descent)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, in the corpus's order."""
        with self._plain_errors():
            return self._dataset().to_table(columns=self._names(), filter=self._filter())

    def ordered(self, keys: str | Sequence[str], limit: int | None = None) -> pa.Table:
        """The rows in the order of columns, or of one, the first `limit` of them.

        `-speedup` is the largest first, nulls last. With a limit no more than that many rows and a batch are held.

        Raises:
            UserError: a key is no column of the config, or one that holds lists or records.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        fields, wanted = field_types(self.config.record), self._names()
        keys = [keys] if isinstance(keys, str) else keys
        orders = [(key.removeprefix("-"), "descending" if key.startswith("-") else "ascending") for key in keys]
        for name, _ in orders:
            if name not in fields:
                raise unknown_column(self.config, name, self.configs)
            kind_of(name, fields[name])
        extra = [name for name, _ in orders if name not in wanted]
        chosen = dataclasses.replace(self, columns=(*wanted, *extra))
        first = arrow_schema(self.config.record).empty_table().select([*wanted, *extra])
        # The sort is stable, so that of equal rows those that come first in the corpus stay first.
        parts = [chosen.to_arrow()] if limit is None else (pa.Table.from_batches([one]) for one in chosen.batches())
        for part in parts:
            first = pa.concat_tables([first, part])
            first = first.take(pc.sort_indices(first, sort_keys=orders)[:limit])
        return first.select(wanted)

    def to_polars(self) -> polars.LazyFrame:
        """The rows as a lazy frame; polars pushes further filters and selections into the files."""
        import polars

        with self._plain_errors():
            condition, dataset = self._filter(), self._dataset()
            rows = dataset if condition is None else dataset.filter(condition)
            return polars.scan_pyarrow_dataset(rows).select(self._names())

    def to_hf(self) -> datasets.Dataset:
        """The rows as a `datasets.Dataset`."""
        import datasets

        return datasets.Dataset(self.to_arrow())

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas frame."""
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows in Arrow batches of at most `rows`, read as they are asked for: for corpora larger than memory."""
        with self._plain_errors():
            dataset, names, condition = self._dataset(), self._names(), self._filter()
            # File by file: a scan of all of them runs ahead of whoever takes the batches, by any number of files.
            for file in dataset.get_fragments():
                scanner = file.scanner(
                    schema=dataset.schema, columns=names, filter=condition, batch_size=rows, batch_readahead=2
                )
                yield from (batch for batch in scanner.to_batches() if batch.num_rows)

    def records(self) -> Iterator[Record]:
        """The rows as typed records, checked as they are read.

        Raises:
            UserError: only some columns were selected.
            DataError: a value is not what its field must be.
        """
        if self.columns is not None and set(self.columns) != set(field_types(self.config.record)):
            raise UserError("columns= cannot be combined with records(); a record has every column of its config")
        row = 0
        for batch in self.batches(1024):
            for values in batch.to_pylist():
                yield from_dict(self.config.record, values, where=f"{self.config.name}[{row}]")
                row += 1

    def count(self) -> int:
        """How many rows match."""
        if not self.equals and self.where is None:
            return sum(entry.rows for _, entry in self.files)
        with self._plain_errors():
            return int(self._dataset().count_rows(filter=self._filter()))

    __len__ = count

    def _names(self) -> list[str]:
        return list(self.columns) if self.columns is not None else list(field_types(self.config.record))

    def _dataset(self) -> ds.Dataset:
        import pyarrow.dataset as ds

        schema = arrow_schema(self.config.record)
        if not self.files:
            return ds.dataset(schema.empty_table())
        return ds.dataset([str(path) for path, _ in self.files], schema=schema, format="parquet")

    def _filter(self) -> pc.Expression | None:
        """All conditions in one; None where every row is chosen."""
        import pyarrow.compute as pc

        fields, closed = field_types(self.config.record), self._words()
        parts = []
        for column, values in self.equals.items():
            listed = [member(column, fields[column], value, closed) for value in values]
            is_one = len(listed) == 1 and listed[0] is not None and not is_prefix(fields[column], listed[0])
            field = pc.field(column)
            parts.append(field == listed[0] if is_one else among(field, listed, fields[column]))
        if isinstance(self.where, str):
            try:
                parts.append(read_expression(self.where, fields, closed))
            except UnknownNameError as error:
                if error.kind != "column":
                    raise
                # A column that the condition names in vain may be another config's.
                elsewhere = unknown_column(self.config, error.name, self.configs)
                raise error if isinstance(elsewhere, UnknownNameError) else elsewhere from None
        elif isinstance(self.where, pc.Expression):
            # Counting takes a filter that is no condition and answers nonsense; filtering no rows at all refuses it.
            arrow_schema(self.config.record).empty_table().filter(self.where)
            parts.append(self.where)
        elif self.where is not None:
            raise UserError(f"where is {self.where!r}; it must be a condition in words or a pyarrow expression")
        return functools.reduce(operator.and_, parts) if parts else None

    def _words(self) -> dict[str, set[str]]:
        """The words of columns that hold few and that a condition names: another word is a mistake, not no row."""
        import pyarrow.dataset as ds

        text = f"{' '.join(self.equals)} {self.where}" if isinstance(self.where, str) else " ".join(self.equals)
        names = [name for name in FEW_WORDS if name in field_types(self.config.record) and name in text]
        words = {name: {*FEW_WORDS[name]} for name in names}
        if names and self.every:
            files = ds.dataset([str(path) for path in self.every], schema=arrow_schema(self.config.record))
            for batch in files.to_batches(columns=names):
                for name in names:
                    words[name].update(filter(None, batch.column(name).unique().to_pylist()))
        return words

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """What pyarrow says about a damaged or foreign file, as one line that names the file."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> Exception:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = arrow_schema(self.config.record)
        for path, _ in self.files:
            try:
                file_schema = pq.read_schema(path)
            except (pa.ArrowException, OSError) as fault:
                return DataError(f"{path} cannot be read as Parquet: {first_line(fault)}; fetch it again")
            for field in file_schema:
                if field.name in schema.names and field.type != schema.field(field.name).type:
                    wanted = schema.field(field.name).type
                    return DataError(f"{path}: column {field.name!r} is {field.type}; it must be {wanted}")
        misfits = pa.ArrowNotImplementedError | pa.ArrowInvalid | pa.ArrowTypeError
        if isinstance(error, misfits) and (self.where is not None or self.equals):
            return UserError(f"the filter does not fit its column: {first_line(error)}")
        return DataError(f"config {self.config.name!r} cannot be read: {first_line(error)}")


def _cell(value: Any) -> str:
    """A value in a table for people."""
    text = f"{value:.4g}" if isinstance(value, float) else str("" if value is None else value)
    return html.escape(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…")
