from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbench.benchmark.problems import cli, registry
from kbench.benchmark.problems.check import check
from kbench.benchmark.problems.cli import problems

BROKEN = """
from kbench.benchmark.problems import ProblemDefinition, Size, TensorSpec, Tolerance

def reference(x):
    return x * 0 + 1

PROBLEM = ProblemDefinition(
    id="ones", title="Ones", family="user", description="Ones.", reference=reference,
    inputs=lambda p: (TensorSpec("x", (8,)),), outputs=lambda p: (TensorSpec("y", (8,)),),
    flops=lambda p: 8, sizes=(Size("given", {}),), tiny=Size("tiny", {}), tolerance=Tolerance(1e-6, 1e-5, "float32"),
)
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(problems, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_list_gives_every_problem_as_json() -> None:
    code, text = run("list", "--json")
    listed = json.loads(text)
    assert code == 0
    assert [one["problem_id"] for one in listed] == list(registry.problems())
    assert {"problem_id", "family", "title", "aliases", "workloads", "models", "retired"} == set(listed[0])


def test_retired_problems_are_listed_only_when_asked_for() -> None:
    hidden = {one["problem_id"]: one["retired"] for one in json.loads(run("list", "--retired", "--json")[1])}
    assert hidden["argmin"]["like"] == "argmax"
    assert hidden.keys().isdisjoint(one["problem_id"] for one in json.loads(run("list", "--json")[1]))
    assert "like argmax: argmax with the comparison turned round" in run("list", "--retired")[1]
    assert "Signature" in run("show", "argmin")[1]


def test_list_filters_by_family() -> None:
    code, text = run("list", "--family", "scan")
    assert code == 0
    assert len(text.splitlines()) == 3


def test_show_prints_the_prompt_or_the_record() -> None:
    text = run("show", "softmax")[1]
    assert "Signature: run(x)" in text
    assert "mixed_rows: A few unusual rows" in text
    assert "subnormal numbers of float32 are not judged" in text
    assert "subnormal numbers of float32 are judged" in run("show", "transpose")[1]
    shown = json.loads(run("show", "softmax", "--json")[1])
    assert (shown["problem_id"], shown["judges_ends"]) == ("softmax", False)
    assert {"shifted", "mixed_rows", "mixed_spans"} <= shown["cases"].keys()


def test_check_reports_each_problem_and_exits_zero_when_all_pass() -> None:
    code, text = run("check", "softmax", "cumsum", "--json")
    assert code == 0
    assert [(r["problem_id"], r["ok"]) for r in json.loads(text)] == [("softmax", True), ("cumsum", True)]


def test_check_of_a_constant_reference_exits_one_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "ones.py"
    path.write_text(BROKEN)
    code, text = run("check", str(path))
    assert code == 1
    assert "ones: output 'y' is constant" in text
    assert "tolerance accepts the constant answer" in text
    assert "the same for two seeds" in text


def test_check_draws_new_adversarial_inputs_and_draws_those_of_a_seed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(cli, "check", lambda one, seed: drawn.append(seed) or check(one, seed))
    code, text = run("check", "softmax")
    assert (code, text.splitlines()[-1]) == (0, f"1 of 1 problems pass, adversarial inputs of seed {drawn[0]}")
    assert "softmax: tolerance |out - expected| <= 1e-08 + 2e-05 * |expected| (float32 exponentials" in text
    assert json.loads(run("check", "softmax", "--seed", str(drawn[0]), "--json")[1])[0]["seed"] == drawn[0]
    assert drawn[0] == drawn[1]
