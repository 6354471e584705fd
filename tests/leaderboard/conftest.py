"""A small corpus, submissions made for it by the built-in surrogates, and their results."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kbench.benchmark.evaluation.folder import write_folder
from kbench.benchmark.evaluation.run import Options, evaluate
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.tasks import Questions, build_questions
from kbench.leaderboard.board import dataset_facts, score_all
from kbench.leaderboard.scoring.results import Results
from kbench.loaders.corpus.corpus import Corpus

SURROGATES = ("uniform", "prior", "length")
SETTINGS = BootstrapSettings(resamples=50)


def _corpus_builder() -> ModuleType:
    path = Path(__file__).parents[1] / "benchmark" / "conftest.py"
    spec = importlib.util.spec_from_file_location("kbench_test_corpora", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def board_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = _corpus_builder().write_corpus(tmp_path_factory.mktemp("board") / "corpus", problem_count=6)
    return path


@pytest.fixture(scope="session")
def questions(board_corpus: Path) -> Questions:
    return build_questions(Corpus.open(board_corpus), "test")


@pytest.fixture(scope="session")
def submissions(board_corpus: Path, questions: Questions, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("submissions")
    corpus = Corpus.open(board_corpus)
    for name in SURROGATES:
        made = evaluate(name, corpus, Options(resamples=10), questions=questions)
        write_folder(made, folder / name)
    return {name: folder / name for name in SURROGATES}


@pytest.fixture(scope="session")
def results(submissions: dict[str, Path], questions: Questions) -> list[Results]:
    return score_all(list(submissions.values()), questions, SETTINGS)


@pytest.fixture(scope="session")
def faceted(submissions: dict[str, Path], questions: Questions) -> tuple[list[Results], dict[str, Any]]:
    """Results and dataset facts with a family for each problem, so that there is something to filter by."""
    asked = dataclasses.replace(
        questions,
        pairs=dataclasses.replace(questions.pairs, family=questions.pairs.problem),
        pools=dataclasses.replace(questions.pools, family=questions.pools.problem),
    )
    return score_all(list(submissions.values()), asked, SETTINGS), dict(dataset_facts(asked, None))
