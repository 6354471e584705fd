"""Score the shipped submissions and print a digest of each result, to be compared between machines.

    PYTHONPATH=src python docs/evidence/scripts/score_digests.py > digests.json
    PYTHONPATH=src python docs/evidence/scripts/score_digests.py --against digests.json

Equal digests mean that every published figure, interval, draw and curve is equal to the last bit, and so is the text
of the results file. The figures before rounding are printed too: `--against` says, for each entry, whether the digests
agree, how many unrounded figures do not, by how much at most, and which published ones. Submissions are read as they
are, without the checks, so that a machine without the schema library can take part.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy
import sklearn

from kbench.benchmark.surrogates.isolation.table import read_forecasts
from kbench.leaderboard.board import SUBMISSIONS, load_questions, submission_paths
from kbench.leaderboard.scoring.results import Results
from kbench.leaderboard.scoring.rounding import rounded, rounded_figure
from kbench.leaderboard.scoring.score import exact_results
from kbench.schemas import Submission, from_dict


def figures(result: Results) -> dict[str, float]:
    """Every figure of a result by name; floats are written as their shortest exact decimal."""
    found: dict[str, float] = {"answered_share": result.answered_share}
    found |= {f"cost {name}": value for name, value in result.cost.items() if value is not None}
    for score in result.scores:
        values = {"value": score.value, "low": score.low, "high": score.high, "ceiling": score.ceiling}
        name = f"{score.track} {score.metric} {score.slice}"
        found |= {f"{name} {part}": value for part, value in values.items() if value is not None}
    for track, draws in result.draws.items():
        found |= {f"{track} draw {index}": draw for index, draw in enumerate(draws)}
    for curve, points in result.curves.items():
        found |= {f"{curve} {index} {axis}": point[axis] for index, point in enumerate(points) for axis in (0, 1)}
    return found


def entries() -> tuple[str, dict[str, dict[str, Any]]]:
    """The dataset's fingerprint, and of each entry the digest and the unrounded figures."""
    questions = load_questions(None, None)
    found = {}
    for path in submission_paths([SUBMISSIONS]):
        submission = from_dict(Submission, json.loads((path / "submission.json").read_text("utf-8")))
        exact = exact_results(submission, read_forecasts(path / "forecasts.parquet"), questions)
        text = json.dumps(rounded(exact).to_json(), sort_keys=True, allow_nan=False)
        found[path.name] = {"digest": hashlib.sha256(text.encode()).hexdigest(), "exact": figures(exact)}
    return questions.dataset, found


def difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """Where two machines' scores of one entry part."""
    one, other = here["exact"], there["exact"]
    shared = one.keys() & other.keys()
    return {
        "same_digest": here["digest"] == there["digest"],
        "figures": len(one),
        "only_here_or_there": len(one.keys() ^ other.keys()),
        "unrounded_differ": sum(one[name] != other[name] for name in shared),
        "largest_unrounded_difference": max((abs(one[name] - other[name]) for name in shared), default=0.0),
        "published_differ": sorted(name for name in shared if rounded_figure(one[name]) != rounded_figure(other[name])),
    }


def main() -> None:
    """Print facts of the machine, then the entries or how they differ from those of another machine."""
    dataset, found = entries()
    machine = {
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit_learn": sklearn.__version__,
        "pyarrow": pa.__version__,
        "dataset": dataset,
    }
    if sys.argv[1:2] == ["--against"]:
        other = json.loads(Path(sys.argv[2]).read_text("utf-8"))
        facts = {name: other[name] for name in machine}
        entered = {name: difference(one, other["entries"][name]) for name, one in found.items()}
        report = {"here": machine, "there": facts, "entries": entered}
    else:
        report = {**machine, "digests": {name: one["digest"] for name, one in found.items()}, "entries": found}
    json.dump(report, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
