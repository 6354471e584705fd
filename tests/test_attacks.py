"""The attacks behind docs/results/faults.md: all of them every night, with each change a part."""

import datetime
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from beside import module_at

from kbench.loaders.corpus.corpus import Corpus

FAULTS = Path(__file__).parent / "support" / "faults"
SEED = datetime.date.today().toordinal()
SCRIPTS = {"kills": (), "commands": (), "entries": ("800",), "endpoints": (), "tampering": (), "cheats": ()}
commands, cheats = (module_at(FAULTS / f"{name}.py") for name in ("commands", "cheats"))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCRIPTS)
def test_an_attack_finds_nothing(name: str, tmp_path: Path) -> None:
    command = [sys.executable, FAULTS / f"{name}.py", tmp_path / "found.json", *SCRIPTS[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_killed_and_concurrent_commands_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, FAULTS / "commands.py", tmp_path / "found.json", "0.1", str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A corpus with copies of its answers wherever kbench puts them."""
    made: dict[str, str] = cheats.world(tmp_path)
    for name, value in cheats.variables(made).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    yield made
    for terminal in cheats.LISTENING:
        terminal.close()


def test_surrogates_find_the_answers_where_nothing_confines_them(place: dict[str, str], tmp_path: Path) -> None:
    assert not cheats.readers_that_fail_alone(place, tmp_path, cheats.asked(Corpus.open(place["corpus"])))


def test_surrogates_that_look_for_the_answers_score_nothing(place: dict[str, str], tmp_path: Path) -> None:
    given = cheats.asked(Corpus.open(place["corpus"]))
    for number, name in enumerate(cheats.CHEATS):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = cheats.try_cheat(name, place, folder, given)
        if "--require-isolation" in (found["error"] or ""):
            pytest.skip(found["error"])
        assert found["good"], found
