"""eval.yaml: what the Hub reads to show a dataset as a benchmark: its tasks, each a config and a split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from kbench.loaders.corpus.corpus import Corpus

TASKS: Mapping[str, str] = dict.fromkeys(("forecast", "edit", "rank", "select"), "questions")
"""The config each task's questions come from."""
WITHOUT_QUESTIONS: Mapping[str, str] = {"forecast": "pairs", "rank": "kernels", "validity": "kernels"}
"""The same for a corpus that states none."""
SPLIT = "test"


def eval_facts(tasks: Mapping[str, str] = TASKS) -> dict[str, Any]:
    """The file's content for some tasks.

    It names no evaluation framework: the Hub knows a closed list of them, and refuses a file with another.
    """
    return {
        "name": "kbench",
        "description": "How fast will this GPU kernel run, and how sure are you?",
        "tasks": [{"id": task, "config": config, "split": SPLIT} for task, config in tasks.items()],
    }


def render_eval(corpus: Corpus) -> str | None:
    """The file for a corpus: the tasks it holds test rows for; None when there are none."""
    tasks = TASKS if "questions" in corpus.configs else WITHOUT_QUESTIONS
    asked = {task: config for task, config in tasks.items() if _has_test_rows(corpus, config)}
    return yaml.safe_dump(eval_facts(asked), sort_keys=False, allow_unicode=True) if asked else None


def _has_test_rows(corpus: Corpus, config: str) -> bool:
    return config in corpus.configs and any(entry.split == SPLIT for entry in corpus.files(config))
