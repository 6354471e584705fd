"""The plan of the tuning table: draws, order, splits by template, and what a cut-off run leaves."""

from __future__ import annotations

import json
from collections import Counter

from kbench.benchmark.problems import problem
from kbench.benchmark.tuning.table import kernels_of
from kbench.generation.study.tuning import (
    HELD_OUT,
    draw,
    parts,
    shape_groups,
    spread,
    table_rows,
    templates,
    tuned_families,
)


def test_more_configurations_begin_with_the_same_ones_and_none_comes_twice() -> None:
    family = next(family for family in tuned_families() if family.name == "layer_norm_tuned")
    few, many = draw(family, 4), draw(family, 9)
    assert [one.config for one in many[:4]] == [one.config for one in few]
    assert len({one.kernel.kernel_id for one in many}) == 9


def test_a_wave_of_kernels_gets_all_its_shapes_before_the_next_and_a_block_before_the_next_block() -> None:
    configured = {family.name: draw(family, 3) for family in tuned_families()[-5:]}
    planned = list(parts(configured, shapes=6, block=2, wave=2))
    problems = [part.kernels[0].problem_id for part in planned]
    first = [several[0].kernel.problem_id for several in configured.values()]
    assert set(problems[: problems.index(first[2])]) == set(first[:2])
    asked = Counter((kernel.kernel_id, name) for part in planned for kernel in part.kernels for name in part.workloads)
    assert set(asked.values()) == {1}
    assert len(asked) == 5 * 3 * 6
    assert [len(part.kernels) for part in planned] == sorted((len(part.kernels) for part in planned), reverse=True)
    assert sorted(spread(11)) == list(range(11))
    groups = shape_groups(problem(first[0]), 6)
    assert max(map(len, groups)) <= 3


def measured(kernel: str, shape: int, config: int) -> dict[str, object]:
    return {
        "kernel": kernel, "problem_id": "p", "gpu": "g", "shape_json": json.dumps({"m": shape}),
        "config_json": json.dumps({"block": config}), "status": "ok", "runtime_us": 1.0 + config, "started_at": "now",
    }  # fmt: skip


def test_a_cut_off_shape_is_left_out_and_kernels_of_a_template_share_a_split() -> None:
    rows = [measured("mla_decode_tuned", shape, config) for shape in range(8) for config in range(4)]
    rows += [measured("mla_decode_tuned", 8, config) for config in range(2)]
    found = table_rows(rows)
    (kernel,) = kernels_of(found)
    assert (kernel.split, kernel.times_us.shape, int(kernel.shown.sum())) == ("test", (4, 8), 3)
    assert "started_at" not in found[0]
    assert set(HELD_OUT) < set(templates().values())
    assert set(templates()) == {family.name for family in tuned_families()}
