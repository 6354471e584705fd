"""Build the static site: one page, the data it loads when it needs it, and files to download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.scoring.score import Scored
from kbench.benchmark.tracks import OVERALL, TRACK_NAMES
from kbench.leaderboard.scoring.results import Results
from kbench.leaderboard.site.answers import Answers
from kbench.leaderboard.site.kernels import corpus_files
from kbench.leaderboard.site.page import KEYS, PREVIEW, page_data, render_page
from kbench.leaderboard.site.shards import CHECK_SHARD, compact, shard
from kbench.loaders.storage.atomic import replace_together
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.loaders.corpus.corpus import Corpus

LOADED_LATER = ("links", "license", "inputs", "hardware", "training_data", "contamination", "curves", "scores")
"""Parts of an entry that the first view does without."""
HEADLINES = {i for i, (track, name) in enumerate(KEYS) if track == OVERALL or headline(track).name == name}
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

    Returns:
        The page's path.

    Raises:
        UserError: the results were not all scored alike.
    """
    _check_comparable(results)
    files: dict[str, bytes | None] = {} if corpus is None else dict(corpus_files(corpus))
    data = page_data(results, dataset, probes) | {"links": dict(links or {}), "atlas": corpus is not None}
    data["main_gpu"] = None if corpus is None else next(iter(corpus.gpus()), None)
    asked = [] if answers is None else list(answers.by_problem())
    files |= {f"data/forecasts/{problem}.js": shard(f"forecasts/{problem}", value) for problem, value in asked}
    for result, entry in zip(results, data["entries"], strict=True):
        more = {} if answers is None else answers.of_entry(entry["id"])
        later = {name: entry[name] for name in LOADED_LATER}
        for name, draws in (("draws", result.draws), ("core_draws", result.core_draws)):
            later[name] = {track: np.round(values, DRAW_DECIMALS).tolist() for track, values in draws.items()}
        files[f"data/entry/{entry['id']}.js"] = shard(f"entry/{entry['id']}", later | more)
        files[f"data/{entry['id']}.json"] = compact({"columns": data["columns"], **entry, **more}).encode()
    data["asked"] = [problem for problem, _ in asked]
    files["data/slices.js"] = shard("slices", {entry["id"]: entry["scores"] for entry in data["entries"]})
    for entry in data["entries"]:
        entry["scores"] = {key: entry["scores"].get(key, []) for key in ("all", entry["part"]) if key}
        del entry["curves"]
    files["data/scores.js"] = shard("scores", {entry["id"]: entry["scores"] for entry in data["entries"]})
    files[f"data/{CHECK_SHARD}.js"] = shard(CHECK_SHARD, False)
    files["data/leaderboard.json"] = compact(data).encode()
    files[PREVIEW.name] = PREVIEW.read_bytes()
    preview = PREVIEW.name if address is None else f"{address.rstrip('/')}/{PREVIEW.name}"
    first = data | {"entries": [_brief(entry) for entry in data["entries"]]}
    files["index.html"] = render_page(first, preview).encode()
    replace_together(out, files)
    return out / "index.html"


def _brief(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the first view shows of an entry: of its scores the headlines, with their intervals."""
    headlines = {
        key: [score[:3] if i in HEADLINES else [] for i, score in enumerate(scores)]
        for key, scores in entry["scores"].items()
    }
    return {name: value for name, value in entry.items() if name not in LOADED_LATER} | {"scores": headlines}


def _check_comparable(results: Sequence[Results]) -> None:
    for name in ("dataset_fingerprint", "seed", "resamples"):
        values = sorted({str(getattr(result, name)) for result in results})
        if len(values) > 1:
            raise UserError(f"results differ in {name} ({', '.join(values)}); score all entries again in one go")
    for track in TRACK_NAMES:
        asked = sorted({score.rows for result in results for score in result.scores
                        if (score.track, score.slice) == (track, "all")})  # fmt: skip
        if len(asked) > 1:
            rows = ", ".join(f"{count:,}" for count in asked)
            raise UserError(f"results differ in the rows of {track} ({rows}); score all entries again on one split")
    ids = [result.entry_id for result in results]
    twice = sorted({entry for entry in ids if ids.count(entry) > 1})
    if twice:
        raise UserError(f"entry id {twice[0]!r} appears twice; rename one submission or raise its version")
