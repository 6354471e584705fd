"""Entries that nobody should send, submitted one by one. Usage: hostile_entries.py OUT.json

Each must be refused or be what its author may send, and leave the honest entry beside it alone.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hostile_files import HALF, SLOW_S, parquet, text, write

TAKEN = (
    "probabilities in large lists", "probabilities in lists of a fixed size", "probabilities with -0.0", "ids as bytes",
    "ids as a dictionary", "ids as large text", "metadata of 5 MB in the schema",
)  # fmt: skip
"""Tables that say the same in other types."""


class Changed:
    """An honest entry, and copies of it with something changed."""

    def __init__(self, honest: Path, work: Path) -> None:
        kept = ("submission.json", "forecasts.parquet")
        self.files = {one.name: one.read_bytes() for one in honest.iterdir() if one.name in kept}
        self.work = work

    @functools.cached_property
    def forecasts(self) -> pa.Table:
        return pq.read_table(io.BytesIO(self.files["forecasts.parquet"]))

    @functools.cached_property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.files["submission.json"])
        return found

    def folder(self, name: str, **changed: bytes | None) -> Path:
        """A copy with these files; `__` stands for the dot, None leaves a file out."""
        path = self.work / "".join(letter if letter.isalnum() else "-" for letter in name)
        path.mkdir()
        for one, data in (self.files | {key.replace("__", "."): value for key, value in changed.items()}).items():
            if data is not None:
                (path / one).write_bytes(data)
        return path

    def table(self, name: str, table: pa.Table) -> tuple[str, Path, bool]:
        """With other forecasts."""
        return name, self.folder(name, forecasts__parquet=parquet(table)), name in TAKEN

    def lines(self, name: str, data: bytes) -> tuple[str, Path, bool]:
        """With forecasts as lines."""
        return name, self.folder(name, forecasts__parquet=None, forecasts__jsonl=data), False

    def described(self, name: str, data: bytes) -> tuple[str, Path, bool]:
        """With other metadata."""
        return name, self.folder(name, submission__json=data), False


def tables(entry: Changed) -> Iterator[tuple[str, Path, bool]]:
    """Forecasts of types that nobody expects: name, path, and whether it may pass."""
    whole = entry.forecasts
    at = whole.schema.get_field_index("probabilities")
    odds = whole.column("probabilities")
    wide = pa.array(odds.to_pylist(), pa.large_list(pa.float64()))
    for name, column in {
        "probabilities of 16 bits": pa.array(odds.to_pylist(), pa.list_(pa.float32())).cast(pa.list_(pa.float16())),
        "probabilities in large lists": wide,
        "probabilities in lists of a fixed size": wide.cast(pa.list_(pa.float64(), 8)),
        "probabilities as text": pa.array([str(one) for one in odds.to_pylist()]),
        "probabilities that are null": pa.nulls(len(odds), pa.list_(pa.float64())),
        "probabilities with a null among them": pa.array([[None] * 8] * len(odds), pa.list_(pa.float64())),
        "probabilities of 1e-320": pa.array([[1e-320] * 8] * len(odds), pa.list_(pa.float64())),
        "probabilities with -0.0": pa.array([[1.0, *[-0.0] * 7]] * len(odds), pa.list_(pa.float64())),
        "probabilities in lists of lists": pa.array([[one] for one in odds.to_pylist()]),
    }.items():  # fmt: skip
        yield entry.table(name, whole.set_column(at, "probabilities", column))
    ids = whole.column("query_id")
    place = whole.schema.get_field_index("query_id")
    for name, column in {
        "ids as bytes": ids.cast(pa.binary()), "ids as a dictionary": ids.combine_chunks().dictionary_encode(),
        "ids as large text": ids.cast(pa.large_string()), "ids that are null": pa.nulls(len(ids), pa.string()),
        "ids of a megabyte": pa.array(["x" * 2**20] * 8 + ids.to_pylist()[8:]),
    }.items():  # fmt: skip
        yield entry.table(name, whole.set_column(place, "query_id", column))
    yield entry.table("no forecast at all", whole.slice(0, 0))
    yield entry.table("a column twice", whole.append_column("query_id", ids))
    yield entry.table("an unknown column", whole.append_column("bonus", ids))
    yield entry.table(
        "metadata of 5 MB in the schema", whole.replace_schema_metadata({"pandas": "x" * 5_000_000}), may=True
    )
    yield entry.table(
        "metadata that is no metadata", whole.replace_schema_metadata({"pandas": "{", "ARROW:schema": "!"}), may=True
    )


def lines(entry: Changed) -> Iterator[tuple[str, Path, bool]]:
    """Forecasts as lines."""
    row = {"query_id": entry.forecasts.column("query_id")[0].as_py(), "probabilities": [0.125] * 8}
    good = text(row)
    yield entry.lines("lines with a BOM", b"\xef\xbb\xbf" + good)
    yield entry.lines("lines ended by \\r", good + b"\r" + good)
    yield entry.lines("a key twice in a line", good[:-1] + b', "query_id": "other"}')
    yield entry.lines("probabilities of true", text(row | {"probabilities": [True, *[False] * 7]}))
    yield entry.lines("probabilities of 400 digits", text(row | {"probabilities": [10**400, *[0] * 7]}))
    yield entry.lines("probabilities as an object", text(row | {"probabilities": {"1": 1.0}}))
    yield entry.lines("a line of 50 MB", b'{"query_id": "' + b"x" * 50_000_000 + b'"}')
    yield entry.lines("a million empty lines", b"\n" * 1_000_000)
    yield entry.lines("gzip under the name of lines", gzip.compress(good))
    yield entry.lines("UTF-16", (good.decode() + "\n").encode("utf-16"))


def descriptions(entry: Changed) -> Iterator[tuple[str, Path, bool]]:
    """Metadata."""
    told = entry.told
    yield entry.described("metadata with a BOM", b"\xef\xbb\xbf" + text(told))
    yield entry.described("metadata in UTF-16", json.dumps(told).encode("utf-16"))
    yield entry.described("metadata with a key twice", text(told)[:-1] + b', "name": "other"}')
    yield entry.described("metadata with a comment", b"// hello\n" + text(told))
    yield entry.described("metadata is a list of itself", text([told]))
    yield entry.described("metadata of 9,000 brackets", b"[" * 9000)
    for field in told:
        yield entry.described(f"{field} is an object of half characters", text(told | {field: {HALF: HALF}}))


def folders(entry: Changed) -> Iterator[tuple[str, Path, bool]]:
    """Folders with other files in them."""
    yield "both files of forecasts", entry.folder("both", forecasts__jsonl=b"{}"), False
    pipe = entry.folder("pipe", forecasts__parquet=None)
    os.mkfifo(pipe / "forecasts.parquet")
    yield "forecasts are a pipe", pipe, False
    huge = entry.folder("huge", forecasts__parquet=None)
    with (huge / "forecasts.parquet").open("wb") as file:
        file.truncate(20 << 30)
    yield "forecasts of 20 GB of holes", huge, False
    hidden = entry.folder("case")
    (hidden / "submission.json").rename(hidden / "Submission.JSON")
    yield "a name in capitals", hidden, False


def archives(entry: Changed) -> Iterator[tuple[str, Path, bool]]:
    """Archives."""
    files, work = entry.files, entry.work

    def packed(name: str, change: Callable[[zipfile.ZipFile], None] = lambda _: None) -> Path:
        with zipfile.ZipFile(work / name, "w", zipfile.ZIP_DEFLATED) as made:
            for one, data in files.items():
                made.writestr(one, data)
            change(made)
        return work / name

    yield (
        "zip with a comment of 60 kB",
        packed("comment.zip", lambda made: setattr(made, "comment", b"x" * 60_000)),
        True,
    )
    encrypted = bytearray(packed("encrypted.zip").read_bytes())
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        encrypted[encrypted.index(mark) + (6 if mark[2] == 3 else 8)] |= 1
    (work / "encrypted.zip").write_bytes(encrypted)
    yield "zip that says it is encrypted", work / "encrypted.zip", False
    (work / "before.zip").write_bytes(b"#!/bin/sh\n" * 1000 + packed("inner.zip").read_bytes())
    yield "zip behind a script", work / "before.zip", True
    yield "zip with a nameless file", packed("nameless.zip", lambda made: made.writestr("/", b"x")), False
    yield (
        "zip of a megabyte that holds a gigabyte",
        packed("bomb.zip", lambda made: made.writestr("results.json", b"\0" * 2**30)),
        True,
    )
    yield (
        "zip with 100 folders",
        packed("many.zip", lambda made: [made.writestr(f"d{n}/", b"") for n in range(100)] and None),
        False,
    )
    with tarfile.open(work / "plain.zip", "w") as made:
        made.add(packed("x.zip"), "x.zip")
    yield "zip inside a tar under the name of zip", work / "plain.zip", True
    for name, kind in {
        "a pipe": tarfile.FIFOTYPE,
        "a sparse file": tarfile.GNUTYPE_SPARSE,
        "a folder": tarfile.DIRTYPE,
    }.items():
        path = work / f"{kind.hex()}.tar.gz"
        with tarfile.open(path, "w:gz") as made:
            for one, data in files.items():
                info = tarfile.TarInfo(one)
                info.size = len(data)
                info.type = kind if one == "submission.json" else tarfile.REGTYPE
                made.addfile(info, io.BytesIO(data))
        yield f"tar whose metadata are {name}", path, False
    with tarfile.open(work / "twice.tar.gz", "w:gz") as made:
        for one, data in files.items():
            info = tarfile.TarInfo(one)
            info.size, info.mtime, info.uid = len(data), -1, 2**40
            made.addfile(info, io.BytesIO(data))
    body = (work / "twice.tar.gz").read_bytes()
    yield "tar from before 1970", work / "twice.tar.gz", True
    (work / "double.tar.gz").write_bytes(body + body)
    yield "tar twice in a row", work / "double.tar.gz", True


def submitted(honest: Path, work: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """What comes of the submissions, each checked beside an honest one."""
    from kbench.leaderboard.board import check_all

    entry = Changed(honest, work)
    kinds = (tables, lines, descriptions, folders, archives)
    for name, path, may_pass in (one for kind in kinds for one in kind(entry)):
        began = time.monotonic()
        try:
            found = check_all([path, honest], None)
            alone = [flaw for flaw in found[str(path)].flaws if flaw.field != "name and version"]
            others = [flaw for flaw in found[str(honest)].flaws if flaw.field != "name and version"]
            told = f"refused: {alone[0].field}: {alone[0].message}" if alone else "taken"
            good = not others and (may_pass or bool(alone)) and told.isprintable()
        except Exception as error:  # noqa: BLE001 - what is looked for
            told, good = f"raised {type(error).__name__}: {error}"[:300], False
        result = {"told": told[:300], "good": good and time.monotonic() - began < SLOW_S}
        sys.stderr.write(f"entry: {name}: {json.dumps(result)}\n")
        yield name, result
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> None:
    """Try everything and write what came of it."""
    from kbench.leaderboard.board import SUBMISSIONS

    with tempfile.TemporaryDirectory() as base:
        honest, work = Path(base) / "honest", Path(base) / "entries"
        shutil.copytree(SUBMISSIONS / "benchmark-2-core" / "claude-zero-shot", honest)
        work.mkdir()
        found = dict(submitted(honest, work))
    sys.exit(bool(write(found, Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
