"""The board: find submissions, check them, score them."""

from __future__ import annotations

import dataclasses
import filecmp
import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.evaluate.folder import RESULTS
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.scoring.probes import probe_scores
from kbench.benchmark.scoring.score import BootstrapSettings, Bounds, Scored
from kbench.benchmark.surrogates.forecasts import ForecastTable, align
from kbench.leaderboard.scoring.flags import Copies, PackedForecasts, flags
from kbench.leaderboard.scoring.results import (
    SCORING,
    KeptResults,
    Results,
    cached_results,
    entry_id,
    kept_between_builds,
)
from kbench.leaderboard.scoring.score import score_submission
from kbench.leaderboard.submission.archive import KNOWN_FILES, METADATA_FILE
from kbench.leaderboard.submission.check import Checked, check
from kbench.leaderboard.submission.forecast_rows import Expected
from kbench.leaderboard.submission.metadata import skeleton
from kbench.leaderboard.submission.untrusted import Flaw, shown
from kbench.schemas import Submission, UserError

if TYPE_CHECKING:
    from kbench.benchmark.questions.asked import Tables
    from kbench.benchmark.questions.questions import Questions

SUBMISSIONS = Path(__file__).parent / "submissions"
"""The shipped entries: a folder of those that answer all of `test`, and one for each part of it."""
WHOLE = "test"
PARTS = (Options(subset="core"), Options(subset="core", shots=8))
"""Parts of the split that have entries of their own."""


def shipped(questions: Questions) -> list[Path]:
    """Shipped entries that answer these questions; some answer a part of the split alone."""
    # What was answered without any measured kernel in view does not compare with what was.
    names = [part_name(questions)] if questions.shots else [WHOLE, part_name(questions)]
    return [path for name in dict.fromkeys(filter(None, names)) for path in _entries(name, questions.dataset)]


def entries_text(questions: Questions) -> str:
    """How many shipped entries a board shows, and which of one's own."""
    places = [*_entries(WHOLE, questions.dataset), *local_entries()]
    for part in map(part_name, PARTS):
        places += [*_entries(part, questions.dataset), *local_entries(part)]
    mine = [path.name for path in places if not _as_shipped(path)]
    return f"{len(places) - len(mine)} shipped{f', {len(mine)} of yours: ' if mine else ''}{', '.join(mine)}"


def _as_shipped(entry: Path) -> bool:
    """Whether an entry is a shipped one, or a clone's copy of it."""
    ours = SUBMISSIONS / entry.parent.name / entry.name
    same, changed, _ = filecmp.cmpfiles(entry, ours, KNOWN_FILES, shallow=False)
    return METADATA_FILE in same and not changed


def local_submissions() -> Path | None:
    """`leaderboard/submissions` of the folder one stands in, or of one above it: of a checkout, or an author's own."""
    here = Path.cwd()
    places = (folder / "leaderboard" / "submissions" for folder in (here, *here.parents))
    return next((place for place in places if place.is_dir()), None)


def local_entries(part: str = "") -> list[Path]:
    """Submissions that lie in that folder by themselves, outside the folders of shipped ones.

    Args:
        part: what `kbench evaluate` asked them, by the results.json that it left beside them (`part_name`); without
            one they answer all of the split.
    """
    place = local_submissions()
    found = [] if place is None else sorted(path.parent for path in place.glob("*/submission.json"))
    return [folder for folder in found if _asked(folder) == part]


def _asked(folder: Path) -> str:
    """The part of the split that an entry's author asked, as an evaluation recorded it."""
    try:
        results = json.loads((folder / RESULTS).read_bytes())
        subset, shots = results["subset"], results["shots"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    known = {(options.subset, options.shots): part_name(options) for options in PARTS}
    return known.get((subset, shots), "") if isinstance(subset, str) and isinstance(shots, int) else ""


def _drafts() -> list[Path]:
    """Entries of the folder one stands in, which its owner may look at before they are described."""
    place = local_submissions()
    return [] if place is None else [path.parent for path in place.glob("**/submission.json")]


def _entries(name: str, dataset: str) -> list[Path]:
    """Shipped entries for a dataset and those beside one; where two have one folder's name, the latter's."""
    folders = {}
    for place in filter(None, (SUBMISSIONS, local_submissions())):
        for file in (place / name).glob(f"*/{METADATA_FILE}"):
            try:
                about = json.loads(file.read_bytes())["dataset_fingerprint"]
            except (ValueError, KeyError, TypeError):
                about = dataset  # for the check to refuse
            if about == dataset:
                folders[file.parent.name] = file.parent
    return [folders[each] for each in sorted(folders)]


def part_name(questions: Questions | Options) -> str:
    """What the questions are called when they are a part of the split, such as core or core-8-shots."""
    shots = f"{questions.shots}-shots" if questions.shots else None
    return "-".join(filter(None, (questions.subset, shots)))


def expected_of(questions: Questions, whole: Questions | None = None) -> Expected:
    """What a submission must answer.

    Args:
        questions: those that it is scored on.
        whole: those of the whole split, where only a part of it is scored; answers to the rest do no harm.
    """
    ids = [query.query_id for query in questions.queries]
    asked = set(ids)
    others = [query.query_id for query in whole.queries if query.query_id not in asked] if whole is not None else []
    pairs = [ids[at] for at in questions.pair_queries.tolist()]
    return Expected(questions.dataset, ids, pairs, others, questions.split)


def submission_paths(given: Sequence[Path]) -> list[Path]:
    """The submissions named; a folder of submissions stands for everything in it.

    Nothing is skipped: an entry whose submission.json has a wrong name must not go unnoticed.
    """
    paths: list[Path] = []
    for path in given:
        inside: list[Path] = []
        if path.is_dir() and not any((path / name).exists() for name in KNOWN_FILES):
            inside = sorted(p for p in path.iterdir() if not p.name.startswith(".") and p.name != "README.md")
        paths += inside or [path]
    return paths


def check_all(
    paths: Sequence[Path], expected: Expected | None, drafts: Collection[Path] = ()
) -> Iterator[tuple[str, Checked]]:
    """Check submissions, each alone and then for the name of an earlier one: their results would share a file.

    Args:
        paths: submissions, or folders of submissions.
        expected: what they must answer; None checks the format alone.
        drafts: submissions whose authors need not have said yet what only they know.

    Yields:
        Path and outcome, one after the other: the forecasts of all may not fit into memory.
    """
    owners: dict[str, str] = {}
    names: dict[str, str] = {}
    for path in submission_paths(paths):
        one = check(path, expected, draft=path in drafts)
        if one.submission is not None:
            name = one.submission.name
            owner = owners.setdefault(entry_id(one.submission), str(path))
            alike = names.setdefault(skeleton(name), name)
            fix = None
            if owner != str(path):
                fix = f"{owner} has the same name and version; choose another name or raise the version"
            elif alike != name:
                fix = f"looks like {alike!r}, the name of another entry; choose another"
            if fix is not None:
                flaw = Flaw(METADATA_FILE, "name and version", shown(f"{name} {one.submission.version}"), fix)
                one = dataclasses.replace(one, flaws=(*one.flaws, flaw))
        yield str(path), one


def check_report(outcomes: Iterable[tuple[str, Checked]]) -> dict[str, Any]:
    """What a check of submissions found, as plain JSON values."""
    rows = [
        {"path": path, "file": f.file, "field": f.field, "value": f.value, "message": f.message}
        for path, one in outcomes
        for f in one.flaws
    ]
    return {"ok": not rows, "errors": rows}


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A submission that passed the check, with its forecasts in the order of the queries."""

    checked: Checked
    table: ForecastTable

    @property
    def submission(self) -> Submission:
        """Its metadata."""
        assert self.checked.submission is not None
        return self.checked.submission

    @property
    def name(self) -> str:
        """Name and version."""
        return f"{self.submission.name} {self.submission.version}"


def read_entries(
    paths: Sequence[Path],
    questions: Questions,
    refuse: Callable[[str], None] | None = None,
    expected: Expected | None = None,
    drafts: Collection[Path] = (),
) -> Iterator[Entry]:
    """Check submissions and read their forecasts, one after the other.

    Args:
        paths: submissions, or folders of submissions.
        questions: what they were asked.
        refuse: told why each submission that has problems is left out.
        expected: what they must answer, where that is known already.
        drafts: submissions whose authors need not have said yet what only they know.

    Raises:
        UserError: a submission has problems and nobody is told of it, or none is left; the message names the first.
    """
    expected = expected or expected_of(questions)
    ids = list(expected.query_ids)
    reasons: list[str] = []
    usable = 0
    for path, one in check_all(paths, expected, drafts):
        if one.ok:
            usable += 1
            yield Entry(one, align(one.forecasts, ids))
            continue
        more = f" (and {len(one.flaws) - 1} more: kbench leaderboard check {path})" if one.flaws[1:] else ""
        # The flaw of a path that is no submission names it already.
        where = "" if Path(path).name == one.flaws[0].file else f"{path}: "
        reasons.append(f"{where}{one.flaws[0]}{more}")
        if refuse is None:
            raise UserError(reasons[0])
        refuse(reasons[-1])
    if reasons and not usable:
        raise UserError(reasons[0])


def score_all(
    paths: Sequence[Path],
    questions: Questions,
    settings: BootstrapSettings | None = None,
    tell: Callable[[str], None] = lambda name: None,
    refuse: Callable[[str], None] | None = None,
    expected: Expected | None = None,
    cache: Path | None = None,
) -> KeptResults:
    """Check and score submissions; `read_entries` says what it raises, `score_entries` what the arguments mean."""
    return score_entries(read_entries(paths, questions, refuse, expected), questions, settings, tell, cache)


def score_entries(
    entries: Iterable[Entry],
    questions: Questions,
    settings: BootstrapSettings | None = None,
    tell: Callable[[str], None] = lambda name: None,
    cache: Path | None = None,
    sliced: bool = True,
    look: Callable[[Entry, PackedForecasts], None] = lambda entry, packed: None,
) -> KeptResults:
    """Score entries, each as it is read; flags compare each with all the others.

    Args:
        entries: what was handed in.
        questions: what they were asked, with the answers.
        settings: of the bootstrap.
        tell: called with each entry's name before it is scored.
        cache: folder that keeps results, so that an unchanged entry is not scored again, and results need no memory.
        sliced: whether to score each slice as well.
        look: called with each entry, whose forecasts are then given up, and with what is kept of them.
    """
    settings = settings or BootstrapSettings()
    limits: dict[str, Bounds] = {}
    key = (questions.fingerprint, str(settings.resamples), str(settings.seed), "sliced" if sliced else "whole")

    def score(entry: Entry) -> Results:
        tell(entry.name)
        return score_submission(entry.submission, entry.table, questions, settings, limits, sliced)

    kept: list[Results | Path] = []
    raised: list[list[str]] = []
    packed: list[PackedForecasts] = []
    for entry in entries:
        again = functools.partial(score, entry)
        made_of = (entry.checked.forecasts_digest, *key)
        path, result = (None, again()) if cache is None else cached_results(cache, made_of, entry.submission, again)
        kept.append(path or result)
        raised.append(flags(entry.submission, entry.table, questions, result.scores))
        packed.append(PackedForecasts.of(result.entry_id, entry.name, entry.table))
        look(entry, packed[-1])
    copies = Copies(packed)
    return KeptResults(kept, [copies.flags(at) + own for at, own in enumerate(raised)])


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    """What the site is built from."""

    parts: Sequence[Questions]
    """Parts of the split that have entries of their own."""
    results: Sequence[Results]
    """Of the entries, and of those of the parts."""
    probes: Mapping[str, Scored]
    """What needs no understanding of a kernel scores on the whole split."""


def score_board(
    questions: Questions,
    corpus: Tables | None,
    submissions: Path | None,
    cache: Path,
    tell: Callable[[str], None],
    refuse: Callable[[str], None],
    look: Callable[[Entry, PackedForecasts], None] = lambda entry, packed: None,
    ready: Callable[[], None] = lambda: None,
) -> Board:
    """Score every entry of a board.

    Args:
        questions: of the whole split.
        corpus: the one they came from, as the benchmark asks it; None where they came from private labels.
        submissions: folder of submissions; with none the shipped ones, those that answer a part of the split too, and
            those that lie in `leaderboard/submissions` here.
        cache: folder that keeps results.
        tell: told what begins: each entry that is scored, and the probes.
        refuse: told why a submission is left out.
        look: called with each entry that answers the whole split, as in `score_entries`.
        ready: waits for what another process makes of the dataset (`prepare` of the site).
    """
    places = [*shipped(questions), *local_entries()] if submissions is None else [submissions]
    # A board of one's own shows a model before its author has described it.
    entries = read_entries(places, questions, refuse, drafts=_drafts())
    scoring = functools.partial(score_entries, tell=lambda name: tell(f"scoring {name}"), cache=cache)
    results = scoring(entries, questions, look=look)
    parts: list[Questions] = []
    of_parts: list[Results] = []
    for options in PARTS if submissions is None else ():
        paths = [*_entries(part_name(options), questions.dataset), *local_entries(part_name(options))]
        if paths and corpus is not None:
            part = options.questions(corpus)
            parts.append(part)
            answered = read_entries(paths, part, refuse, expected_of(part, questions), drafts=_drafts())
            scored = scoring(answered, part, sliced=False)
            of_parts += [as_part(result, part_name(part)) for result in scored]
    probes: Mapping[str, Scored] = {}
    if corpus is not None:
        tell("probes")
        ready()
        probes = kept_probes(corpus, questions)
    return Board(parts, results.followed_by(of_parts), probes)


def kept_probes(corpus: Tables, questions: Questions) -> Mapping[str, Scored]:
    """What needs no understanding of a kernel scores on these questions; kept for the next build."""
    return kept_between_builds(
        True, "probes", (questions.fingerprint,), SCORING, functools.partial(probe_scores, corpus, questions)
    )


def as_part(result: Results, part: str) -> Results:
    """Results on a part of the split, as a slice of the whole: there are no figures over all queries."""
    scores = [dataclasses.replace(score, slice=part) for score in result.scores if score.slice == "all"]
    # Entries with measured kernels in view are compared among themselves alone.
    return dataclasses.replace(result, scores=scores, draws={}, core_draws=result.draws if part == "core" else {})
