"""Published forecasts scored a second time, against answers cut at the edges their prompt described."""

from __future__ import annotations

import dataclasses
from typing import Any

from kbench.benchmark.evaluation.run import Evaluation
from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.tasks.published import with_prompt_edges

PROMPT = "published-prompt"
RELEASE = "codezakh/gpu-forecasters-"
"""How origins of the published release begin."""


def is_published(evaluation: Evaluation) -> bool:
    """Whether these are forecasts that came with the published release, judged on its own questions."""
    origins = evaluation.questions.pairs.origin
    return evaluation.target.kind == "forecasts" and len(origins) > 0 and all(o.startswith(RELEASE) for o in origins)


def submission_facts(evaluation: Evaluation) -> dict[str, Any]:
    """What is known of the authors' entries: fields of submission.json."""
    trained = evaluation.name.startswith("trained_")
    return {
        "authors": ("Khan", "Chen", "Cho", "Stengel-Eskin", "Bansal"),
        "license": "not stated by the release",
        "links": ("https://arxiv.org/abs/2605.31464",),
        "kind": "language_model",
        "hardware": "not stated by the release",
        "training_data": "the release's training pool, by reinforcement learning" if trained else "not stated",
        "contamination": (
            "docstrings of bin-filling candidates tell the target speedup, and the models may have read them; the "
            "origin slices keep those rows apart"
        ),
    }


def rescored(evaluation: Evaluation) -> Evaluation:
    """The same forecasts against the prompt's edges; only the tracks asked about pairs change."""
    questions = with_prompt_edges(evaluation.questions)
    options = dataclasses.replace(evaluation.options, edges=PROMPT)
    settings = BootstrapSettings(resamples=options.resamples, seed=options.seed)
    # The ceiling is drawn with our edges, and the release states no intervals to draw it from.
    scored = dataclasses.replace(score(questions, evaluation.table, settings), ceilings={})
    return dataclasses.replace(evaluation, questions=questions, options=options, scored=scored)
