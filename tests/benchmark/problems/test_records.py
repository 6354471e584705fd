"""The problems' records are part of the shipped dataset, so declaring more about a problem must not change them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from kbench.benchmark.problems import problem
from kbench.benchmark.problems.registry import known
from kbench.benchmark.problems.retired import RETIRED
from kbench.schemas import Problem, from_dict

DATASET = Path(__file__).parents[3] / "benchmark" / "dataset" / "problems"


def test_every_record_equals_the_shipped_one() -> None:
    (path,) = DATASET.glob("*.parquet")
    shipped = {row["problem_id"]: from_dict(Problem, row) for row in pq.read_table(path).to_pylist()}
    assert set(shipped) <= set(known())
    assert set(RETIRED) <= set(shipped)
    assert shipped == {problem_id: problem(problem_id).record() for problem_id in shipped}
