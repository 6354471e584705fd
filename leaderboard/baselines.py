"""The built-in surrogates as entries like any other: forecast and keep the submission."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.folder import write_folder
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.surrogates.resolve import BASELINES
from kbench.leaderboard.submission.archive import FORECAST_FILES, METADATA_FILE

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.protocol import Compiler
    from kbench.benchmark.tasks.asked import Tables
    from kbench.benchmark.tasks.questions import Questions
from kbench.loaders.storage.atomic import replace_together
from kbench.loaders.storage.scratch import temporary_folder

LEARN_FROM_SHOTS = ("nearest", "online", "static")
"""Built-ins that use the measured kernels of a query; the other built-ins ignore them."""


def write_baselines(
    corpus: Tables,
    questions: Questions,
    folder: Path,
    names: Sequence[str] | None = None,
    tell: Callable[[str], None] = lambda name: None,
) -> list[Path]:
    """Forecast with every built-in and write each one's submission.

    Args:
        corpus: what they learn from.
        questions: what they are asked.
        folder: gets one folder per surrogate, which replaces one of the same name.
        names: which built-ins; by default all, with shots those that use them.
        tell: called with each name before its work begins.
    """
    names = names or (LEARN_FROM_SHOTS if questions.shots else BASELINES)
    for name in names:
        tell(name)
        write_submission(name, corpus, questions, folder / name)
    return [folder / name for name in names]


def write_submission(
    surrogate: str, corpus: Tables, questions: Questions, target: Path, compiler: Compiler | None = None
) -> None:
    """Forecast with a surrogate and write its submission into a folder, which may hold an earlier one.

    Args:
        surrogate: as `kbench evaluate` takes it.
        corpus: what it learns from.
        questions: what it is asked.
        target: the folder.
        compiler: for surrogates that look at compiler output.
    """
    with temporary_folder() as scratch:
        # One resample: the figures of this run are not kept, the leaderboard computes its own.
        made = evaluate_on(surrogate, corpus, Options(resamples=1), questions=questions, compiler=compiler)
        files = write_folder(made, scratch)
        kept = (METADATA_FILE, FORECAST_FILES[0])
        replace_together(target, {file: files[file].read_bytes() for file in kept})
