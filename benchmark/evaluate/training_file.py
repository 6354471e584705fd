"""The training file: what users' surrogates learn from, kept between runs.

Rendering the questions takes most of the time of a small evaluation, and edits of a model do not change them.
The file lies in the data folder, which is hidden from surrogates: each gets a copy that it may spoil.
"""

from __future__ import annotations

import pickle
from pathlib import Path

from kbench import __version__
from kbench.benchmark.questions import training_pairs
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.corpus_view import CorpusView
from kbench.loaders.corpus.places import data_home
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import KbenchError
from kbench.schemas.ids import content_hash

ROOT = Path(__file__).resolve().parents[2]
CODE = ("benchmark/questions", "loaders/source", "schemas")
"""Folders whose code decides what the pairs are and say."""
MOST_FILES = 3


def training_file(corpus: Tables) -> Path | None:
    """The pickled training pairs of a corpus, made where they are not there yet.

    Returns:
        None for a view of a corpus, such as one without a GPU, and where the data folder cannot be written.
    """
    if not isinstance(corpus, CorpusView):
        return None
    made_of = content_hash("training", __version__, corpus.fingerprint, *_code())
    file = data_home() / "training" / f"{made_of}.pickle"
    if not file.is_file():
        pairs = list(training_pairs(corpus))
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, pickle.dumps(pairs))
            kept = sorted(file.parent.glob("*.pickle"), key=lambda path: path.stat().st_mtime, reverse=True)
            for old in kept[MOST_FILES:]:
                old.unlink(missing_ok=True)
        except (OSError, KbenchError):
            return None
    return file


def _code() -> list[str]:
    """Sizes and times of our own files: whoever changes kbench gets other pairs."""
    files = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))
    return [f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
