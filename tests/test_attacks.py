"""The attacks behind docs/results/faults.md: all of them every night, with each change a part, others every day."""

from __future__ import annotations

import datetime
import random
import subprocess
import sys
from pathlib import Path

import pytest
from beside import module_at

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


def test_surrogates_that_look_for_the_answers_score_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    from kbench.loaders.corpus.corpus import Corpus

    place = cheats.world(tmp_path)
    for name, value in cheats.variables(place).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    given = cheats.asked(Corpus.open(place["corpus"]))
    request.addfinalizer(lambda: [terminal.close() for terminal in cheats.LISTENING])
    for name in random.Random(SEED).sample(list(cheats.CHEATS), 4):
        (tmp_path / name).mkdir()
        found = cheats.try_cheat(name, place, tmp_path / name, given)
        if "--require-isolation" in (found["error"] or ""):
            pytest.skip(found["error"])
        assert found["good"], found
