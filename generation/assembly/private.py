"""A private edition: held-out questions without answers, and nothing in the corpus that gives one away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbench.benchmark.questions.answers import without_answer, without_figures
from kbench.benchmark.questions.build import TEST_SPLITS
from kbench.schemas import Question

BY_KERNEL = ("measurements", "repeats", "plans", "counters")
"""Tables whose rows tell how one kernel did."""


def private_edition(tables: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Sequence[Any]], list[Question]]:
    """The tables without what is held out, and the questions whose answers were taken out of them.

    Known kernels of few-shot questions keep their figures. The log of a search that tried a hidden kernel goes as a
    whole: which kernels became parents tells which were fast.

    Args:
        tables: rows of every config of a corpus.
    """
    questions: Sequence[Question] = tables["questions"]
    shown = {key for one in questions for key in one.known_ids}
    hidden = {
        one.kernel_id: one.run_id
        for one in tables["kernels"]
        if one.split in TEST_SPLITS and one.kernel_id not in shown
    }
    runs = set(hidden.values())
    left = {name: [row for row in tables[name] if row.kernel_id not in hidden] for name in BY_KERNEL}
    kernels = [without_figures(one) if one.kernel_id in hidden else one for one in tables["kernels"]]
    asked = [without_answer(one) if one.split in TEST_SPLITS else one for one in questions]
    events = [row for row in tables["events"] if row.run_id not in runs]
    held_out = [one for one in questions if one.split in TEST_SPLITS]
    return {**tables, **left, "kernels": kernels, "questions": asked, "events": events}, held_out
