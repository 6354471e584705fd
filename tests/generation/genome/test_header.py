"""Headers of templates: what their lines mean, and which are refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kbench.generation.proposers.genome import header, template
from kbench.generation.proposers.genome.family import Family, Gene, sample
from kbench.generation.proposers.genome.header import read_file
from kbench.schemas import Backend


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of templates of its own."""
    monkeypatch.setattr(header, "GENOMES", tmp_path)
    monkeypatch.setattr(template, "GENOMES", tmp_path)
    template._template.cache_clear()
    template._environment.cache_clear()
    return tmp_path


def families(folder: Path, *lines: str, body: str = "def run(): pass\n", name: str = "made.py") -> list[Family]:
    """The families of a template that has these header lines."""
    mark = "//" if name.endswith(".cu") else "#"
    (folder / name).write_text("".join(f"{mark} {line}\n" for line in lines) + body)
    return list(read_file(folder / name))


def test_genes_refusals_and_values_come_from_the_header_and_the_kernel_does_not_carry_it(folder: Path) -> None:
    (family,) = families(
        folder,
        "Sums of rows.",
        "family sums_triton for wide, narrow",
        "let widest = {'wide': 64, 'narrow': 16}[problem]",
        "shape walk = 'rows', 'columns'",
        "pick lanes = (16, 32, 64) if widest > 16 else 16",
        "pick unroll = (1, 2) if problem == 'wide' else ()",
        "let held = lanes * 2",
        "refuse walk == 'rows' and held > 64: {held} values per",
        "    thread",
        "# A remark.",
        "let walk = walk + '!'",
        body="\n${problem} ${walk} ${lanes} ${held}\n",
    )
    assert (family.name, family.backend, family.problems) == ("sums_triton", Backend.TRITON, ("wide", "narrow"))
    assert family.genes("narrow") == (Gene("walk", ("rows", "columns"), structural=True), Gene("lanes", (16,)))
    assert [gene.name for gene in family.genes("wide")] == ["walk", "lanes", "unroll"]
    assert family.invalid("wide", {"walk": "rows", "lanes": 64, "unroll": 1}) == "128 values per thread"
    assert family.invalid("wide", {"walk": "columns", "lanes": 64, "unroll": 1}) is None
    assert family.render("narrow", {"walk": "rows", "lanes": 16}) == "narrow rows! 16 32\n"
    assert sample(family, "narrow", random.Random(0))["lanes"] == 16


def test_facts_of_problems_choose_the_problems_of_a_family(folder: Path) -> None:
    (folder / "facts.toml").write_text(
        '[default]\ndtype = "float32"\ntaps = [1]\n[a]\n[b]\ndtype = "int8"\ntaps = [2, 3]\n'
    )
    one, other = families(
        folder, "facts form = facts.toml", "family every_cuda where True", "pick n = form.taps",
        "family bytes_cuda where form.dtype == 'int8'", "pick n = len(form.taps)", name="made.cu",
    )  # fmt: skip
    assert (one.problems, other.problems) == (("a", "b"), ("b",))
    assert (one.genes("b")[0].choices, other.genes("b")[0].choices) == ((2, 3), (2,))


def test_sections_have_headers_of_their_own_below_the_lines_of_the_file(folder: Path) -> None:
    sections = "%% section one\n# family one for p\n# pick n = most\nn = ${n}\n%% section part\n# kept\n"
    (family,) = families(folder, "let most = 4", body=sections)
    assert family.render("p", {"n": 4}) == "n = 4\n"
    assert template.render("made.py#part", {}) == "# kept\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pick n = (", "is not an expression"),
        ("pick n", "ends too early"),
        ("refuse n > 1", "ends too early"),
        ("pcik n = 1, 2", "'pcik' is none of family, facts"),
        ("polish shiny", "helpers.py has no 'shiny'"),
        ("let n = [m for m in (1, 2)]", "which headers may not say"),
        ("let n = (lambda: 1)()", "which headers may not say"),
        ("let n = ''.__class__", "which headers may not say"),
        ("refuse True: too early", "its refusals stand below them"),
        ("family second on p", "neither for nor where"),
    ],
)
def test_a_malformed_line_is_refused_with_its_file(folder: Path, line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        families(folder, "family made for p", line, "pick last = 1, 2")
    assert "made.py" in str(caught.value)


def test_a_header_cannot_reach_builtins(folder: Path) -> None:
    (family,) = families(folder, "family made for p", "pick n = open('/etc/passwd')")
    with pytest.raises(NameError):
        family.genes("p")
