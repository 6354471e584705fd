"""`trl-prompt`: prompts for reinforcement learning, with what the rewards need beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from kbench.benchmark.surrogates.llm import SYSTEM, render
from kbench.benchmark.tasks.build import answered_pairs
from kbench.benchmark.training.material import Material
from kbench.benchmark.training.rows import ForecastPrompt, Message, WritePrompt
from kbench.schemas import UserError


def forecast_prompts(material: Material) -> Iterator[ForecastPrompt]:
    """Every pair whose kernels are in the split, asked as language models are asked in an evaluation.

    Raises:
        UserError: comments were asked for.
    """
    if material.comments:
        raise UserError("--comments does not fit --task forecast: a question never shows comments; leave it out")
    for query, pair in answered_pairs(material.corpus, material.split):
        asked = {kernel for kernel in (pair.anchor_id, pair.candidate_id) if kernel is not None}
        # A test split also asks about candidates that failed: they have no speedup to forecast.
        if pair.speedup is None or any((kernel, pair.gpu) not in material.kernels for kernel in asked):
            continue
        yield ForecastPrompt(
            prompt=(Message(role="system", content=SYSTEM), Message(role="user", content=render(query))),
            **material.where(material.kernels[pair.candidate_id, pair.gpu]),
            query_id=query.query_id,
            kind=pair.kind,
            speedup=pair.speedup,
            speedup_low=pair.speedup_low,
            speedup_high=pair.speedup_high,
            bin=pair.bin,
        )


def write_prompts(material: Material) -> Iterator[WritePrompt]:
    """One prompt per problem, backend and GPU of the split."""

    def cell(row: object) -> tuple[str, str, str]:
        assert isinstance(row, dict)
        return row["problem_id"], row["backend"], row["gpu"]

    for _, rows in groupby(sorted(material.kernels.values(), key=cell), key=cell):
        found = list(rows)
        speedups = [row["speedup"] for row in found if row["speedup"] is not None]
        yield WritePrompt(**material.task(found[0]), best_speedup=max(speedups, default=None))
