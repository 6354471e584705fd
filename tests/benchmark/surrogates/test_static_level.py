"""The line through problems, and what a source says about shared memory and arithmetic units."""

from __future__ import annotations

from collections import Counter

import numpy as np

from kbench.benchmark.surrogates.static.model import Level, weighted
from kbench.benchmark.surrogates.static.problem_row import NAMES, problem_row
from kbench.benchmark.surrogates.static.source import numbers, tokens_of


def test_a_line_through_problems_follows_the_feature_that_decides() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 5))
    level = Level.of(features, 3.0 * features[:, 2] + 1.0)
    assert np.abs(level.predict(features) - (3.0 * features[:, 2] + 1.0)).max() < 1.0
    assert level.weights[2] > 2.5


def test_a_problem_outside_of_training_is_answered_like_the_nearest_inside() -> None:
    features = np.linspace(0.0, 1.0, 50)[:, None]
    level = Level.of(features, features[:, 0])
    assert level.predict(np.array([[1e6]])) == level.predict(np.array([[1.0]]))


def test_a_constant_feature_has_no_weight() -> None:
    features = np.stack([np.linspace(0.0, 1.0, 50), np.full(50, 7.0)], axis=1)
    assert Level.of(features, features[:, 0]).weights[1] == 0.0


def test_a_weighted_sum_of_a_row_does_not_depend_on_the_others() -> None:
    generator = np.random.default_rng(2)
    rows, weights = generator.normal(size=(1000, 9)), generator.normal(size=9)
    assert np.array_equal(weighted(rows, weights)[7:8], weighted(rows[7:8], weights))


def test_shared_arrays_are_sized_by_the_settings_they_name() -> None:
    source = "#define BK 8\n#define BP 128\n__shared__ float xs[2][BK][BP];\n"
    assert numbers(source, Counter(tokens_of(source)))["shared_elements"] == 11.0


def test_exact_products_are_told_from_fast_ones() -> None:
    exact, fast = 'tl.dot(a, b, input_precision="ieee")', 'tl.dot(a, b, input_precision="tf32x3")'
    found = [numbers(source, Counter(tokens_of(source))) for source in (exact, fast)]
    assert [(each["dot"], each["exact"], each["three_pass"]) for each in found] == [(1.0, 1.0, 0.0), (1.0, 0.0, 1.0)]


def test_a_reference_of_many_passes_is_guessed_to_take_longer() -> None:
    work = '[{"inputs": ["float32[1024,1024]"], "outputs": ["float32[1024,1024]"], "flops": 1e6, "min_bytes": 8e6}]'
    facts = '{"bandwidth_gbs": 4000, "fp32_tflops": 60, "bf16_tflops": 900, "sm_count": 132}'
    at = NAMES.index("problem:reference_over_floor")
    one, many = (
        problem_row(work, facts, f"PyTorch reference:\n{body}")[at]
        for body in ("torch.relu(x)", "torch.relu(x)\ntorch.exp(x)\ntorch.log(x)\ntorch.sin(x)")
    )
    assert one + 1.0 < many < one + 3.0
