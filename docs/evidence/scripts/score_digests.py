"""Score the shipped submissions and print a digest of each result, to be compared between machines.

    PYTHONPATH=src python docs/evidence/scripts/score_digests.py > digests.json

Equal digests mean that every figure, interval, draw and curve is equal to the last bit. Submissions are read as they
are, without the checks, so that a machine without the schema library can take part.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys

import numpy as np
import scipy

from kbench.benchmark.surrogates.table import read_forecasts
from kbench.leaderboard.board import SUBMISSIONS, load_questions, submission_paths
from kbench.leaderboard.score import score_submission
from kbench.schemas import Submission, from_dict


def main() -> None:
    """Print facts of the machine and a digest an entry."""
    questions = load_questions(None, None)
    digests = {}
    for path in submission_paths([SUBMISSIONS]):
        submission = from_dict(Submission, json.loads((path / "submission.json").read_text("utf-8")))
        result = score_submission(submission, read_forecasts(path / "forecasts.parquet"), questions)
        text = json.dumps(result.to_json(), sort_keys=True, allow_nan=False)
        digests[path.name] = hashlib.sha256(text.encode()).hexdigest()
    machine = {
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
    json.dump({**machine, "dataset": questions.dataset, "digests": digests}, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
