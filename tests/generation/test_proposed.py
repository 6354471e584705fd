"""Kernels that searches proposed and nobody measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from click.testing import CliRunner

from kbench.generation.campaign.drive import Drive, drive, recorded_states
from kbench.generation.cli import generate
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import Status

from .conftest import measurement, settings_for


def test_what_a_search_without_measuring_proposed_becomes_a_corpus_without_figures(tmp_path: Path, how: Drive) -> None:
    folder = tmp_path / "run"
    drive(folder, [settings_for("random")], how)
    (before,) = recorded_states(folder).values()
    more = dataclasses.replace(
        settings_for("random"), budget=dataclasses.replace(before.settings.budget, measurements=500)
    )
    drive(folder, [more], dataclasses.replace(how, measure=False))
    (after,) = recorded_states(folder).values()
    waiting = set(after.nodes) - set(before.nodes)
    assert waiting
    out = tmp_path / "proposed"
    made = CliRunner().invoke(generate, ["proposed", str(folder), "--out", str(out)])
    assert made.exit_code == 0, made.output
    rows = Corpus.open(out).table("kernels").to_pylist()
    assert {row["kernel_id"] for row in rows} == waiting
    assert {(row["status"], row["speedup"], row["gpu"]) for row in rows} == {(None, None, None)}
    assert {(row["proposer"], row["search_method"], row["lineage"]) for row in rows} == {
        ("genome", "random", "gelu_blocks")
    }
    none = CliRunner().invoke(generate, ["proposed", str(folder), "--problem", "softmax", "--out", str(out)])
    assert "waits to be measured" in str(none.exception)
    with CorpusWriter(out) as writer:
        writer.append("measurements", [measurement(rows[0]["kernel_id"], rows[0]["problem_id"], Status.OK, 2.0)])
    measured = CliRunner().invoke(generate, ["proposed", str(folder), "--out", str(out)])
    assert "is a corpus with measurements" in str(measured.exception)
    assert Corpus.open(out).rows("measurements") == 1
