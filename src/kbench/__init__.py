"""kbench: how fast will this GPU kernel run, and how sure are you?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from kbench.benchmark.evaluation.run import Evaluation
    from kbench.benchmark.surrogates.protocol import Surrogate
    from kbench.generation.single import search
    from kbench.loaders.corpus.corpus import Corpus, load
    from kbench.loaders.corpus.writer import CorpusWriter
    from kbench.schemas import (
        Backend,
        Environment,
        Event,
        Forecast,
        KbenchError,
        Kernel,
        KernelSource,
        Measurement,
        Pair,
        Problem,
        Query,
        Score,
        Status,
        Submission,
        Workload,
    )

__version__ = "0.1.0"
__all__ = [
    "Backend",
    "Corpus",
    "CorpusWriter",
    "Environment",
    "Event",
    "Forecast",
    "KbenchError",
    "Kernel",
    "KernelSource",
    "Measurement",
    "Pair",
    "Problem",
    "Query",
    "Score",
    "Status",
    "Submission",
    "Surrogate",
    "Workload",
    "__version__",
    "evaluate",
    "load",
    "search",
]

# Where a public name lives, when it is not a record type. Imported on first use: `import kbench` costs nothing.
_PLACES = {
    "Corpus": "kbench.loaders.corpus.corpus",
    "CorpusWriter": "kbench.loaders.corpus.writer",
    "Surrogate": "kbench.benchmark.surrogates.protocol",
    "load": "kbench.loaders.corpus.corpus",
    "search": "kbench.generation.single",
}


def evaluate(surrogate: str, dataset: str | None = None, *, out: Path | None = None, **options: Any) -> Evaluation:
    """Score a surrogate, as `kbench evaluate` does.

    Args:
        surrogate: whatever `--surrogate` takes: a built-in name, an entry point, `module:attribute`,
            `path/to/file.py[:attribute]` or a forecasts file.
        dataset: a corpus folder or a Hub id; the shipped dataset by default.
        out: a folder that keeps forecasts as they arrive, so that the same call resumes an interrupted one.
        **options: fields of `kbench.benchmark.evaluation.run.Options`, such as `split`, `tracks` or `limit`.

    Returns:
        The evaluation. `.scored.scores()` gives every figure as a `Score` record.
    """
    from kbench.benchmark.evaluation.run import Options
    from kbench.benchmark.evaluation.run import evaluate as run
    from kbench.loaders.corpus.corpus import Corpus

    return run(surrogate, Corpus.open(dataset), Options(**options), out=out)


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(_PLACES.get(name, "kbench.schemas")), name)
    raise AttributeError(f"module 'kbench' has no attribute {name!r}")
