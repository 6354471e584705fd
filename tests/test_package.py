"""The package as a whole: what the wheel holds, what importing costs, versions that agree, imports that go one way."""

import importlib
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import kbench
from kbench.cli import COMMANDS, cli
from kbench.loaders.card.provenance import SHEET
from kbench.schemas import RECORD_TYPES

ROOT = Path(__file__).parents[1]
DATASET = ROOT / "benchmark" / "dataset"
FOLDERS = ("benchmark", "loaders", "harness", "leaderboard", "schemas", "generation")
HEAVY = {
    "torch",
    "triton",
    "polars",
    "datasets",
    "matplotlib",
    "scipy",
    "sklearn",
    "pyarrow",
    "numpy",
    "pandas",
    "openai",
}


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    assert {"evaluate", "load", "Surrogate", "Forecast", "Measurement"} <= set(dir(kbench))
    for name in dir(kbench):
        assert getattr(kbench, name) is not None
    assert {record.__name__ for record in RECORD_TYPES} <= set(dir(kbench))


def tracked_files() -> list[str]:
    """Files of the package: those under version control, or all when the sources came without it."""
    command = ["git", "ls-files", *FOLDERS, "src/kbench"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    names = done.stdout.splitlines() if done.returncode == 0 else [str(path.relative_to(ROOT)) for path in all_files()]
    return [name for name in names if (ROOT / name).is_file()]


def all_files() -> Iterator[Path]:
    for folder in (*FOLDERS, "src/kbench"):
        yield from (path for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(target.glob("kbench_gpu-*.whl")))


def test_the_wheel_holds_every_tracked_file_of_the_folders(wheel: zipfile.ZipFile) -> None:
    expected = {f"kbench/{name.removeprefix('src/kbench/')}" for name in tracked_files()}
    assert len(expected) > 50
    assert expected - set(wheel.namelist()) == set()


def test_the_wheel_names_its_version_licence_and_command(wheel: zipfile.ZipFile) -> None:
    info = f"kbench_gpu-{kbench.__version__}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert f"Version: {kbench.__version__}" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    assert "kbench = kbench.__main__:main" in wheel.read(f"{info}/entry_points.txt").decode()


def modules_after(code: str) -> set[str]:
    script = f"import sys\nsys.path.insert(0, {str(ROOT / 'src')!r})\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_kbench_is_cheap() -> None:
    assert modules_after("import kbench") & HEAVY == set()


def test_asking_for_help_imports_only_errors_and_options() -> None:
    code = "from kbench.cli import cli\ntry:\n    cli(['--help'])\nexcept SystemExit:\n    pass"
    loaded = modules_after(code)
    assert loaded & HEAVY == set()
    assert {f"kbench.{folder}" for folder in FOLDERS} & loaded == {"kbench.schemas", "kbench.loaders"}


def test_public_names_are_the_ones_of_their_modules() -> None:
    import kbench.harness
    from kbench.harness.commands.measure import KernelJudge
    from kbench.harness.harness import Harness
    from kbench.loaders.corpus.corpus import load

    assert kbench.load is load
    assert kbench.__getattr__("schemas").Query is kbench.Query
    assert kbench.harness.Harness is Harness
    assert kbench.harness.KernelJudge is KernelJudge


@pytest.mark.parametrize("package", ["kbench", "kbench.harness"])
def test_a_mistyped_public_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'laod'"):
        importlib.import_module(package).laod  # noqa: B018


def test_evaluating_from_python_gives_the_scores_of_the_command() -> None:
    evaluation = kbench.evaluate("uniform", limit=40, resamples=20, tracks=("forecast",))
    scores = {score.metric: score.value for score in evaluation.scored.scores() if score.slice == "all"}
    assert scores["accuracy"] == pytest.approx(1 / 8)


def test_searching_from_python_finds_the_best_of_what_it_measured() -> None:
    run = kbench.search("softmax", "triton", "random", budget=6, seeds=3, batch=3, recorded=DATASET)
    rewards = [node.reward for node in run.nodes.values() if node.reward is not None]
    best = run.best()
    assert len(run.nodes) == 6
    assert best.reward == max(rewards)


def test_searching_a_corpus_without_kernels_of_the_problem_is_refused(tmp_path: Path) -> None:
    shutil.unpack_archive(ROOT / "tests/loaders/fixtures/1.0.0.zip", tmp_path)
    with pytest.raises(kbench.KbenchError, match="unknown problem_id 'kmeans_assign'"):
        kbench.search("kmeans_assign", "triton", recorded=tmp_path)


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == citation["version"] == kbench.__version__
    assert f"## {kbench.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    # The dataset is cited under one title and under the release that the recipe makes.
    recipe = tomllib.loads((ROOT / "docs/evidence/runs/release.toml").read_text())
    cited = citation["preferred-citation"]
    assert cited["version"] == recipe["release"]
    assert cited["title"] == citation["title"]
    assert f"title = {{{citation['title']}}}" in SHEET.citation
    assert f"| {recipe['release']} |" in (ROOT / "CHANGELOG.md").read_text()


def test_imports_go_one_way() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONPATH": "src"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_answers_help(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


def test_an_error_of_ours_is_one_line_and_its_exit_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kbench", "data", "info", str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("kbench: path ")
    assert done.stderr.count("\n") == 1


def set_up_commands() -> list[str]:
    """The commands of the README's first section."""
    section = (ROOT / "README.md").read_text().split("## ")[1]
    return [line for block in section.split("```bash\n")[1:] for line in block.split("```")[0].splitlines() if line]


def test_the_readme_has_exactly_two_set_up_commands() -> None:
    commands = set_up_commands()
    assert len(commands) == 2
    assert "kbench evaluate" in commands[0]
    assert ".venv/bin/pytest" in commands[1]
    assert "-c constraints.txt" in commands[1]


def test_the_readmes_paths_exist() -> None:
    import re

    text = (ROOT / "README.md").read_text()
    linked = [name for name in re.findall(r"\]\(([\w./-]+)\)", text) if not name.startswith("http")]
    assert linked
    assert [name for name in linked if not (ROOT / name).exists()] == []
