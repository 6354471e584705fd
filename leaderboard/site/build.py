"""Build the static site: one page, the data it loads when it needs it, and files to download."""

from __future__ import annotations

import dataclasses
import functools
import json
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.scoring.score import Scored
from kbench.benchmark.tracks import OVERALL, TRACK_NAMES
from kbench.leaderboard.scoring.results import Results, kept_between_builds
from kbench.leaderboard.site.answers import Answers
from kbench.leaderboard.site.kernels import corpus_files, latest_records
from kbench.leaderboard.site.page import KEYS, PREVIEW, entry_data, page_data, render_page
from kbench.leaderboard.site.shards import CHECK_SHARD, compact, shard, shard_text
from kbench.loaders.storage.atomic import Content, replace_together
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.loaders.corpus.corpus import Corpus

LOADED_LATER = ("links", "license", "inputs", "hardware", "training_data", "contamination", "curves", "scores")
"""Parts of an entry that the first view does without."""
HEADLINES = {i for i, (track, name) in enumerate(KEYS) if track == OVERALL or headline(track).name == name}
PAGES = ("schemas", "loaders", "benchmark/questions", "benchmark/problems", "leaderboard/site")
"""Folders whose code decides the pages of problems and kernels."""
BUILT = "data/files.json"
"""Names the files that a build wrote, so that the next removes those that it does not write."""
DRAW_DECIMALS = 4
"""Of bootstrap draws, whose quantiles are shown with three."""


def build(
    results: Sequence[Results],
    dataset: Mapping[str, Any],
    out: Path,
    *,
    corpus: Corpus | None = None,
    answers: Answers | None = None,
    links: Mapping[str, str] | None = None,
    address: str | None = None,
    probes: Mapping[str, Scored] | None = None,
    keep: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write the site.

    Args:
        results: scored entries, all on one dataset and split, with one seed and number of resamples.
        dataset: what `dataset_facts` says of it.
        out: folder to write into; created when missing, other files in it are left alone.
        corpus: the dataset, for the pages of problems and kernels.
        answers: forecasts, for an entry's drill-down and its forecasts on the kernel pages.
        links: where code, dataset and so on are found, by what they are called.
        address: where the site will be found; without it the page names its preview relative to itself, which most
            sites that show previews do not follow.
        probes: what needs no understanding of a kernel scores on the same questions.
        keep: whether files that the corpus alone decides are kept in the user's cache folder for the next build.
        tell: told what begins.

    Returns:
        The page's path.

    Raises:
        UserError: two entries have one id.
    """
    short, slices = [], []
    for result in results:
        short.append(_short(result))
        slices.append(f"{json.dumps(result.entry_id)}:{compact(entry_data(result)['scores'])}")
    if twice := [entry for entry, count in Counter(one.entry_id for one in short).items() if count > 1]:
        raise UserError(f"entry id {twice[0]!r} appears twice; rename one submission or raise its version")
    files: dict[str, Content] = {}
    if corpus is not None:
        tell("pages of problems and kernels")
        files |= _pages(corpus, keep)
    tell("pages of entries")
    data = page_data(short, dataset, probes) | {"links": dict(links or {}), "atlas": corpus is not None}
    data["records"] = [] if corpus is None else latest_records(corpus)
    data["main_gpu"] = None if corpus is None else next(iter(corpus.gpus()), None)
    ranked = dict.fromkeys([*(place["id"] for place in data["places"][OVERALL]), *(one.entry_id for one in short)])
    asked = {} if answers is None else answers.by_problem(list(ranked))
    data["asked"] = list(asked)
    for problem, forecasts in asked.items():
        files[f"data/forecasts/{problem}.js"] = functools.partial(
            lambda problem, make: shard(f"forecasts/{problem}", make()), problem, forecasts
        )

    @functools.lru_cache(maxsize=1)
    def of_entry(at: int) -> tuple[bytes, bytes]:
        more = {} if answers is None else answers.of_entry(short[at].entry_id)
        return _entry_files(results[at], more, data["columns"])

    for at, entry in enumerate(data["entries"]):
        del entry["curves"]
        # Made when they are written: those of thousands of entries do not fit into memory.
        files[f"data/entry/{entry['id']}.js"] = functools.partial(lambda at: of_entry(at)[0], at)
        files[f"data/{entry['id']}.json"] = functools.partial(lambda at: of_entry(at)[1], at)
    files["data/slices.js"] = shard_text("slices", "{" + ",".join(slices) + "}")
    for entry in data["entries"]:
        entry["scores"] = {key: entry["scores"][key] for key in ("all", entry["part"]) if key in entry["scores"]}
    files["data/scores.js"] = shard("scores", {entry["id"]: entry["scores"] for entry in data["entries"]})
    files[f"data/{CHECK_SHARD}.js"] = shard(CHECK_SHARD, False)
    files["data/leaderboard.json"] = compact(data).encode()
    files[PREVIEW.name] = PREVIEW.read_bytes()
    preview = PREVIEW.name if address is None else f"{address.rstrip('/')}/{PREVIEW.name}"
    first = data | {"entries": [_brief(entry) for entry in data["entries"]]}
    files["index.html"] = render_page(first, preview).encode()
    files |= dict.fromkeys(earlier_files(out) - files.keys())
    files[BUILT] = compact(sorted(name for name, content in files.items() if content is not None)).encode()
    replace_together(out, files)
    return out / "index.html"


def _pages(corpus: Corpus, keep: bool) -> dict[str, bytes]:
    """The files that the corpus alone decides."""
    return kept_between_builds(keep, "pages", (corpus.fingerprint,), PAGES, lambda: dict(corpus_files(corpus)))


def prepare(dataset: str | None) -> None:
    """Make and keep what of a site the dataset alone decides: half of the time, beside the scoring."""
    from kbench.benchmark.evaluate.options import Options
    from kbench.benchmark.questions.corpus_view import benchmark_of
    from kbench.leaderboard.board import kept_probes
    from kbench.loaders.corpus.corpus import Corpus

    corpus = Corpus.open(dataset)
    version = benchmark_of(corpus)
    kept_probes(version, Options().questions(version))
    _pages(corpus, keep=True)


def earlier_files(out: Path) -> set[str]:
    """Data files that an earlier build wrote there, such as those of an entry that is gone."""
    try:
        built = json.loads((out / BUILT).read_bytes())
    except (OSError, ValueError):
        return set()
    names = [name for name in built if isinstance(name, str)] if isinstance(built, list) else []
    return {name for name in names if name.startswith("data/") and ".." not in name}


def _short(result: Results) -> Results:
    """What places and the first view need of results: no slices by facet, no curves, draws of headlines alone."""
    scores = [score for score in result.scores if "=" not in score.slice]
    draws, core_draws = (
        {track: array("f", of_track[track]) for track in (*TRACK_NAMES, OVERALL) if track in of_track}
        for of_track in (result.draws, result.core_draws)
    )
    return dataclasses.replace(result, scores=scores, draws=draws, core_draws=core_draws, curves={})


def _entry_files(result: Results, more: dict[str, Any], columns: Sequence[str]) -> tuple[bytes, bytes]:
    """What the page loads of an entry, and all of it as JSON."""
    entry = entry_data(result)
    later = {name: entry[name] for name in LOADED_LATER}
    for name, draws in (("draws", result.draws), ("core_draws", result.core_draws)):
        later[name] = {track: np.round(values, DRAW_DECIMALS).tolist() for track, values in draws.items()}
    return (
        shard(f"entry/{entry['id']}", later | more),
        compact({"columns": columns, **entry, **more}).encode(),
    )


def _brief(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the first view shows of an entry: of its scores the headlines, with their intervals."""
    headlines = {
        key: [score[:3] if i in HEADLINES else [] for i, score in enumerate(scores)]
        for key, scores in entry["scores"].items()
    }
    return {name: value for name, value in entry.items() if name not in LOADED_LATER} | {"scores": headlines}
