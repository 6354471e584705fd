"""The recipes of docs/extend.md, followed to the letter in a copy of the repository."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extend.md"
FOLDERS = ("schemas", "loaders", "benchmark", "harness", "generation", "leaderboard")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def recipes() -> dict[str, list[tuple[str, str, str]]]:
    """The blocks of each recipe, as (language, title, text), by the recipe's heading."""
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    return {section.split("\n", 1)[0]: BLOCK.findall(section) for section in sections}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources that may be changed; the dataset is only read and stays where it is."""
    target = tmp_path_factory.mktemp("checkout")
    skipped = shutil.ignore_patterns("__pycache__", "dataset", "submissions")
    for folder in (*FOLDERS, "examples"):
        shutil.copytree(ROOT / folder, target / folder, ignore=skipped)
    (target / "benchmark" / "dataset").symlink_to(ROOT / "benchmark" / "dataset")
    package = target / "src" / "kbench"
    package.mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "cli.py"):
        shutil.copy(ROOT / "src" / "kbench" / name, package / name)
    for folder in FOLDERS:
        (package / folder).symlink_to(Path("..") / ".." / folder)
    return target


def patch(path: Path, diff: str) -> None:
    """Apply a diff without line numbers; what it replaces must be there exactly once."""
    lines = diff.splitlines()
    old = "\n".join(line[1:] for line in lines if not line.startswith("+"))
    new = "\n".join(line[1:] for line in lines if not line.startswith("-"))
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name} has {text.count(old)} times: {old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def commands(block: str) -> Iterator[list[str]]:
    """The commands of a console block, with this interpreter."""
    for line in block.splitlines():
        if line.startswith("$ "):
            words = shlex.split(line[2:])
            stands_for = {"kbench": [sys.executable, "-m", "kbench"], "python": [sys.executable]}
            yield stands_for.get(words[0], words[:1]) + words[1:]


def follow(recipe: str, copy: Path) -> str:
    """Do what a recipe says, block after block; the output of its last command."""
    said = ""
    for language, title, text in recipes()[recipe]:
        if language == "diff":
            patch(copy / title, text)
        elif title:
            (copy / title).parent.mkdir(parents=True, exist_ok=True)
            (copy / title).write_text(text, encoding="utf-8")
        elif language == "console":
            for command in commands(text):
                environment = {"PYTHONPATH": str(copy / "src"), "PATH": "/usr/bin:/bin", "HOME": str(copy)}
                done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
                said = done.stdout
    return said


def test_every_extension_point_has_a_recipe() -> None:
    expected = {"A surrogate", "A problem", "A metric", "An importer", "A genome family", "A search method"}
    assert set(recipes()) == expected


def test_a_surrogate(copy: Path) -> None:
    found = json.loads(follow("A surrogate", copy))
    assert found["surrogate"] == "even"
    assert found["tracks"]["forecast"]["accuracy"]["value"] == pytest.approx(1 / 8)


def test_a_problem(copy: Path) -> None:
    assert "1 of 1 problems pass" in follow("A problem", copy)


def test_a_metric(copy: Path) -> None:
    found = json.loads(follow("A metric", copy))
    assert -1 <= found["tracks"]["forecast"]["overconfidence"]["value"] <= 1


def test_an_importer(copy: Path) -> None:
    said = follow("An importer", copy)
    assert '"scale"' in said
    assert "250" in said


def test_a_genome_family(copy: Path) -> None:
    assert '"status": "ok"' in follow("A genome family", copy)
    assert "tl.maximum" in (copy / "clamped.py").read_text()


def test_a_search_method(copy: Path) -> None:
    kernels, best = follow("A search method", copy).split()
    assert int(kernels) == 16
    assert float(best) > 0
