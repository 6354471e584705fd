"""Results pages show what their quick commands print, and the commands leave the evidence as it is."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
FIGURE = re.compile(r"[+−]?\d\.\d{3} \[[^]]+\]")


def page(name: str) -> str:
    return (ROOT / "docs" / "results" / f"{name}.md").read_text("utf-8")


def rows(text: str) -> dict[str, list[list[str]]]:
    """The cells of every table row, by the row's first cell."""
    found: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith(("|-", "|−")):
            first, *cells = (cell.strip(" `") for cell in line.strip("|").split("|"))
            found.setdefault(first, []).append(cells)
    return found


def printed(words: list[str | Path]) -> str:
    """What a command prints, with the minus signs of the pages."""
    before = {path: path.stat().st_mtime_ns for path in EVIDENCE.rglob("*") if path.is_file()}
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    after = {path: path.stat().st_mtime_ns for path in EVIDENCE.rglob("*") if path.is_file()}
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} == set()
    return done.stdout.replace("-", "−")


def command(name: str, beginning: str, out: Path) -> list[str]:
    """The first command of a page that begins like this, writing to a folder of the test."""
    lines = re.sub(r"\\\n\s*", " ", page(name)).splitlines()
    line = next(line for line in lines if line.startswith(f"$ {beginning}"))
    words = shlex.split(line.removeprefix("$ "), comments=True)
    if "--out" in words:
        place = words.index("--out") + 1
        words[place] = str(out / words[place])
    return [sys.executable, *words[1:]]


def test_the_figures_of_the_benchmark(tmp_path: Path) -> None:
    made = printed(command("benchmark", "python docs/evidence/scripts/benchmark.py", tmp_path))
    shown = FIGURE.findall(page("benchmark"))
    assert len(shown) > 40
    assert [figure for figure in shown if figure not in made] == []


def test_the_methods_of_the_language_models_searches(tmp_path: Path) -> None:
    shown = page("search-live-llm").split("The third command")[1].split("## How to read it")[0]
    made = printed(command("search-live-llm", "python docs/evidence/scripts/live.py docs/evidence/runs/llm", tmp_path))
    assert FIGURE.findall(shown)
    assert [figure for figure in FIGURE.findall(shown) if figure not in made] == []


@pytest.mark.parametrize("study", ["live-2", "live-llm"])
def test_the_live_searches(study: str, tmp_path: Path) -> None:
    made = printed(command(f"search-{study}", "python docs/evidence/scripts/live.py benchmark", tmp_path))
    shown = FIGURE.findall(page(f"search-{study}").split("The third command")[0])
    assert len(shown) > 10
    assert [figure for figure in shown if figure not in made] == []


def test_recorded_searches_ask_for_the_recorded_kernels_again(tmp_path: Path) -> None:
    check = [
        *command("search-live-2", "python docs/evidence/scripts/live_kernels.py", tmp_path)[:3],
        tmp_path / "few.json",
    ]
    spec = json.loads((EVIDENCE / "runs" / "live-2.json").read_text("utf-8")) | {"problems": ["cumsum"]}
    (tmp_path / "few.json").write_text(json.dumps(spec))
    assert "8 searches of 8 ran, and ask for exactly the 512 kernels on record" in printed(check)
    (tmp_path / "few.json").write_text(json.dumps(spec | {"label": "another"}))
    with pytest.raises(AssertionError, match="none of these 8 searches is on record"):
        printed(check)


def test_how_speedups_move_between_device_types(tmp_path: Path) -> None:
    shown = rows(page("transfer").split("**Moves**")[1].split("**Per problem**")[0])
    made = rows(printed(command("transfer", "python docs/evidence/scripts/transfer.py", tmp_path)))
    for family, (cells,) in list(shown.items())[1:]:
        parts = [[cell for place, cell in enumerate(row) if place in (1, 2, len(row) - 1)] for row in made[family]]
        assert cells[0] == made[family][0][0], family
        assert cells[1:] == parts[0] + parts[1], family


def test_what_the_references_reach() -> None:
    snippet = page("references").split("```python\n")[1].split("```")[0]
    made = rows(printed([sys.executable, "-c", snippet]))
    shown = rows(page("references").split("## Table")[1])
    assert len(shown) > 15
    for family, (cells,) in shown.items():
        assert [cell.replace("null", "–") for cell in made[family][0]] == cells


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "results").glob("*.md")), ids=lambda path: path.stem)
def test_a_page_names_its_release(path: Path) -> None:
    assert path.stem == "index" or re.search(r"[Rr]elease\s(1|2\.\d|3)", path.read_text("utf-8"))


def test_the_time_that_the_hook_saves(tmp_path: Path) -> None:
    *_, last = printed(command("tuning", "python docs/evidence/scripts/tuning.py live", tmp_path)).splitlines()
    share, slower, most = re.findall(r"[\d.]+(?=%)", last)
    assert f"| {share} % | {slower} % | {most} % |" in page("tuning")
