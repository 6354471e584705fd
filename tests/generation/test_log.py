from __future__ import annotations

import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kbench.generation.log.entry import LogEntry
from kbench.generation.log.log import LogWriter, read_log
from kbench.schemas import DataError, InfrastructureError, UserError


def entries(count: int, run_id: str = "a") -> list[LogEntry]:
    return [
        LogEntry(run_id, i, "step_completed", i, "2026-01-01T00:00:00.000Z", {"text": "é\n" * i}) for i in range(count)
    ]


def write(folder: Path, rows: list[LogEntry]) -> bytes:
    with LogWriter(folder) as log:
        log.append(rows)
    return (folder / "events.jsonl").read_bytes()


def test_what_is_appended_reads_back_equal(tmp_path: Path) -> None:
    write(tmp_path, entries(5))
    assert list(read_log(tmp_path)) == entries(5)


def test_a_log_cut_at_any_byte_opens_with_whole_lines_and_continues(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", entries(6))
    lines = whole.splitlines(keepends=True)
    for cut in random.Random(0).sample(range(len(whole)), 60):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(whole[:cut])
        kept = len(list(read_log(folder)))
        assert sum(map(len, lines[:kept])) <= cut
        assert sum(map(len, lines[: kept + 1])) > cut
        assert write(folder, entries(6)[kept:]) == whole


def test_a_last_line_of_garbage_is_cut_off(tmp_path: Path) -> None:
    whole = write(tmp_path, entries(3))
    with (tmp_path / "events.jsonl").open("ab") as stream:
        stream.write(b"\x00" * 40 + b"\n")
    assert len(list(read_log(tmp_path))) == 3
    assert write(tmp_path, []) == whole


def test_damage_in_the_middle_is_refused_with_line_and_offset(tmp_path: Path) -> None:
    whole = write(tmp_path, entries(4))
    lines = whole.splitlines(keepends=True)
    lines[1] = b'{"at": 1}\n'
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(DataError, match=rf"line 2 at byte {len(lines[0])} "):
        list(read_log(tmp_path))
    with pytest.raises(DataError, match="line 2"):
        LogWriter(tmp_path)


def test_bytes_that_are_not_utf8_in_the_middle_are_refused(tmp_path: Path) -> None:
    lines = write(tmp_path, entries(3)).splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_bytes(lines[0] + b"\xff\xfe\n" + lines[2])
    with pytest.raises(DataError, match=r"line 2 at byte .* is not UTF-8"):
        list(read_log(tmp_path))


def test_no_flipped_bit_is_accepted(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", entries(5))
    rng = random.Random(0)
    (tmp_path / "events.jsonl").touch()
    for at in rng.sample(range(len(whole)), 400):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        (tmp_path / "events.jsonl").write_bytes(damaged)
        with pytest.raises(DataError, match=r"events\.jsonl"):
            list(read_log(tmp_path))


def test_a_log_without_hashes_is_read_and_goes_on_with_them(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("".join(entry.line() for entry in entries(3)))
    write(tmp_path, entries(5)[3:])
    assert list(read_log(tmp_path)) == entries(5)
    assert (tmp_path / "events.jsonl").read_text().count('"sum":') == 2


def test_a_missing_line_is_noticed_by_its_index(tmp_path: Path) -> None:
    lines = write(tmp_path, entries(4)).splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines[:1] + lines[2:]))
    with pytest.raises(DataError, match="jumps to index 2, expected 1"):
        list(read_log(tmp_path))


def test_two_writers_of_one_log_are_refused(tmp_path: Path) -> None:
    with LogWriter(tmp_path), pytest.raises(UserError, match="another run"):
        LogWriter(tmp_path)


def test_a_folder_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no search log"):
        list(read_log(tmp_path))


def test_a_batch_is_on_disk_before_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd))[1])
    with LogWriter(tmp_path) as log:
        log.append(entries(3))
        assert synced == [(tmp_path / "events.jsonl").stat().st_size]


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"", lambda data: b"\0" * 40 + data[40:]])
def test_a_damaged_compressed_part_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    part = tmp_path / "events-000.jsonl.xz"
    part.write_bytes(damage(lzma.compress("".join(entry.line() for entry in entries(20)).encode())))
    with pytest.raises(DataError, match=rf"{part} cannot be decompressed"):
        list(read_log(tmp_path))


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match=rf"{folder}.* cannot be written .*; choose another folder for --out"):
            LogWriter(folder)


def test_a_full_disk_is_named_with_the_file_and_the_log_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write(tmp_path / "whole", entries(6))
    write(tmp_path / "run", entries(3))
    real = os.write
    room = [100]

    def filling(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = real(descriptor, data[: room[0]])
        room[0] -= taken
        return taken

    with monkeypatch.context() as patch, LogWriter(tmp_path / "run") as log:
        patch.setattr(os, "write", filling)
        expected = rf"{log.path} cannot be written \(No space left on device\).*it goes on from what is there"
        with pytest.raises(InfrastructureError, match=expected):
            log.append(entries(6)[3:])
    kept = len(list(read_log(tmp_path / "run")))
    assert write(tmp_path / "run", entries(6)[kept:]) == whole
