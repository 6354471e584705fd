"""Results as the Hugging Face Hub reads them: the .eval_results file of a model repository."""

from __future__ import annotations

from typing import Any

from kbench.benchmark.metrics.metric import Shown
from kbench.benchmark.metrics.registry import of_track
from kbench.leaderboard.scoring.results import Results
from kbench.loaders.card.eval_tasks import TASKS


def hub_metric(track: str) -> str:
    """The one value per task that the Hub shows: the track's first metric whose higher values are better."""
    return next(metric.name for metric in of_track(track) if metric.shown is Shown.BOARD and metric.sign > 0)


def eval_results(result: Results, dataset_id: str, revision: str | None = None) -> list[dict[str, Any]]:
    """The entries of a model repository's .eval_results file.

    Args:
        result: the scored entry.
        dataset_id: the dataset on the Hub.
        revision: Git commit of the dataset there, when known; the fingerprint in the notes names its content.
    """
    rows = []
    for track in TASKS:
        metric = hub_metric(track)
        value = result.value(track, metric)
        if value is None:
            continue
        rows.append(
            {
                "dataset": {"id": dataset_id, "task_id": track} | ({} if revision is None else {"revision": revision}),
                "value": round(value, 6),
                "date": result.submission.created_at[:10],
                "notes": f"{metric}; kbench {result.kbench}, content {result.dataset_fingerprint}, seed {result.seed}",
            }
        )
    return rows
