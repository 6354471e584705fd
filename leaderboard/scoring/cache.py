"""Cache of results by content: an entry is scored again only when something its scores depend on has changed."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

import kbench
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.tasks.questions import Questions
from kbench.leaderboard.scoring.results import Results, read_results, results_text
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import DataError
from kbench.schemas.ids import content_hash


class ResultsCache:
    """Results in a folder, one file per entry and state of everything that its scores depend on."""

    def __init__(self, folder: Path, questions: Questions, settings: BootstrapSettings, sliced: bool) -> None:
        """Open a cache; the folder is made when the first results are kept.

        Args:
            folder: where results are kept.
            questions: what entries are asked.
            settings: of the bootstrap.
            sliced: whether results hold figures of slices.
        """
        self._folder = folder
        settled = (settings.resamples, settings.seed, "sliced" if sliced else "whole")
        self._scored_with = (questions.fingerprint, *map(str, settled), _code_digest())

    def results(self, digest: str, score: Callable[[], Results]) -> Results:
        """The kept results of a submission, or newly made ones.

        Args:
            digest: of the submission's files.
            score: makes the results where none are kept.
        """
        path = self._folder / f"{content_hash('results', digest, *self._scored_with)}.json"
        if path.is_file():
            try:
                return read_results(path)
            except DataError:
                path.unlink()
        made = score()
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, results_text(made))
        return made


@functools.cache
def _code_digest() -> str:
    """Digest of all code that decides a score."""
    package = Path(kbench.__file__).parent
    digest = hashlib.sha256(kbench.__version__.encode())
    for part in ("schemas", "benchmark/metrics", "benchmark/scoring", "benchmark/tasks", "leaderboard/scoring"):
        for path in sorted((package / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
