from __future__ import annotations

import dataclasses
import json
import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kbench.generation.log import (
    LogEntry,
    LogWriter,
    check_target,
    pack,
    read_environments,
    read_log,
    record_environments,
)
from kbench.loaders.storage.lines import sealed
from kbench.schemas import DataError, InfrastructureError, UserError
from kbench.schemas.ids import content_hash

from .test_executors import ENVIRONMENT

OTHER = dataclasses.replace(ENVIRONMENT, env_id=content_hash("another"))


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


def test_packed_parts_read_back_as_the_same_log(tmp_path: Path) -> None:
    write(tmp_path / "run", entries(50))
    files = pack(tmp_path / "run", tmp_path / "packed", part_bytes=600)
    assert len(files) > 3
    assert list(read_log(tmp_path / "packed")) == entries(50)


def test_a_packed_log_is_continued_in_a_live_file(tmp_path: Path) -> None:
    write(tmp_path / "run", entries(10))
    pack(tmp_path / "run", tmp_path / "packed")
    write(tmp_path / "packed", entries(12)[10:])
    assert list(read_log(tmp_path / "packed")) == entries(12)


def test_an_earlier_pack_of_the_same_log_is_replaced(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "packed"
    write(run, entries(30))
    pack(run, out, part_bytes=600)
    write(run, entries(60)[30:])
    check_target(run, out)
    pack(run, out, part_bytes=600)
    assert list(read_log(out)) == entries(60)
    pack(run, out)
    assert [path.name for path in sorted(out.iterdir())] == ["events-000.jsonl.xz"]
    assert list(read_log(out)) == entries(60)


def test_a_pack_of_another_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "run", entries(10))
    write(tmp_path / "other", entries(10, "b"))
    (before,) = pack(tmp_path / "other", tmp_path / "packed")
    content = before.read_bytes()
    for folder in (tmp_path / "run", tmp_path / "not yet"):
        with pytest.raises(UserError, match="already holds another log"):
            check_target(folder, tmp_path / "packed")
    with pytest.raises(UserError, match="already holds another log"):
        pack(tmp_path / "run", tmp_path / "packed")
    assert before.read_bytes() == content


def test_a_pack_that_goes_on_further_than_the_log_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "run", entries(10))
    pack(tmp_path / "run", tmp_path / "packed")
    write(tmp_path / "short", entries(5))
    with pytest.raises(UserError, match="already holds another log"):
        check_target(tmp_path / "short", tmp_path / "packed")


def test_another_live_log_is_no_place_for_a_pack(tmp_path: Path) -> None:
    for name in ("run", "other"):
        write(tmp_path / name, entries(10))
    with pytest.raises(UserError, match="holds the live log"):
        pack(tmp_path / "run", tmp_path / "other")


def test_the_run_folder_by_any_name_is_no_place_for_its_pack_even_before_it_exists(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "link").symlink_to(run)
    for out in (run, tmp_path / "x" / ".." / "run", tmp_path / "link"):
        with pytest.raises(UserError, match="is the --out folder itself"):
            check_target(run, out)
    assert not run.exists()


def test_a_path_that_cannot_be_a_folder_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("file", "file/below", "n" * 300, "loop", "loop/below"):
        with pytest.raises(UserError, match=r"^'.*(is not a folder|cannot be made).*for --pack$"):
            check_target(tmp_path / "run", tmp_path / name)
    # Root may write anywhere, so the answer to the question is made up.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(UserError, match="cannot be read and written"):
        check_target(tmp_path / "run", tmp_path)


def test_a_target_that_can_be_is_made(tmp_path: Path) -> None:
    check_target(tmp_path / "run", tmp_path / "deep" / "packed")
    assert (tmp_path / "deep" / "packed").is_dir()


def test_packing_that_fails_leaves_no_half_written_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run", entries(30))
    pack(tmp_path / "run", tmp_path / "packed", part_bytes=600)
    before = {path.name: path.read_bytes() for path in (tmp_path / "packed").iterdir()}
    write(tmp_path / "run", entries(60)[30:])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InfrastructureError, match=r"packed cannot be packed \(No space left.*can be resumed"):
        pack(tmp_path / "run", tmp_path / "packed", part_bytes=600)
    assert {path.name: path.read_bytes() for path in (tmp_path / "packed").iterdir()} == before


def test_a_torn_last_line_is_not_packed(tmp_path: Path) -> None:
    whole = write(tmp_path / "run", entries(10))
    with (tmp_path / "run" / "events.jsonl").open("ab") as stream:
        stream.write(b'{"at":')
    (part,) = pack(tmp_path / "run", tmp_path / "packed")
    assert lzma.decompress(part.read_bytes()) == whole


def test_each_environment_is_kept_once(tmp_path: Path) -> None:
    for current in ([ENVIRONMENT], [ENVIRONMENT, OTHER], [OTHER]):
        record_environments(tmp_path, current)
    assert read_environments(tmp_path) == [ENVIRONMENT, OTHER]


def test_environments_cut_at_any_byte_are_read_and_completed(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT, OTHER])
    path = tmp_path / "environments.jsonl"
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        assert read_environments(tmp_path) == [ENVIRONMENT, OTHER][: whole[:cut].count(b"\n")]
        record_environments(tmp_path, [ENVIRONMENT, OTHER])
        assert path.read_bytes() == whole


def test_damaged_environments_are_refused_with_their_line(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT, OTHER])
    path = tmp_path / "environments.jsonl"
    path.write_bytes(b"{\n" + path.read_bytes())
    with pytest.raises(DataError, match=r"environments.jsonl: line 1 at byte 0 is not JSON"):
        read_environments(tmp_path)


def test_a_last_line_that_is_json_and_no_environment_is_refused_not_cut_off(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT])
    with (tmp_path / "environments.jsonl").open("ab") as stream:
        stream.write(sealed(json.dumps({"env_id": content_hash("x"), "colour": "green"})))
    with pytest.raises(DataError, match=r"environments.jsonl line 2 has unknown field 'colour'"):
        record_environments(tmp_path, [OTHER])


def test_an_environment_is_on_disk_before_its_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    record_environments(tmp_path, [ENVIRONMENT])
    assert synced == [(tmp_path / "environments.jsonl").stat().st_size]


def test_the_environments_of_a_log_file_lie_beside_it(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT])
    (tmp_path / "events.jsonl").write_text("")
    assert read_environments(tmp_path / "events.jsonl") == [ENVIRONMENT]
