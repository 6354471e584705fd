"""Hostile submissions: each is written to a folder by a function or a table, with what the check must say of it."""

import functools
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from submission_copy import Rows, submission_copy

Builder = Callable[[Path, Path], tuple[Path, str]]
"""(an honest submission, an empty folder) -> (the hostile one, a word its flaws must hold)."""


def zip_bomb(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(honest / "submission.json", "submission.json")
        with archive.open("forecasts.jsonl", "w", force_zip64=True) as stream:
            for _ in range(300):
                stream.write(b" " * (1 << 20))
    return path, "larger than"


def _archive(path: Path, *members: tuple[str, bytes]) -> Path:
    """An archive with members of these names and contents."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, data in members:
                packed.writestr(name, data)
        return path
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def link_in_archive(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "link.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("forecasts.parquet")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(info)
    return path, "plain files only"


def link_in_folder(honest: Path, to: Path) -> tuple[Path, str]:
    target = submission_copy(honest, to / "entry")
    (target / "forecasts.parquet").unlink()
    (target / "forecasts.parquet").symlink_to("/etc/hostname")
    return target, "symbolic link"


def cut_archive(honest: Path, to: Path) -> tuple[Path, str]:
    forecasts = (honest / "forecasts.parquet").read_bytes()
    path = _archive(to / "cut.tar.gz", ("forecasts.parquet", forecasts))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path, "cannot be read"


def gigabytes_of_header(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "header.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        info = tarfile.TarInfo("PaxHeader/x")
        info.type, info.size = tarfile.XHDTYPE, 1_500_000_000
        archive.fileobj.write(info.tobuf() + b"\0" * 10**6)
    return path, "no submission needs that"


def claimed_rows(honest: Path, to: Path) -> tuple[Path, str]:
    target = submission_copy(honest, to / "entry")
    table = pa.table({"query_id": pa.array(["0" * 32] * 5_000_001, pa.string())})
    pq.write_table(table, target / "forecasts.parquet", compression="zstd")
    return target, "rows"


def ten_billion_claimed_rows(honest: Path, to: Path) -> tuple[Path, str]:
    """A file of a few kilobytes whose footer claims ten billion rows, in the file, its group and its columns."""
    target, rows = submission_copy(honest, to / "entry"), 123_457
    table = pa.table({"query_id": pa.array(["0" * 32] * rows, pa.string())})
    pq.write_table(table, target / "forecasts.parquet", compression="zstd")
    data = (target / "forecasts.parquet").read_bytes()
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - size : -8].replace(_varint(2 * rows), _varint(2 * 10**10))
    (target / "forecasts.parquet").write_bytes(data[: -8 - size] + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return target, "10,000,000,000 rows"


def _varint(number: int) -> bytes:
    """A number as Parquet's footer writes it."""
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def wrong_footer(honest: Path, to: Path) -> tuple[Path, str]:
    target = submission_copy(honest, to / "entry")
    data = bytearray((target / "forecasts.parquet").read_bytes())
    data[-8:-4] = struct.pack("<I", 10 * len(data))
    (target / "forecasts.parquet").write_bytes(bytes(data))
    return target, "Parquet"


def foreign_parquet(honest: Path, to: Path) -> tuple[Path, str]:
    target = submission_copy(honest, to / "entry")
    pq.write_table(pa.table({"score": [1.0], "rank": [1]}), target / "forecasts.parquet")
    return target, "unknown column"


def overflowing_number(honest: Path, to: Path) -> tuple[Path, str]:
    target = submission_copy(honest, to / "entry", lambda rows: rows)
    text = (target / "forecasts.jsonl").read_text("utf-8")
    (target / "forecasts.jsonl").write_text(text.replace('"speedup": null', '"speedup": 1e400', 1), "utf-8")
    return target, "finite"


def key_twice(honest: Path, to: Path) -> tuple[Path, str]:
    target = submission_copy(honest, to / "entry")
    text = (target / "submission.json").read_text("utf-8").rstrip()
    (target / "submission.json").write_text(text[:-1] + ', "name": "other"}', "utf-8")
    return target, "twice"


ARCHIVES: dict[str, tuple[tuple[Any, ...], str]] = {
    "path_traversal": (("escape.zip", ("../../outside/submission.json", b"{}")), "outside the archive"),
    "absolute_path": (("absolute.tar.gz", ("/etc/submission.json", b"{}")), "outside the archive"),
    "file_twice": (("twice.tar.gz", ("one/submission.json", b"{}"), ("two/submission.json", b"{}")), "twice"),
    "many_members": (("many.zip", *((f"file{number}", b"") for number in range(1000))), "more than"),
}
"""The archive's name and its members."""
LINES: dict[str, tuple[Callable[[], bytes], str]] = {
    "one_endless_line": (lambda: b'{"query_id":[' + b"[]," * 25_000_000 + b"[]]}", "longer than"),
    "empty_lines": (lambda: b"\n" * 80_000_000, "lines"),
    "far_more_rows_than_queries": (
        lambda: (json.dumps({"query_id": "0" * 32}).encode() + b"\n") * 500_000, "one row per query and repeat",
    ),
}  # fmt: skip
"""Forecasts that are some hundred kilobytes in an archive, and need gigabytes where they are read without a bound."""
METADATA: dict[str, tuple[dict[str, Any], str]] = {
    "endless_total_seconds": ({"total_seconds": 1.7e308}, "total_seconds"),
    "astronomic_total_tokens": ({"total_tokens": 10**4000}, "total_tokens"),
    "no_tracks": ({"tracks": []}, "tracks is []"),
    "no_authors": ({"authors": []}, "authors is []"),
    "direction_trick": ({"organisation": "honest \u202egnp.exe"}, "organisation"),
    "direction_mark_in_link": ({"links": ["https://example.org/\u202egro.live"]}, "links"),
    "look_alike_link": ({"links": ["https://ex\u0430mple.org/"]}, "ASCII"),
    "zero_width_author": ({"authors": ["The kbench\u200b authors"]}, "cannot be seen"),
    "script_in_name": ({"name": "<script>alert(1)</script>"}, "name"),
    "script_link": ({"links": ["javascript:alert(1)"]}, "links"),
    "made_in_the_future": ({"created_at": "2999-01-01"}, "in the future"),
    "wrong_fingerprint": ({"dataset_fingerprint": "0" * 32}, "dataset_fingerprint"),
    "scores_instead_of_forecasts": ({"scores": {"rps": 0.0}}, "scores"),
    "repeats_unlike_stated": ({"repeats": 3}, "repeat"),
}
"""Fields of submission.json, and the word."""
JSON: dict[str, tuple[bytes, str]] = {
    "deep_json": (b"[" * 30_000 + b"]" * 30_000, "nested"),
    "huge_integer": (b'{"repeats": ' + b"9" * 20_000 + b"}", "number"),
    "not_utf8": (b'{"name": "\xff\xfe"}', "UTF-8"),
}
"""What submission.json holds instead."""
FIRST_ROW: dict[str, tuple[dict[str, Any], str]] = {
    "not_a_number": ({"probabilities": [float("nan")] * 8}, "finite"),
    "negative_probability": ({"probabilities": [-0.5, 1.5, 0, 0, 0, 0, 0, 0]}, "at least 0"),
    "sum_of_two": ({"probabilities": [0.25] * 8}, "sum to one"),
    "true_as_probability": ({"probabilities": [True, *[False] * 7]}, "line 1 holds true or false in probabilities"),
    "astronomic_tokens": ({"input_tokens": 2**62}, "at most 1,000,000,000"),
    "endless_seconds": ({"elapsed_s": 1.7e308}, "at most 1,000,000"),
    "negative_tokens": ({"output_tokens": -1}, "at least 0"),
    "speedup_of_zero": ({"speedup": 0.0}, "more than 0"),
    "repeat_in_the_millions": ({"repeat": 2_000_000}, "at most 99"),
}
"""Fields of the first forecast."""
ROWS: dict[str, tuple[Callable[[Rows], Rows], str]] = {
    "duplicate_queries": (lambda rows: [*rows, rows[0]], "twice"),
    "missing_queries": (lambda rows: rows[1:], "missing"),
    "unknown_queries": (lambda rows: [*rows, rows[0] | {"query_id": "f" * 32}], "unknown"),
}


def _with_members(honest: Path, to: Path, change: tuple[Any, ...], word: str) -> tuple[Path, str]:
    return _archive(to / change[0], *change[1:]), word


def _with_lines(honest: Path, to: Path, change: Callable[[], bytes], word: str) -> tuple[Path, str]:
    about = ("submission.json", (honest / "submission.json").read_bytes())
    return _archive(to / "lines.tar.gz", about, ("forecasts.jsonl", change())), word


def _with_metadata(honest: Path, to: Path, change: dict[str, Any], word: str) -> tuple[Path, str]:
    return submission_copy(honest, to / "entry", **change), word


def _with_rows(honest: Path, to: Path, change: Callable[[Rows], Rows] | dict[str, Any], word: str) -> tuple[Path, str]:
    """Other rows, or another first row."""
    made = change if callable(change) else lambda rows: [rows[0] | change, *rows[1:]]
    return submission_copy(honest, to / "entry", made), word


def _with_json(honest: Path, to: Path, change: bytes, word: str) -> tuple[Path, str]:
    target = submission_copy(honest, to / "entry")
    (target / "submission.json").write_bytes(change)
    return target, word


TABLES: tuple[tuple[Callable[..., tuple[Path, str]], dict[str, Any]], ...] = (
    (_with_members, ARCHIVES), (_with_lines, LINES), (_with_metadata, METADATA),
    (_with_json, JSON), (_with_rows, FIRST_ROW), (_with_rows, ROWS),
)  # fmt: skip
WRITTEN = (
    zip_bomb, link_in_archive, link_in_folder, cut_archive, gigabytes_of_header, claimed_rows, ten_billion_claimed_rows,
    wrong_footer, foreign_parquet, overflowing_number, key_twice,
)  # fmt: skip
BUILDERS: dict[str, Builder] = {builder.__name__: builder for builder in WRITTEN} | {
    name: functools.partial(write, change=change, word=word)
    for write, table in TABLES
    for name, (change, word) in table.items()
}
