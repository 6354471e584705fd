"""Submission metadata for an evaluation: complete, except for what only the surrogate's author knows."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from kbench import __version__
from kbench.benchmark.evaluation.results import EvaluationCost
from kbench.benchmark.evaluation.run import Evaluation
from kbench.benchmark.surrogates.resolve import SurrogateTarget
from kbench.schemas import Submission

UNKNOWN = "unknown: "
"""How a text begins that is left for the author to write."""
KNOWN_TO_AUTHORS = (
    "never fitted, calibrated or selected on test kernels; but its authors knew the test problems' names and ranges of "
    "speedup, and the test scores of earlier models, pool by pool, when they chose its features"
)
CONTAMINATION = {"static": KNOWN_TO_AUTHORS, "static-compiler": KNOWN_TO_AUTHORS}
"""What may be said against a built-in that learns; the others look at nothing that could leak."""
KINDS = dict.fromkeys(("static", "static-compiler", "nearest"), "statistical") | {"llm": "language_model"}
RELEASE = "codezakh/gpu-forecasters-"
"""How origins of the published release begin."""


def submission(evaluation: Evaluation) -> Submission:
    """Metadata of a leaderboard entry."""
    built_in = evaluation.target.built_in
    known = evaluation.target.documented
    cost = EvaluationCost.of(evaluation)
    parts = [part.name for part in evaluation.target.leaves]
    contamination = next((CONTAMINATION[name] for name in parts if name in CONTAMINATION), "none known")
    made = Submission(
        schema_version=Submission.VERSION,
        name=_name(evaluation),
        version=__version__ if built_in else "1",
        authors=("The kbench authors",) if built_in else (f"{UNKNOWN}name the authors",),
        organisation=None,
        license="Apache-2.0" if built_in else f"{UNKNOWN}state the licence",
        links=(),
        kind=_kind(evaluation.target),
        open_weights=known,
        inputs=evaluation.inputs,
        hardware="CPU" if known else f"{UNKNOWN}state the hardware",
        training_data=_training_data(evaluation),
        contamination=contamination if known else f"{UNKNOWN}state what it may have seen",
        total_seconds=cost.total_s,
        total_tokens=cost.total_tokens,
        dataset_fingerprint=evaluation.questions.dataset,
        tracks=evaluation.questions.tracks,
        repeats=evaluation.table.repeats,
        created_at=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    return dataclasses.replace(made, **_release_facts(evaluation)) if is_published(evaluation) else made


def _name(evaluation: Evaluation) -> str:
    """The surrogate's, and the shots if it had any: with and without them it is two entries."""
    shots = f"-{evaluation.questions.shots}-shots" if evaluation.questions.shots else ""
    return (evaluation.name.replace("_", "-")[: 64 - len(shots)] or "surrogate") + shots


def _kind(target: SurrogateTarget) -> str:
    kinds = {KINDS.get(part.name, "baseline" if part.built_in else "statistical") for part in target.leaves}
    if target.parts:
        # A map learned on validation problems is statistics, whatever it maps.
        kinds = (kinds - {"baseline"}) or {"statistical"}
    return kinds.pop() if len(kinds) == 1 else "hybrid"


def _training_data(evaluation: Evaluation) -> str:
    if evaluation.target.documented and evaluation.name != "uniform":
        return "the dataset's training and validation splits"
    return "none" if evaluation.name == "uniform" else f"{UNKNOWN}state the training data"


def is_published(evaluation: Evaluation) -> bool:
    """Whether these are forecasts that came with the published release, judged on its own questions."""
    origins = evaluation.questions.pairs.origin
    return evaluation.target.kind == "forecasts" and len(origins) > 0 and all(o.startswith(RELEASE) for o in origins)


def _release_facts(evaluation: Evaluation) -> dict[str, Any]:
    """What is known about the entries of the release's authors."""
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
