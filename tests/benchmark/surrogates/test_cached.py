"""The author's loop: a file to begin with, and results that an edit elsewhere leaves alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbench.benchmark.surrogates.cached import FOLDER, MOST_FILES, _keep
from kbench.cli import cli

ROOT = Path(__file__).parents[3]
MODEL = """
import functools, statistics
import kbench
from kbench.benchmark.surrogates import cached

cached.WORTH_S = 0.0

SCALE = 2

@functools.cache
def helper(x):
    return x * SCALE

@kbench.cached
def slow(values):
    print("computed", end=" ")
    return [helper(x) for x in values]

@kbench.cached
def unpicklable(values):
    print("computed", end=" ")
    return lambda: values

def fast():
    return 1

for number in range({calls}):
    slow([number])
"""


def computed(folder: Path, code: str) -> int:
    """How often a file's cached functions were computed."""
    (folder / "model.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "model.py"], cwd=folder, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    return done.stdout.count("computed")


def test_a_result_stays_until_the_function_or_what_it_uses_changes(tmp_path: Path) -> None:
    code = MODEL.format(calls=2)
    assert computed(tmp_path, code) == 2
    assert computed(tmp_path, code.replace("return 1", "return 2")) == 0
    for old, new in (("x * SCALE", "x + SCALE"), ("SCALE = 2", "SCALE = 3"), ("for x in", "for x in 1 *")):
        assert computed(tmp_path, code.replace(old, new)) == 2, new
    assert computed(tmp_path, code.replace("slow([number])", "unpicklable([1])")) == 2
    for file in (tmp_path / FOLDER).glob("*.pickle"):
        file.write_bytes(b"damaged")
    assert computed(tmp_path, code) == 2
    assert computed(tmp_path, MODEL.format(calls=MOST_FILES + 5)) == MOST_FILES + 3
    assert len(list((tmp_path / FOLDER).glob("*.pickle"))) == MOST_FILES


def test_what_takes_no_time_is_not_kept(tmp_path: Path) -> None:
    code = MODEL.format(calls=2).replace("cached.WORTH_S = 0.0", "")
    assert (computed(tmp_path, code), computed(tmp_path, code)) == (2, 2)


def test_results_take_no_more_than_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbench.benchmark.surrogates.cached.MOST_BYTES", 2500)
    for number in range(5):
        file = tmp_path / FOLDER / f"{number}.pickle"
        _keep(file, bytes(1000))
        os.utime(file, (number, number))
    assert sorted(path.name for path in (tmp_path / FOLDER).glob("*.pickle")) == ["3.pickle", "4.pickle"]
    _keep(tmp_path / FOLDER / "large.pickle", bytes(5000))
    assert [path.name for path in (tmp_path / FOLDER).glob("*.pickle")] == ["large.pickle"]


def test_a_new_surrogate_is_the_example_under_its_own_name(tmp_path: Path) -> None:
    file = tmp_path / "better.py"
    done = CliRunner().invoke(cli, ["surrogate", "new", str(file), "--json"])
    assert json.loads(done.stdout)["try"] == f"kbench evaluate --surrogate {file} --split validation"
    example = (ROOT / "examples" / "my_model.py").read_text("utf-8")
    assert file.read_text("utf-8") == example.replace("my_model.py", "better.py")


@pytest.mark.parametrize(
    ("name", "said"), [("taken.py", "exists"), ("model", "such as my_model.py"), ("my-model.py", "such as my_model.py"),
                       ("no/where.py", "does not exist")]
)  # fmt: skip
def test_a_new_surrogate_is_refused_where_it_cannot_be(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "taken.py").write_text("mine")
    assert said in str(CliRunner().invoke(cli, ["surrogate", "new", str(tmp_path / name)]).exception)
    assert (tmp_path / "taken.py").read_text() == "mine"
