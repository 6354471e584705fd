"""kbench: how fast will this GPU kernel run, and how sure are you?"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # spares every command the import of typing
if TYPE_CHECKING:
    from typing import Any

    from kbench.benchmark.evaluate.evaluate import evaluate
    from kbench.benchmark.surrogates.cached import cached
    from kbench.benchmark.surrogates.protocol import Surrogate
    from kbench.benchmark.training.formats import training_pairs, training_rows
    from kbench.generation.explain import explain
    from kbench.generation.search.methods.method import Method
    from kbench.generation.search.state import Node, Operator, ProposalRequest, RunState
    from kbench.generation.single import search
    from kbench.harness.callables import bench, duel
    from kbench.harness.prune import prune
    from kbench.loaders.corpus.corpus import Corpus, load
    from kbench.loaders.corpus.writer import CorpusWriter
    from kbench.schemas import (
        Backend,
        Environment,
        Event,
        Forecast,
        KbenchError,
        Kernel,
        KernelCounters,
        KernelSource,
        LaunchPlan,
        LiveKernel,
        Measurement,
        Pair,
        PlanSummary,
        Problem,
        Query,
        Question,
        ReferenceTime,
        Score,
        Status,
        Submission,
        Trust,
        TuningTime,
        Workload,
    )

__version__ = "1.0.0"
__all__ = [
    "Backend",
    "Corpus",
    "CorpusWriter",
    "Environment",
    "Event",
    "Forecast",
    "KbenchError",
    "Kernel",
    "KernelCounters",
    "KernelSource",
    "LaunchPlan",
    "LiveKernel",
    "Measurement",
    "Method",
    "Node",
    "Operator",
    "Pair",
    "PlanSummary",
    "Problem",
    "ProposalRequest",
    "Query",
    "Question",
    "ReferenceTime",
    "RunState",
    "Score",
    "Status",
    "Submission",
    "Surrogate",
    "Trust",
    "TuningTime",
    "Workload",
    "__version__",
    "bench",
    "cached",
    "duel",
    "evaluate",
    "explain",
    "load",
    "prune",
    "search",
    "training_pairs",
    "training_rows",
]

# Where a public name lives, when it is not a record type. Imported on first use: `import kbench` costs nothing.
_PLACES = {
    "Corpus": "kbench.loaders.corpus.corpus",
    "CorpusWriter": "kbench.loaders.corpus.writer",
    "Method": "kbench.generation.search.methods.method",
    "Node": "kbench.generation.search.state",
    "Operator": "kbench.generation.search.state",
    "ProposalRequest": "kbench.generation.search.state",
    "RunState": "kbench.generation.search.state",
    "Surrogate": "kbench.benchmark.surrogates.protocol",
    "bench": "kbench.harness.callables",
    "cached": "kbench.benchmark.surrogates.cached",
    "duel": "kbench.harness.callables",
    "evaluate": "kbench.benchmark.evaluate.evaluate",
    "explain": "kbench.generation.explain",
    "load": "kbench.loaders.corpus.corpus",
    "prune": "kbench.harness.prune",
    "search": "kbench.generation.single",
    "training_pairs": "kbench.benchmark.training.formats",
    "training_rows": "kbench.benchmark.training.formats",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(_PLACES.get(name, "kbench.schemas")), name)
    if name == "schemas":
        return importlib.import_module("kbench.schemas")
    raise AttributeError(f"module 'kbench' has no attribute {name!r}")
