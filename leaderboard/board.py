"""The board: find submissions, check them, score them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.surrogates.forecasts.table import align
from kbench.benchmark.tasks.build import build_questions
from kbench.benchmark.tasks.few_shot import with_shots
from kbench.benchmark.tasks.versions import benchmark_of
from kbench.leaderboard.scoring.cache import ResultsCache
from kbench.leaderboard.scoring.flags import flags
from kbench.leaderboard.scoring.results import Results, entry_id
from kbench.leaderboard.scoring.score import score_submission
from kbench.leaderboard.submission.archive import KNOWN_FILES, METADATA_FILE
from kbench.leaderboard.submission.check import Checked, check
from kbench.leaderboard.submission.flaws import Flaw
from kbench.leaderboard.submission.labels import read_labels
from kbench.leaderboard.submission.rules import Expected
from kbench.leaderboard.submission.untrusted import shown
from kbench.schemas import UserError, bins

if TYPE_CHECKING:
    from kbench.benchmark.tasks.questions import Questions
    from kbench.loaders.corpus.corpus import Corpus

SUBMISSIONS = Path(__file__).parent / "submissions"
"""The shipped entries, one folder for each version of the benchmark."""


def shipped(questions: Questions) -> Path:
    """The folder of shipped entries that answer these questions."""
    return SUBMISSIONS / f"benchmark-{questions.benchmark}"


def load_questions(
    dataset: str | None,
    labels: Path | None,
    split: str = "test",
    benchmark: int | None = None,
    subset: str | None = None,
    shots: int = 0,
) -> Questions:
    """The questions entries are scored on: of a corpus, or of a maintainer's private labels.

    Args:
        dataset: a corpus; the shipped one by default.
        labels: private labels instead.
        split: which split of the corpus.
        benchmark: which version of the benchmark; the newest by default.
        subset: a part of the split, such as core.
        shots: most measured kernels that a query names.
    """
    if labels is not None:
        return read_labels(labels)
    from kbench.loaders.corpus.corpus import Corpus

    corpus = benchmark_of(Corpus.open(dataset, verified=True), benchmark)
    return with_shots(build_questions(corpus, split, subset=subset), corpus, shots)


def expected_of(questions: Questions) -> Expected:
    """What a submission must answer."""
    ids = [query.query_id for query in questions.queries]
    return Expected(questions.dataset, ids, frozenset(ids[at] for at in questions.pair_queries.tolist()))


def submission_paths(given: Sequence[Path]) -> list[Path]:
    """The submissions named; a folder of submissions stands for everything in it.

    Nothing is skipped: an entry whose submission.json has a wrong name must not go unnoticed.
    """
    return [path for one in given for path in _inside(one) or [one]]


def _inside(path: Path) -> list[Path]:
    """What a folder of submissions holds; nothing where the path is a submission itself."""
    if not path.is_dir() or any((path / name).exists() for name in KNOWN_FILES):
        return []
    return sorted(child for child in path.iterdir() if not child.name.startswith(".") and child.name != "README.md")


def check_all(paths: Sequence[Path], expected: Expected | None) -> dict[str, Checked]:
    """Check submissions, each alone and then for the name of an earlier one: their results would share a file."""
    outcomes: dict[str, Checked] = {}
    owners: dict[str, str] = {}
    for path in submission_paths(paths):
        one = check(path, expected)
        if one.submission is not None:
            owner = owners.setdefault(entry_id(one.submission), str(path))
            if owner != str(path):
                fix = f"{owner} has the same name and version; choose another name or raise the version"
                flaw = Flaw(METADATA_FILE, "name and version", shown(_name(one)), fix)
                one = dataclasses.replace(one, flaws=(*one.flaws, flaw))
        outcomes[str(path)] = one
    return outcomes


def score_all(
    paths: Sequence[Path],
    questions: Questions,
    settings: BootstrapSettings | None = None,
    tell: Callable[[str], None] = lambda name: None,
    cache: Path | None = None,
    refuse: Callable[[str], None] | None = None,
) -> list[Results]:
    """Check and score submissions; flags compare each with all the others.

    Args:
        paths: submissions, or folders of submissions.
        questions: what they were asked, with the answers.
        settings: of the bootstrap.
        tell: called with each entry's name before it is scored.
        cache: folder that keeps results, so that an unchanged entry is not scored again.
        refuse: told why each submission that has problems is left out; the others are scored.

    Raises:
        UserError: a submission has problems and nobody is told of it, or none is left; the message names the first.
    """
    settings = settings or BootstrapSettings()
    kept = None if cache is None else ResultsCache(cache, questions, settings)
    expected = expected_of(questions)
    checked = check_all(paths, expected)
    for path, one in checked.items():
        if not one.ok:
            more = f" (and {len(one.flaws) - 1} more: kbench leaderboard check {path})" if one.flaws[1:] else ""
            # The flaw of a path that is no submission names it already.
            where = "" if Path(path).name == one.flaws[0].file else f"{path}: "
            reason = f"{where}{one.flaws[0]}{more}"
            if refuse is None or not any(other.ok for other in checked.values()):
                raise UserError(reason)
            refuse(reason)
    checked = {path: one for path, one in checked.items() if one.ok}
    ids = list(expected.query_ids)
    tables = {path: align(one.forecasts, ids) for path, one in checked.items()}
    scored: list[Results] = []
    for path, one in checked.items():
        assert one.submission is not None
        result = (
            _scored(one, questions, settings, tell)
            if kept is None
            else kept.results(one.digest, functools.partial(_scored, one, questions, settings, tell))
        )
        others = {_name(checked[other]): tables[other] for other in checked if other != path}
        found = flags(one.submission, tables[path], questions, others, result.scores)
        scored.append(dataclasses.replace(result, flags=found))
    return scored


def _scored(one: Checked, questions: Questions, settings: BootstrapSettings, tell: Callable[[str], None]) -> Results:
    assert one.submission is not None
    assert one.forecasts is not None
    tell(_name(one))
    return score_submission(one.submission, one.forecasts, questions, settings)


def _name(checked: Checked) -> str:
    assert checked.submission is not None
    return f"{checked.submission.name} {checked.submission.version}"


def dataset_facts(questions: Questions, corpus: Corpus | None) -> Mapping[str, Any]:
    """What the site's dataset page shows."""
    counts: dict[str, Any] = {
        "Benchmark": str(questions.benchmark),
        "Queries": f"{len(questions.queries):,}",
        "Split": questions.split,
    }
    if corpus is not None:
        kernels = corpus.table("kernels", columns=["problem_id", "backend", "gpu", "status"])
        counts["Kernels"] = f"{kernels.num_rows:,}"
        counts["Problems"] = str(len(set(kernels.column("problem_id").to_pylist())))
        for facet, label in (("backend", "Backends"), ("gpu", "GPUs"), ("status", "Statuses")):
            values, sizes = np.unique([str(v) for v in kernels.column(facet).to_pylist()], return_counts=True)
            counts[label] = ", ".join(f"{value}: {size:,}" for value, size in zip(values, sizes, strict=True))
    per_bin = np.bincount(questions.pairs.bin, minlength=bins.COUNT + 1)
    rows = [{"bin": n, "label": bins.label(n), "queries": int(per_bin[n])} for n in bins.NUMBERS]
    facets = {
        "family": sorted({*questions.pairs.family.tolist(), *questions.pools.family.tolist()}),
        "backend": sorted({*questions.pairs.backend.tolist(), *questions.pools.backend.tolist()}),
        "gpu": sorted({query.gpu for query in questions.queries}),
    }
    return {"fingerprint": questions.dataset, "counts": counts, "bins": rows, "facets": facets}
