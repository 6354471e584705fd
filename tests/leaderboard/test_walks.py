"""What people come for, walked in a shell as the pages describe it: each command is a process of its own."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]
PROBLEM = ROOT / "examples" / "my_problem.py"
KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def gated(x, update, gate, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    scale = tl.sigmoid(tl.load(gate + row))
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        old = tl.load(x + row * cols + at, mask=at < cols)
        new = tl.load(update + row * cols + at, mask=at < cols)
        tl.store(y + row * cols + at, old + {factor} * scale * new, mask=at < cols)

def run(x, update, gate):
    y = torch.empty_like(x)
    gated[(x.shape[0],)](x, update, gate, y, x.shape[1], BLOCK=256)
    return y
"""


def shell(cwd: Path, *arguments: object, code: int = 0) -> str:
    """What a command says on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "kbench", *map(str, arguments)], cwd=cwd, check=False, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "KBENCH_CACHE": str(cwd / "cache")},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_measure_my_problem_file(tmp_path: Path) -> None:
    assert "Signature: run(x, update, gate)" in shell(tmp_path, "problems", "show", PROBLEM)
    (tmp_path / "right.py").write_text(KERNEL.format(factor=1))
    (tmp_path / "wrong.py").write_text(KERNEL.format(factor=2))
    # Without a GPU kernels are verified through the interpreter; the test of the harness records a measurement.
    said = shell(tmp_path, "measure", "right.py", "wrong.py", "--problem", PROBLEM, "--check-only", code=1)
    right, wrong = said.splitlines()
    assert right.split()[:3] == ["right.py", "tiny", "ok"]
    assert wrong.split()[:3] == ["wrong.py", "tiny", "incorrect"]


def readme_commands() -> list[list[str]]:
    """The commands of the README's second section, as words."""
    used = (ROOT / "README.md").read_text().split("## Use\n")[1].split("\n## ")[0]
    lines = [line for block in used.split("```bash\n")[1:] for line in block.split("```")[0].splitlines()]
    assert all(line.startswith("kbench ") for line in lines)
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_the_commands_of_the_readme_that_need_no_gpu_work_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "benchmark").symlink_to(ROOT / "benchmark")
    # Those that need a GPU; and those of the next test.
    others = (["measure"], ["generate", "--problem"], ["evaluate"], ["leaderboard"])
    run = [words for words in readme_commands() if not any(words[: len(some)] == some for some in others)]
    assert run
    for words in run:
        assert shell(tmp_path, *words)


def test_submit_from_end_to_end(board_corpus: Path, submissions: dict[str, Path], new_tab: Any, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    on_it = ("--dataset", board_corpus)
    (words,) = (words[: words.index("--split")] for words in readme_commands() if words[0] == "evaluate")
    words += ["--compare", "prior", "--out", "mine"]
    shell(tmp_path, *words, "--resamples", 50, "--no-report", *on_it)
    about = tmp_path / "mine" / "submission.json"
    stated = about.read_text()
    said = shell(tmp_path, "leaderboard", "check", "mine", *on_it, code=1)
    assert said.count("only you know") == stated.count("unknown: ") == 5
    about.write_text(stated.replace("unknown: ", "by Ada: "))
    assert "mine: ok" in shell(tmp_path, "leaderboard", "check", "mine", *on_it)
    assert "Skill" in shell(tmp_path, "leaderboard", "score", "mine", "--resamples", 50, *on_it)
    # The pull request adds the two files to the board's folder.
    board = shutil.copytree(submissions["prior"].parent, tmp_path / "board")
    (board / "mine").mkdir()
    for name in ("submission.json", "forecasts.parquet"):
        shutil.copy(tmp_path / "mine" / name, board / "mine")
    said = shell(tmp_path, "leaderboard", "build", "--submissions", board, "--out", "site", "--json", *on_it)
    assert json.loads(said)["entries"] == len(submissions) + 1
    page = new_tab(tmp_path / "site" / "index.html").open("#/leaderboard")
    page.get_by_role("link", name="my-model", exact=True).click()
    expect(page.locator("dl.facts").first).to_contain_text("by Ada")
    expect(page.locator("#misses")).to_have_text("Worst misses")
