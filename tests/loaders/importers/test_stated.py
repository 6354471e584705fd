"""What a file states wins over --gpu, --unit and --license; an option that says otherwise is noted, never obeyed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.hub.repository import refuse_closed
from kbench.loaders.importers import formats
from kbench.loaders.importers.reader import Report
from kbench.schemas import DataError

Run = Callable[..., tuple[Path, Report]]
STATING = [name for name in formats.FORMATS if name not in ("cuda-l1", "openevolve", "table")]
"""Formats whose files name a GPU and a unit; CUDA-L1 and OpenEvolve state neither, and of tables the caller says it."""
OTHER = {"gpu": "NVIDIA Other", "unit": "ns"}


def facts(folder: Path) -> list[tuple[Any, ...]]:
    rows = load(folder).to_arrow().to_pylist()
    return sorted((row["source"], str(row["gpu"]), str(row["runtime_us"])) for row in rows)


@pytest.mark.parametrize("name", STATING)
def test_a_stated_gpu_and_unit_are_kept_and_the_contradiction_is_counted(
    foreign: Any, run_import: Run, tmp_path: Path, name: str
) -> None:
    make, file = foreign.MAKERS[name]
    path = make(tmp_path / file)
    plain, _ = run_import(None, path)
    plain = plain.rename(tmp_path / "plain")
    told, report = run_import(None, path, **OTHER)
    stated = [row for row in facts(plain) if row[1] != "None"]
    assert stated
    assert [row for row in facts(told) if row[1] != OTHER["gpu"]] == stated
    notes = {note.split(" was not used")[0]: count for note, count in report.notes.items() if "was not used" in note}
    assert set(notes) == {"--gpu NVIDIA Other", "--unit ns"}
    assert all(count > 0 for count in notes.values())


@pytest.mark.parametrize("name", STATING)
def test_an_option_that_agrees_or_fills_a_gap_is_no_contradiction(
    foreign: Any, run_import: Run, tmp_path: Path, name: str
) -> None:
    make, file = foreign.MAKERS[name]
    folder, report = run_import(None, make(tmp_path / file), license="MIT")
    assert {row["license"] for row in load(folder).to_arrow().to_pylist()} == {"MIT"}
    assert not [note for note in report.notes if "was not used" in note]


def test_a_unit_nobody_knows_is_refused_whatever_the_caller_says(foreign: Any, run_import: Run, tmp_path: Path) -> None:
    path = foreign.t4(tmp_path / "r.json")
    path.write_text(path.read_text().replace('"microseconds"', '"fortnights"'))
    with pytest.raises(DataError, match="unit is 'fortnights': must be one of"):
        run_import("t4", path, unit="us")


def test_a_stated_licence_cannot_be_overruled_to_push_a_row(foreign: Any, run_import: Run, tmp_path: Path) -> None:
    rows = [
        {"code": foreign.TRITON, "score": 0.001, "leaderboard": "trimul", "license": "Proprietary"},
        {"code": foreign.CUDA, "score": 0.001, "leaderboard": "trimul", "license": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "s.parquet")
    folder, report = run_import("gpu-mode", tmp_path / "s.parquet", license="MIT")
    assert sorted(load(folder).to_arrow().column("license").to_pylist()) == ["MIT", "Proprietary"]
    assert report.notes["--license MIT was not used: 'Proprietary' is stated"] == 1
    with pytest.raises(DataError, match="their licence is 'Proprietary', which is not known to allow it"):
        refuse_closed(Corpus.open(folder))


def test_searches_of_the_published_release_keep_the_gpu_that_its_pairs_name(
    release_files: list[Path], imported: tuple[Path, Report], run_import: Run
) -> None:
    told, report = run_import(None, *release_files, gpu="NVIDIA Other")
    known = {row[0]: row[1] for row in facts(imported[0]) if row[1] != "None"}
    assert known
    assert {source: gpu for source, gpu, _ in facts(told) if source in known} == known
    assert any(note.startswith("--gpu NVIDIA Other was not used") for note in report.notes)
