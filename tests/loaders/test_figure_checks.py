"""Figures that two rows state must agree where this project measured both; what came from elsewhere is left alone."""

import dataclasses
import itertools
from typing import Any

import pytest

from kbench.loaders.checks.validate import table_issues
from kbench.loaders.corpus.conform import config_table
from kbench.loaders.splits import HELD_OUT, pair_split
from kbench.schemas import Kernel, Pair, PairKind
from kbench.schemas.bins import bin_of


def timed(build: Any, count: int, **changes: Any) -> list[Kernel]:
    """Kernels of one problem and GPU that were timed."""
    kernels = (build.kernel(16 * number, **changes) for number in itertools.count())
    return list(itertools.islice((kernel for kernel in kernels if kernel.runtime_us is not None), count))


def sibling(build: Any, anchor: Kernel, candidate: Kernel, **changes: Any) -> Pair:
    assert anchor.runtime_us is not None
    assert candidate.runtime_us is not None
    ratio = anchor.runtime_us / candidate.runtime_us
    figures = {"speedup": ratio, "speedup_low": None, "speedup_high": None, "bin": bin_of(ratio)}
    ends = {"anchor_id": anchor.kernel_id, "kind": PairKind.SIBLING}
    pair: Pair = build.pair(candidate, **(figures | ends | changes))
    return pair


def issues(**rows: Any) -> list[tuple[str | None, str]]:
    tables = {config: config_table(config, records) for config, records in rows.items()}
    return [(issue.field, issue.message) for issue in table_issues(tables)]


def test_a_sibling_pair_is_the_ratio_of_its_kernels_times(build: Any) -> None:
    one, other = timed(build, 2)
    good = sibling(build, one, other)
    assert issues(kernels=[one, other], pairs=[good]) == []
    swapped = sibling(build, one, other, speedup=1 / good.speedup, bin=bin_of(1 / good.speedup))
    found = issues(kernels=[one, other], pairs=[swapped])
    assert [field for field, _ in found] == ["speedup"]
    assert "anchor time over candidate time" in found[0][1]


def test_a_pair_is_compared_with_its_kernels_on_its_own_gpu(build: Any) -> None:
    one, other = timed(build, 2)
    elsewhere = [build.kernel(kernel.step, gpu="NVIDIA B200", runtime_us=1.0, runtime_low_us=1.0, runtime_high_us=1.0)
                 for kernel in (one, other)]  # fmt: skip
    assert issues(kernels=[*elsewhere, one, other], pairs=[sibling(build, one, other)]) == []


@pytest.mark.parametrize(("anchor", "candidate"), list(itertools.product(HELD_OUT, HELD_OUT)))
def test_the_column_form_of_a_pairs_split_agrees_with_the_row_form(build: Any, anchor: str, candidate: str) -> None:
    plain = timed(build, 2)
    one, other = (build.kernel(k.step, split=s) for k, s in zip(plain, (anchor, candidate), strict=True))
    pairs = [sibling(build, one, other, split=split, pair_id=f"{number:032x}") for number, split in enumerate(HELD_OUT)]
    found = issues(kernels=[one, other], pairs=pairs)
    assert [field for field, _ in found] == ["split"] * (len(HELD_OUT) - 1)
    right = [pair for pair in pairs if pair.split == pair_split(anchor, candidate)]
    assert issues(kernels=[one, other], pairs=right) == []


def test_a_kernels_figures_are_geometric_means_over_its_workloads(build: Any) -> None:
    (kernel,) = timed(build, 1)
    rows = on_sizes(build, kernel, {"small": 4.0, "large": 0.25})
    assert issues(kernels=[kernel], measurements=rows) == []
    found = issues(kernels=[kernel], measurements=rows[:1])
    assert [field for field, _ in found] == ["runtime_us", "speedup"]


def on_sizes(build: Any, kernel: Kernel, factors: dict[str, float]) -> list[Any]:
    """A measurement of a kernel for each workload: its own runtime by that factor."""
    return [
        build.measurement(
            kernel, measurement_id=f"{number:032x}", workload=size, runtime_us=kernel.runtime_us * factor,
            runtime_low_us=None, runtime_high_us=None, speedup=kernel.speedup / factor, speedup_low=None,
            speedup_high=None, env_id=None,
        )
        for number, (size, factor) in enumerate(factors.items())
    ]  # fmt: skip


def test_a_kernel_is_compared_only_where_every_workload_of_its_problem_was_measured(build: Any) -> None:
    (kernel,) = timed(build, 1)
    plain = build.problem(kernel.problem_id)
    sizes = tuple(dataclasses.replace(plain.workloads[0], name=name) for name in ("small", "large"))
    problem = dataclasses.replace(plain, workloads=sizes)
    whole = on_sizes(build, kernel, {"small": 4.0, "large": 0.25})
    assert issues(kernels=[kernel], measurements=whole, problems=[problem]) == []
    assert issues(kernels=[kernel], measurements=whole[:1], problems=[problem]) == []
    strange = on_sizes(build, kernel, {"small": 4.0, "of_no_problem": 4.0})
    assert issues(kernels=[kernel], measurements=strange, problems=[problem]) == []
    wrong = on_sizes(build, kernel, {"small": 4.0, "large": 4.0})
    found = issues(kernels=[kernel], measurements=wrong, problems=[problem])
    assert [field for field, _ in found] == ["runtime_us", "speedup"]
    sizeless = dataclasses.replace(plain, workloads=())
    found = issues(kernels=[kernel], measurements=wrong, problems=[sizeless])
    assert [field for field, _ in found] == ["runtime_us", "speedup"], "no size is known to be missing"


def test_rows_from_elsewhere_may_disagree(build: Any) -> None:
    one, other = timed(build, 2, origin="published", env_id=None)
    changes = {"origin": "published", "speedup": 7.0, "bin": bin_of(7.0), "split": "test"}
    pair = sibling(build, one, other, **changes)
    row = build.measurement(one, runtime_us=1.0, runtime_low_us=None, runtime_high_us=None, samples_us=None,
                            env_id=None, workload="published")  # fmt: skip
    problems = [build.problem("softmax")]
    found = issues(kernels=[one, other], pairs=[pair], measurements=[row], problems=problems)
    assert found == []
