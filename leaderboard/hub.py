"""What the Hugging Face Hub reads of a benchmark: eval.yaml in the dataset, .eval_results in model repositories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbench.benchmark.metrics.metric import Shown
from kbench.benchmark.metrics.registry import of_track
from kbench.leaderboard.scoring.results import Results
from kbench.loaders.card.eval_tasks import TASKS, eval_facts
from kbench.loaders.storage.atomic import write_atomically


def hub_metric(track: str) -> str:
    """The one value per task that the Hub shows: the track's first metric of which a higher value is better."""
    return next(metric.name for metric in of_track(track) if metric.shown is Shown.BOARD and metric.sign > 0)


def eval_yaml() -> dict[str, Any]:
    """The dataset's eval.yaml."""
    return eval_facts()


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


def write_yaml(value: object, path: Path) -> None:
    """Write YAML in a fixed order."""
    import yaml

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
