from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from kbench.generation.log.log import read_log
from kbench.generation.log.pack import check_target, pack
from kbench.schemas import InfrastructureError, UserError

from .test_log import entries, write


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
