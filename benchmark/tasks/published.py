"""The edges the published release put into its prompt, which are not those it labelled by.

Its labels follow our bins; its models were told these. A forecaster that obeyed the prompt is judged fairly only
against labels cut the same way, so published forecasts are scored both ways and the result says which.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from kbench.benchmark.tasks.questions import Questions

PROMPT_EDGES_NAME = "published-prompt"
"""What `--edges` calls them."""
PROMPT_EDGES = (0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0)
"""An upper edge belongs to the bin below it."""


def with_prompt_edges(questions: Questions) -> Questions:
    """The same questions with answers cut at the prompt's edges."""
    numbers = np.searchsorted(np.asarray(PROMPT_EDGES), questions.pairs.speedup, side="left") + 1
    return dataclasses.replace(questions, pairs=dataclasses.replace(questions.pairs, bin=numbers.astype(np.int64)))
