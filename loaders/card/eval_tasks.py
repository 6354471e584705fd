"""eval.yaml: what the Hub reads to show a dataset as a benchmark: its tasks, each a config and a split."""

from __future__ import annotations

from typing import Any

import yaml

from kbench.loaders.corpus.corpus import Corpus

TASKS = ("forecast", "edit", "rank", "select")
CONFIG = "questions"
SPLIT = "test"


def eval_facts() -> dict[str, Any]:
    """The file's content.

    It names no evaluation framework: the Hub knows a closed list of them, and refuses a file with another.
    """
    return {
        "name": "kbench",
        "description": "How fast will this GPU kernel run, and how sure are you?",
        "tasks": [{"id": task, "config": CONFIG, "split": SPLIT} for task in TASKS],
    }


def render_eval(corpus: Corpus) -> str | None:
    """The file for a corpus; None where it asks nothing."""
    asked = CONFIG in corpus.configs and any(entry.split == SPLIT for entry in corpus.files(CONFIG))
    return yaml.safe_dump(eval_facts(), sort_keys=False, allow_unicode=True) if asked else None
