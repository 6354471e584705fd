"""From submissions to results to the site: what the leaderboard commands do."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.surrogates.forecasts.table import align
from kbench.benchmark.tasks.build import build_questions
from kbench.leaderboard.scoring.flags import flags
from kbench.leaderboard.scoring.results import Results, entry_id, read_results
from kbench.leaderboard.scoring.score import score_submission
from kbench.leaderboard.submission.archive import KNOWN_FILES, METADATA_FILE
from kbench.leaderboard.submission.check import Checked, Expected, check
from kbench.leaderboard.submission.finding import Finding
from kbench.leaderboard.submission.labels import read_labels
from kbench.leaderboard.submission.untrusted import shown
from kbench.loaders.storage.atomic import replace_together
from kbench.schemas import UserError, bins

if TYPE_CHECKING:
    from kbench.benchmark.tasks.questions import Questions
    from kbench.loaders.corpus.corpus import Corpus

HERE = Path(__file__).parent
SUBMISSIONS = HERE / "submissions"
RESULTS = HERE / "results"


def load_questions(dataset: str | None, labels: Path | None, split: str = "test") -> Questions:
    """The questions entries are scored on: of a corpus, or of a maintainer's private labels."""
    if labels is not None:
        return read_labels(labels)
    from kbench.loaders.corpus.corpus import Corpus

    return build_questions(Corpus.open(dataset), split)


def expected_of(questions: Questions) -> Expected:
    """What a submission must answer."""
    ids = [query.query_id for query in questions.queries]
    return Expected(questions.dataset, ids, frozenset(ids[at] for at in questions.pairs.query.tolist()))


def submission_paths(given: Sequence[Path]) -> list[Path]:
    """The submissions named; a folder of submissions stands for all that lies in it.

    What is no submission is not left out: an entry whose submission.json has a wrong name must not pass unseen.
    """
    return [path for one in given for path in _inside(one) or [one]]


def _inside(path: Path) -> list[Path]:
    """What a folder of submissions holds; nothing where the path is a submission itself."""
    if not path.is_dir() or any((path / name).exists() for name in KNOWN_FILES):
        return []
    return sorted(child for child in path.iterdir() if not child.name.startswith(".") and child.name != "README.md")


def check_all(paths: Sequence[Path], expected: Expected | None) -> dict[str, Checked]:
    """Check submissions, each alone and then for names that an earlier one has: their results would share a file."""
    outcomes: dict[str, Checked] = {}
    owners: dict[str, str] = {}
    for path in submission_paths(paths):
        one = check(path, expected)
        if one.submission is not None:
            owner = owners.setdefault(entry_id(one.submission), str(path))
            if owner != str(path):
                fix = f"{owner} is called so too; choose another name or raise the version"
                finding = Finding(METADATA_FILE, "name and version", shown(_name(one)), fix)
                one = dataclasses.replace(one, findings=(*one.findings, finding))
        outcomes[str(path)] = one
    return outcomes


def score_all(
    paths: Sequence[Path],
    questions: Questions,
    settings: BootstrapSettings | None = None,
    tell: Callable[[str], None] = lambda name: None,
) -> list[Results]:
    """Check and score submissions; flags compare each with all the others.

    Args:
        paths: submissions, or folders of submissions.
        questions: what they were asked, with the answers.
        settings: of the bootstrap.
        tell: called with each entry's name before it is scored.

    Raises:
        UserError: a submission has problems; the message names the first and counts the rest.
    """
    expected = expected_of(questions)
    checked = check_all(paths, expected)
    for path, one in checked.items():
        if not one.ok:
            more = f" (and {len(one.findings) - 1} more: kbench leaderboard check {path})" if one.findings[1:] else ""
            # A path that is no submission at all is named by its finding already.
            where = "" if Path(path).name == one.findings[0].file else f"{path}: "
            raise UserError(f"{where}{one.findings[0]}{more}")
    ids = list(expected.query_ids)
    tables = {path: align(one.forecasts, ids) for path, one in checked.items()}
    scored: list[Results] = []
    for name, one in checked.items():
        assert one.submission is not None
        assert one.forecasts is not None
        tell(_name(one))
        result = score_submission(one.submission, one.forecasts, questions, settings)
        others = {_name(checked[other]): tables[other] for other in checked if other != name}
        found = flags(one.submission, tables[name], questions, others, result.scores)
        scored.append(dataclasses.replace(result, flags=found))
    return scored


def _name(checked: Checked) -> str:
    assert checked.submission is not None
    return f"{checked.submission.name} {checked.submission.version}"


def write_results(results: Sequence[Results], folder: Path) -> list[Path]:
    """One JSON file an entry, all of them or none: results of one scoring belong together."""
    files = {f"{result.entry_id}.json": _file_text(result).encode() for result in results}
    folder.mkdir(parents=True, exist_ok=True)
    replace_together(folder, files)
    return [folder / name for name in files]


def _file_text(result: Results) -> str:
    return json.dumps(result.to_json(), ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def differences(results: Sequence[Results], folder: Path) -> list[str]:
    """Where a folder's results files are not, byte for byte, what these results would be written as."""
    fix = "score the submissions again and keep what comes out"
    expected = {f"{result.entry_id}.json": _file_text(result) for result in results}
    found = {path.name: path.read_text("utf-8") for path in folder.glob("*.json")}
    missing = [f"{name} is missing; {fix}" for name in sorted(expected.keys() - found.keys())]
    stray = [f"{name} belongs to no submission; remove it" for name in sorted(found.keys() - expected.keys())]
    changed = [f"{name} is not what its submission scores; {fix}" for name in sorted(expected.keys() & found.keys())
               if expected[name] != found[name]]  # fmt: skip
    return [*missing, *stray, *changed]


def read_all_results(folder: Path) -> list[Results]:
    """Every results file of a folder, by entry id.

    Raises:
        UserError: the folder holds none.
    """
    found = [read_results(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    if not found:
        raise UserError(
            f"{folder} holds no results; make them with: kbench leaderboard score SUBMISSION --out {folder}"
        )
    return found


def dataset_facts(questions: Questions, corpus: Corpus | None) -> Mapping[str, Any]:
    """What the site's dataset page shows."""
    counts: dict[str, Any] = {"Queries": f"{len(questions.queries):,}", "Split": questions.split}
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
