"""Describe a corpus: card, plots, ledger, tasks and metadata, generated from the data for its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kbench.loaders.card.card import render_card
from kbench.loaders.card.croissant import render_croissant
from kbench.loaders.card.findings import findings_of
from kbench.loaders.card.provenance import provenance_of
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import CARD, CROISSANT, EVAL, LEDGER, PLOTS
from kbench.loaders.summary.ledger import render_ledger


def describe(corpus: Corpus, folder: Path) -> dict[str, bytes | None]:
    """What describes a corpus: content by path in its folder, None for what an earlier description left there.

    The order is the one to write in: the card follows the plots it shows, and what goes is gone after it.
    """
    # Findings are about what kbench measured; of other people's figures it has nothing to explain.
    findings = findings_of(corpus) if provenance_of(corpus).ours else None
    files = {f"{PLOTS}/{name}": text for name, text in findings.plots.items()} if findings else {}
    if findings and findings.costs:
        files[LEDGER] = render_ledger(findings.costs)
    tasks = render_eval(corpus)
    if tasks is not None:
        files[EVAL] = tasks
    files |= {CROISSANT: render_croissant(corpus), CARD: render_card(corpus, findings)}
    made: dict[str, bytes | None] = {name: text.encode() for name, text in files.items()}
    left = [folder / LEDGER, folder / EVAL, *sorted((folder / PLOTS).glob("*.svg"))]
    return made | {name: None for path in left if (name := path.relative_to(folder).as_posix()) not in made}


TASKS = ("forecast", "edit", "rank", "select")
QUESTIONS, ASKED_SPLIT = "questions", "test"


def eval_facts() -> dict[str, Any]:
    """What the Hub reads to show a dataset as a benchmark: its tasks, each a config and a split.

    It names no evaluation framework: the Hub knows a closed list of them, and refuses a file with another.
    """
    return {
        "name": "kbench",
        "description": "How fast will this GPU kernel run, and how sure are you?",
        "tasks": [{"id": task, "config": QUESTIONS, "split": ASKED_SPLIT} for task in TASKS],
    }


def render_eval(corpus: Corpus) -> str | None:
    """The tasks' file, eval.yaml, for a corpus; None where it asks nothing."""
    asked = any(entry.split == ASKED_SPLIT for entry in corpus.files(QUESTIONS))
    return yaml.safe_dump(eval_facts(), sort_keys=False, allow_unicode=True) if asked else None
