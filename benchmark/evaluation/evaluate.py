"""`kbench.evaluate`: what `kbench evaluate` does, from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbench.benchmark.evaluation.run import Evaluation, Options
from kbench.benchmark.evaluation.run import evaluate as evaluate_on
from kbench.benchmark.surrogates.protocol import Compiler
from kbench.loaders.corpus.corpus import Corpus


def evaluate(
    surrogate: str,
    dataset: str | None = None,
    *,
    out: Path | None = None,
    compiler: Compiler | None = None,
    **options: Any,
) -> Evaluation:
    """Score a surrogate.

    Args:
        surrogate: whatever `--surrogate` takes: a built-in name, an entry point, `module:attribute`,
            `path/to/file.py[:attribute]` or a forecasts file.
        dataset: a corpus folder or a Hub id; the shipped dataset by default.
        out: a folder that keeps forecasts as they arrive, so that the same call resumes an interrupted one.
        compiler: for surrogates that look at compiler output;
            `kbench.generation.executors.compiler.compiler_facts` compiles on this machine.
        **options: fields of `kbench.benchmark.evaluation.run.Options`, such as `split`, `tracks` or `limit`.

    Returns:
        The evaluation. `.scored.scores()` gives every figure as a `Score` record.
    """
    return evaluate_on(surrogate, Corpus.open(dataset, verified=True), Options(**options), out=out, compiler=compiler)
