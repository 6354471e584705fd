"""The families still render the kernels that recorded recipes refer to, and searches still draw the same genomes."""

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbench.generation.proposers.genome import template
from kbench.generation.proposers.genome.template import (
    Family,
    Gene,
    cross,
    families,
    families_for,
    mutate,
    read_file,
    sample,
)
from kbench.loaders.corpus.corpus import load
from kbench.schemas import Backend, KernelSource

COUNT = 2_000
CHAINS = "efd53d2617d0f41b462f0cb7c2e0b757b758353abd2702e75af2079627a2e036"
"""Digest of `chains` when the shipped searches were recorded."""


RECORDED = tuple((Path(__file__).parent / "golden_kernels.txt").read_text().splitlines())
FAMILIES = {line.split()[0] for line in RECORDED}
"""Families that recorded searches drew from; later ones serve problems of their own."""


def golden_kernels() -> Iterator[str]:
    """Each family and problem with a digest of the ids of its genomes' kernels; all take turns at the genomes."""
    known = sorted((name, family) for name, family in families().items() if name in FAMILIES)
    pairs = [(family, problem_id) for _, family in known for problem_id in family.problems]
    for first, (family, problem_id) in enumerate(pairs):
        ids = hashlib.sha256()
        for number in range(first, COUNT, len(pairs)):
            source = family.render(problem_id, sample(family, problem_id, random.Random(number)))
            ids.update(KernelSource(problem_id, family.backend, source).kernel_id.encode())
        yield f"{family.name} {problem_id} {ids.hexdigest()[:16]}"


def chains() -> Iterator[str]:
    """For each cell, its families in the order in which they are drawn, and genomes of a seeded walk through each."""
    known = [families()[name] for name in FAMILIES]
    cells = {(problem_id, family.backend.value) for family in known for problem_id in family.problems}
    for problem_id, backend in sorted(cells):
        for family in families_for(problem_id, Backend(backend)):
            rng = random.Random(f"{family.name} {problem_id}")
            genome, other = sample(family, problem_id, rng), sample(family, problem_id, rng)
            for _ in range(3):
                genome = mutate(family, problem_id, genome, rng)
                other = cross(family, problem_id, other, genome, rng)
                yield f"{family.name} {problem_id} {json.dumps([genome, other])}\n"


def test_every_sampled_genome_gives_the_recorded_kernel() -> None:
    assert [line for line, before in zip(golden_kernels(), RECORDED, strict=True) if line != before] == []


def test_draws_mutations_and_crossings_follow_the_recorded_order() -> None:
    assert hashlib.sha256("".join(chains()).encode()).hexdigest() == CHAINS


def test_the_recipe_of_every_shipped_live_kernel_gives_its_source() -> None:
    rows = load(
        config="live", columns=["problem_id", "kernel_id", "source", "recipe_json"], proposer="genome"
    ).to_arrow()
    distinct = {row["kernel_id"]: row for row in rows.to_pylist()}
    assert len(distinct) > 10_000
    known = families()
    for row in distinct.values():
        recipe = json.loads(row["recipe_json"])
        assert known[recipe["family"]].render(row["problem_id"], recipe["genome"]) == row["source"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of templates of its own."""
    monkeypatch.setattr(template, "GENOMES", tmp_path)
    template._template.cache_clear()
    template._environment.cache_clear()
    return tmp_path


def families_of(folder: Path, *lines: str, body: str = "def run(): pass\n", name: str = "made.py") -> list[Family]:
    """The families of a template that has these header lines."""
    mark = "//" if name.endswith(".cu") else "#"
    (folder / name).write_text("".join(f"{mark} {line}\n" for line in lines) + body)
    return list(read_file(folder / name))


def test_genes_refusals_and_values_come_from_the_header_and_the_kernel_does_not_carry_it(folder: Path) -> None:
    (family,) = families_of(
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
    one, other = families_of(
        folder, "facts form = facts.toml", "family every_cuda where True", "pick n = form.taps",
        "family bytes_cuda where form.dtype == 'int8'", "pick n = len(form.taps)", name="made.cu",
    )  # fmt: skip
    assert (one.problems, other.problems) == (("a", "b"), ("b",))
    assert (one.genes("b")[0].choices, other.genes("b")[0].choices) == ((2, 3), (2,))


def test_sections_have_headers_of_their_own_below_the_lines_of_the_file(folder: Path) -> None:
    sections = "%% section one\n# family one for p\n# pick n = most\nn = ${n}\n%% section part\n# kept\n"
    (family,) = families_of(folder, "let most = 4", body=sections)
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
        families_of(folder, "family made for p", line, "pick last = 1, 2")
    assert "made.py" in str(caught.value)


def test_a_header_cannot_reach_builtins(folder: Path) -> None:
    (family,) = families_of(folder, "family made for p", "pick n = open('/etc/passwd')")
    with pytest.raises(NameError):
        family.genes("p")
