"""eval.yaml: what the Hub reads to show a dataset as a benchmark: its tasks, each a config and a split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbench.loaders.corpus.corpus import Corpus

TASKS: Mapping[str, str] = {"forecast": "pairs", "rank": "kernels", "validity": "kernels"}
"""The config each task's questions come from."""
SPLIT = "test"


def eval_facts(tasks: Mapping[str, str] = TASKS) -> dict[str, Any]:
    """The file's content for some tasks."""
    return {
        "name": "kbench",
        "description": "How fast will this GPU kernel run, and how sure are you?",
        "evaluation_framework": "kbench",
        "tasks": [{"id": task, "config": config, "split": SPLIT} for task, config in tasks.items()],
    }


def render_eval(corpus: Corpus) -> str | None:
    """The file for a corpus: the tasks it holds test rows for; None when there are none.

    Written as plain text, which needs no YAML library where corpora are written.
    """
    asked = {task: config for task, config in TASKS.items() if _has_test_rows(corpus, config)}
    if not asked:
        return None
    facts = eval_facts(asked)
    lines = [f"{name}: {value}" for name, value in facts.items() if name != "tasks"]
    lines.append("tasks:")
    for task in facts["tasks"]:
        lines += [f"{'-' if name == 'id' else ' '} {name}: {value}" for name, value in task.items()]
    return "\n".join(lines) + "\n"


def _has_test_rows(corpus: Corpus, config: str) -> bool:
    return config in corpus.configs and any(entry.split == SPLIT for entry in corpus.files(config))
