"""Published forecasts scored a second time, against answers cut at the edges their prompt described."""

from __future__ import annotations

import dataclasses

from kbench.benchmark.evaluate import Evaluation
from kbench.benchmark.scoring.score import Settings, score
from kbench.benchmark.tasks.published import with_prompt_edges

PROMPT = "published-prompt"
RELEASE = "codezakh/gpu-forecasters-"
"""How origins of the published release begin."""


def is_published(evaluation: Evaluation) -> bool:
    """Whether these are forecasts that came with the published release, judged on its own questions."""
    origins = evaluation.questions.pairs.origin
    return evaluation.target.kind == "forecasts" and len(origins) > 0 and all(o.startswith(RELEASE) for o in origins)


def rescored(evaluation: Evaluation) -> Evaluation:
    """The same forecasts against the prompt's edges; only the tracks asked about pairs change."""
    questions = with_prompt_edges(evaluation.questions)
    options = dataclasses.replace(evaluation.options, edges=PROMPT)
    settings = Settings(resamples=options.resamples, seed=options.seed)
    scored = score(questions, evaluation.table, settings)
    return dataclasses.replace(evaluation, questions=questions, options=options, scored=scored)
