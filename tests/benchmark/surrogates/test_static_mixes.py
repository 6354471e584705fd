"""Instruction mixes of training kernels: their table, their features, and models that learn from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kbench.benchmark.questions import Questions
from kbench.benchmark.questions.build import training_kernels
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.surrogates.static.features.compiler import MIX_NAMES, NAMES, mix_rows
from kbench.benchmark.surrogates.static.features.rows import RowLayout, capability
from kbench.benchmark.surrogates.static.model import StaticModel
from kbench.benchmark.surrogates.static.training.fitting import Effort
from kbench.benchmark.surrogates.static.training.material import Material
from kbench.benchmark.surrogates.static.training.mixes import Mixes
from kbench.benchmark.surrogates.static.training.train import train
from kbench.harness.plan.instructions import CLASSES
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError

SMALL = Effort(kernel_trees=5, boosted_trees=10, pair_trees=10, width_trees=5, valid_trees=5, leaves=8)
COUNTS = dict.fromkeys(CLASSES, 0) | {"fused": 48, "vector_loads": 16, "total": 64}


@pytest.fixture(scope="module")
def half(corpus: Corpus) -> Mixes:
    """Mixes of every other training kernel, made up from the lengths of their texts."""
    found = Mixes()
    for query, row in list(training_kernels(corpus))[::2]:
        counts = COUNTS | {"integer": len(query.candidate_source) % 64, "total": 64 + len(query.candidate_source)}
        found.put(row["kernel_id"], capability(query), counts)
    return found


def test_every_class_that_builds_count_is_a_feature() -> None:
    assert set(MIX_NAMES) == set(CLASSES)


def test_features_are_shares_and_a_missing_mix_is_told_from_zeros() -> None:
    known, no_ptx = CompilerFacts(32, 0, 0, COUNTS), CompilerFacts(32, 0, 0)
    rows = mix_rows([known, no_ptx, None])
    assert rows[0, MIX_NAMES.index("fused")] == 0.75
    assert rows[0, MIX_NAMES.index("vector_loads")] == 0.25
    assert rows[0, MIX_NAMES.index("total")] == 6.0
    assert rows[0, MIX_NAMES.index("matrix")] == 0.0
    assert (rows[1:] == -1.0).all()


def test_a_table_reads_back_what_was_written_failures_included(tmp_path: Path) -> None:
    made = Mixes()
    made.put("a" * 32, "9.0", COUNTS)
    made.put("b" * 32, "9.0", None)
    made.save(tmp_path / "mixes.parquet")
    read = Mixes.load(tmp_path / "mixes.parquet")
    assert read.get("a" * 32, "9.0") == COUNTS
    assert ("b" * 32, "9.0") in read
    assert read.get("b" * 32, "9.0") is None
    assert ("a" * 32, "8.0") not in read
    assert len(read) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mixes.parquet"]


def test_a_table_that_is_not_there_is_empty_and_one_that_is_none_is_refused(tmp_path: Path) -> None:
    assert len(Mixes.load(tmp_path / "absent.parquet")) == 0
    (tmp_path / "broken.parquet").write_bytes(b"no table")
    with pytest.raises(DataError, match="no table of instruction mixes"):
        Mixes.load(tmp_path / "broken.parquet")


def test_kernels_without_a_mix_are_missing_values(corpus: Corpus, half: Mixes) -> None:
    kernels = list(training_kernels(corpus))
    material = Material(kernels, RowLayout(compiled=True, mixed=True), half)
    names = material.layout.names
    total = material.rows[:, names.index("compiler:mix:total")]
    assert material.rows.shape[1] == len(names) == len(set(names))
    assert 0 < material.mixes < len(total)
    assert (total > 0).sum() == material.mixes
    assert (total[total <= 0] == -1.0).all()


def test_a_model_that_learned_from_mixes_says_so_in_its_file(
    corpus: Corpus, half: Mixes, questions: Questions, tmp_path: Path
) -> None:
    model = train(corpus, SMALL, compiled=True, mixes=half).model
    model.save(tmp_path / "model.npz")
    read = StaticModel.load(tmp_path / "model.npz")
    assert read.layout == RowLayout(compiled=True, mixed=True)
    assert len(read.layout.names) == len(RowLayout().names) + len(NAMES) + len(MIX_NAMES)
    assert read.facts["mixes"] > 0
    queries = questions.queries[:8]
    np.testing.assert_allclose(read.forecast(queries).probabilities, model.forecast(queries).probabilities, atol=1e-3)


def test_no_mixes_give_the_model_without_them(corpus: Corpus) -> None:
    assert train(corpus, SMALL, compiled=True, mixes=Mixes()).model.layout == RowLayout(compiled=True, mixed=False)


def test_a_model_of_sources_alone_asks_for_no_mix(corpus: Corpus, half: Mixes) -> None:
    assert train(corpus, SMALL, mixes=half).model.layout == RowLayout()
