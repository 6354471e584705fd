"""Hostile submissions: each builder writes one to a folder and says what the check must say of it."""

from __future__ import annotations

import io
import json
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Builder = Callable[[Path, Path], tuple[Path, str]]
"""(an honest submission, an empty folder) -> (the hostile one, a word its flaws must hold)."""


def _copy(honest: Path, to: Path) -> Path:
    target = to / "entry"
    target.mkdir()
    for name in ("submission.json", "forecasts.parquet"):
        shutil.copy(honest / name, target / name)
    return target


def _with_metadata(honest: Path, to: Path, **changes: Any) -> Path:
    target = _copy(honest, to)
    data = json.loads((target / "submission.json").read_text("utf-8")) | changes
    (target / "submission.json").write_text(json.dumps(data), "utf-8")
    return target


def _with_rows(honest: Path, to: Path, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Path:
    target = _copy(honest, to)
    table = pq.read_table(target / "forecasts.parquet")
    (target / "forecasts.parquet").unlink()
    lines = [json.dumps(row) for row in edit(table.to_pylist())]
    (target / "forecasts.jsonl").write_text("\n".join(lines), "utf-8")
    return target


def zip_bomb(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(honest / "submission.json", "submission.json")
        with archive.open("forecasts.jsonl", "w", force_zip64=True) as stream:
            for _ in range(300):
                stream.write(b" " * (1 << 20))
    return path, "larger than"


def path_traversal(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "escape.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../outside/submission.json", "{}")
    return path, "outside the archive"


def absolute_path(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "absolute.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("/etc/submission.json")
        info.size = 2
        archive.addfile(info, io.BytesIO(b"{}"))
    return path, "outside the archive"


def link_in_archive(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "link.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("forecasts.parquet")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(info)
    return path, "plain files only"


def link_in_folder(honest: Path, to: Path) -> tuple[Path, str]:
    target = _copy(honest, to)
    (target / "forecasts.parquet").unlink()
    (target / "forecasts.parquet").symlink_to("/etc/hostname")
    return target, "symbolic link"


def file_twice_in_archive(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "twice.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(honest / "submission.json", "one/submission.json")
        archive.add(honest / "submission.json", "two/submission.json")
    return path, "twice"


def many_members(honest: Path, to: Path) -> tuple[Path, str]:
    path = to / "many.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(1000):
            archive.writestr(f"file{number}", "")
    return path, "more than"


def cut_archive(honest: Path, to: Path) -> tuple[Path, str]:
    whole = to / "whole.tar.gz"
    with tarfile.open(whole, "w:gz") as archive:
        archive.add(honest / "forecasts.parquet", "forecasts.parquet")
    path = to / "cut.tar.gz"
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    return path, "cannot be read"


def claimed_rows(honest: Path, to: Path) -> tuple[Path, str]:
    target = _copy(honest, to)
    table = pa.table({"query_id": pa.array(["0" * 32] * 5_000_001, pa.string())})
    pq.write_table(table, target / "forecasts.parquet", compression="zstd")
    return target, "rows"


def ten_billion_claimed_rows(honest: Path, to: Path) -> tuple[Path, str]:
    """A file of a few kilobytes whose footer claims ten billion rows, in the file, its group and its columns."""
    target, rows = _copy(honest, to), 123_457
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
    target = _copy(honest, to)
    data = bytearray((target / "forecasts.parquet").read_bytes())
    data[-8:-4] = struct.pack("<I", 10 * len(data))
    (target / "forecasts.parquet").write_bytes(bytes(data))
    return target, "Parquet"


def foreign_parquet(honest: Path, to: Path) -> tuple[Path, str]:
    target = _copy(honest, to)
    pq.write_table(pa.table({"score": [1.0], "rank": [1]}), target / "forecasts.parquet")
    return target, "unknown column"


def deep_json(honest: Path, to: Path) -> tuple[Path, str]:
    target = _copy(honest, to)
    (target / "submission.json").write_text("[" * 30_000 + "]" * 30_000, "utf-8")
    return target, "nested"


def huge_integer(honest: Path, to: Path) -> tuple[Path, str]:
    target = _copy(honest, to)
    (target / "submission.json").write_text('{"repeats": ' + "9" * 20_000 + "}", "utf-8")
    return target, "number"


def not_a_number(honest: Path, to: Path) -> tuple[Path, str]:
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0]["probabilities"] = [float("nan")] * 8
        return rows

    return _with_rows(honest, to, edit), "finite"


def overflowing_number(honest: Path, to: Path) -> tuple[Path, str]:
    target = _with_rows(honest, to, lambda rows: rows)
    text = (target / "forecasts.jsonl").read_text("utf-8")
    (target / "forecasts.jsonl").write_text(text.replace('"speedup": null', '"speedup": 1e400', 1), "utf-8")
    return target, "finite"


def negative_probability(honest: Path, to: Path) -> tuple[Path, str]:
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0]["probabilities"] = [-0.5, 1.5, 0, 0, 0, 0, 0, 0]
        return rows

    return _with_rows(honest, to, edit), "at least 0"


def sum_of_two(honest: Path, to: Path) -> tuple[Path, str]:
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0]["probabilities"] = [0.25] * 8
        return rows

    return _with_rows(honest, to, edit), "sum to one"


def _with_value(honest: Path, to: Path, field: str, value: Any) -> Path:
    return _with_rows(honest, to, lambda rows: [rows[0] | {field: value}, *rows[1:]])


def astronomic_tokens(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_value(honest, to, "input_tokens", 2**62), "at most 1,000,000,000"


def endless_seconds(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_value(honest, to, "elapsed_s", 1.7e308), "at most 1,000,000"


def negative_tokens(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_value(honest, to, "output_tokens", -1), "at least 0"


def speedup_of_zero(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_value(honest, to, "speedup", 0.0), "more than 0"


def repeat_in_the_millions(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_value(honest, to, "repeat", 2_000_000), "at most 99"


def endless_total_seconds(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, total_seconds=1.7e308), "total_seconds"


def astronomic_total_tokens(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, total_tokens=10**4000), "total_tokens"


def no_tracks(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, tracks=[]), "tracks is []"


def no_authors(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, authors=[]), "authors is []"


def _packed_lines(honest: Path, to: Path, data: bytes) -> Path:
    """An archive of some hundred kilobytes whose lines need gigabytes where they are read without a bound."""
    path = to / "lines.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(honest / "submission.json", "submission.json")
        info = tarfile.TarInfo("forecasts.jsonl")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return path


def one_endless_line(honest: Path, to: Path) -> tuple[Path, str]:
    return _packed_lines(honest, to, b'{"query_id":[' + b"[]," * 40_000_000 + b"[]]}"), "longer than"


def empty_lines(honest: Path, to: Path) -> tuple[Path, str]:
    return _packed_lines(honest, to, b"\n" * 120_000_000), "lines"


def far_more_rows_than_queries(honest: Path, to: Path) -> tuple[Path, str]:
    row = json.dumps({"query_id": "0" * 32}).encode() + b"\n"
    return _packed_lines(honest, to, row * 500_000), "one row per query and repeat"


def direction_trick(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, organisation="honest \u202egnp.exe"), "organisation"


def direction_mark_in_link(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, links=["https://example.org/\u202egro.live"]), "links"


def look_alike_link(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, links=["https://ex\u0430mple.org/"]), "ASCII"


def zero_width_author(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, authors=["The kbench\u200b authors"]), "cannot be seen"


def script_in_name(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, name="<script>alert(1)</script>"), "name"


def script_link(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, links=["javascript:alert(1)"]), "links"


def duplicate_queries(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_rows(honest, to, lambda rows: [*rows, rows[0]]), "twice"


def missing_queries(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_rows(honest, to, lambda rows: rows[1:]), "missing"


def unknown_queries(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_rows(honest, to, lambda rows: [*rows, rows[0] | {"query_id": "f" * 32}]), "unknown"


def wrong_fingerprint(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, dataset_fingerprint="0" * 32), "dataset_fingerprint"


def scores_instead_of_forecasts(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, scores={"rps": 0.0}), "scores"


def repeats_unlike_stated(honest: Path, to: Path) -> tuple[Path, str]:
    return _with_metadata(honest, to, repeats=3), "repeat"


def key_twice(honest: Path, to: Path) -> tuple[Path, str]:
    target = _copy(honest, to)
    text = (target / "submission.json").read_text("utf-8").rstrip()
    (target / "submission.json").write_text(text[:-1] + ', "name": "other"}', "utf-8")
    return target, "twice"


def not_utf8(honest: Path, to: Path) -> tuple[Path, str]:
    target = _copy(honest, to)
    (target / "submission.json").write_bytes(b'{"name": "\xff\xfe"}')
    return target, "UTF-8"


BUILDERS: tuple[Builder, ...] = (
    zip_bomb, path_traversal, absolute_path, link_in_archive, link_in_folder, file_twice_in_archive, many_members,
    cut_archive, claimed_rows, ten_billion_claimed_rows, wrong_footer, foreign_parquet, deep_json, huge_integer,
    not_a_number,
    overflowing_number, negative_probability, sum_of_two, direction_trick, direction_mark_in_link,
    look_alike_link, zero_width_author, script_in_name, script_link,
    duplicate_queries, missing_queries, unknown_queries, wrong_fingerprint, scores_instead_of_forecasts,
    repeats_unlike_stated, key_twice, not_utf8, astronomic_tokens, endless_seconds, negative_tokens, speedup_of_zero,
    repeat_in_the_millions, endless_total_seconds, astronomic_total_tokens, no_tracks, no_authors, one_endless_line,
    empty_lines, far_more_rows_than_queries,
)  # fmt: skip
