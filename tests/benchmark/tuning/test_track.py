"""Track tune on a made-up table: times follow a known law, so what each strategy must reach is known."""

import itertools
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from kbench.benchmark.cli import evaluate
from kbench.benchmark.problems import TensorSpec, problem
from kbench.benchmark.problems.registry import known
from kbench.benchmark.problems.tuned import GROUPED, PREFIX
from kbench.benchmark.tuning.strategies import NEW_KERNEL, STRATEGIES, TunedKernel, by_forecast, kernels_of
from kbench.benchmark.tuning.track import KNOWN, NEW, UNSEEN, headline, outcome, outcomes
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import DataError, TuningTime, UnknownNameError, from_dict
from kbench.schemas.record import field_types

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
GENES = {"block": (16, 32, 64, 128, 256), "warps": (1, 2, 4, 8), "stages": (1, 2, 3)}


def made_up(family: str = "decode_bf16_tuned", gpu: str = "NVIDIA H200") -> list[dict[str, object]]:
    """The best block follows the batch size slowly; eight warps with the largest block fail."""
    rows: list[dict[str, object]] = []
    for values in itertools.product(*GENES.values()):
        config = dict(zip(GENES, values, strict=True))
        for place, batch in enumerate(BATCHES):
            away = math.log2(config["block"]) - (5 + math.log2(batch) / 4)
            time = 10 * (1 + 0.3 * away**2 + 0.2 * abs(math.log2(config["warps"]) - 2) + 0.1 * (3 - config["stages"]))
            works = (config["block"], config["warps"]) != (256, 8)
            rows.append({
                "kernel": family, "gpu": gpu, "split": "train", "shown": place % 3 != 1,
                "shape_json": json.dumps({"m": batch, "n": 4096}),
                "config_json": json.dumps(config), "status": "ok" if works else "launch_error",
                "runtime_us": time if works else None,
            })  # fmt: skip
    return rows


def test_strategies_reach_what_the_law_says_they_can() -> None:
    kernels = kernels_of(made_up())
    share = {name: headline(outcomes(kernels, strategy)["share_at_4"]) for name, strategy in STRATEGIES.items()}
    assert min(share["nearest_shape"], share["interpolated"]) > 0.97
    assert share["mean_rank"] > share["random"] + 0.05
    assert share["random"] < 0.85
    ten = {name: headline(outcomes(kernels, STRATEGIES[name], UNSEEN)["share_at_10_percent"]) for name in NEW_KERNEL}
    assert ten["gaussian_process"] > ten["random"]


@pytest.mark.parametrize(
    ("setting", "shows"),
    [(KNOWN, lambda place: place != 1), (NEW, lambda place: place % 3 != 1), (UNSEEN, lambda place: False)],
)
def test_a_strategy_sees_no_time_of_a_hidden_shape(setting: str, shows: Callable[[int], bool]) -> None:
    (kernel,) = kernels_of(made_up())
    visible: list[list[bool]] = []

    def spy(given: TunedKernel, shape: int, seen: Mapping[int, float], rng: np.random.Generator) -> int:
        visible.append(np.isfinite(given.times_us).any(axis=0).tolist())
        return len(seen)

    assert kernel.asked[0] == 1
    outcome(kernel, 1, spy, 1, setting)
    assert visible[0] == [shows(place) for place in range(len(BATCHES))]


def test_abstaining_reaches_the_best_at_full_cost_and_a_repeated_choice_is_refused() -> None:
    (kernel,) = kernels_of(made_up())
    abstained = outcome(kernel, 1, lambda *_: None, 4)
    assert (abstained.share, abstained.cost) == (1.0, 1.0)
    with pytest.raises(ValueError, match="chose configuration 0"):
        outcome(kernel, 1, lambda *_: 0, 4)


def test_a_forecast_orders_configurations_and_those_without_one_come_last() -> None:
    (kernel,) = kernels_of(made_up())
    forecasts = kernel.times_us.copy()
    best = int(np.argmin(kernel.times_us[:, 1]))
    assert outcome(kernel, 1, by_forecast({(kernel.family, kernel.gpu): forecasts}), 1, UNSEEN).share == 1.0
    forecasts[best, 1] = math.nan
    assert outcome(kernel, 1, by_forecast({(kernel.family, kernel.gpu): forecasts}), 1, UNSEEN).share < 1.0


def test_only_failures_measured_is_a_share_of_zero() -> None:
    (kernel,) = kernels_of(made_up())
    failing = [number for number, time in enumerate(kernel.times_us[:, 1]) if math.isinf(time)]
    assert len(failing) == 3
    assert outcome(kernel, 1, lambda _kernel, _shape, seen, _rng: failing[len(seen)], 2).share == 0.0


@pytest.mark.parametrize(("change", "message"), [("repeat", "twice"), ("drop", "has no row for")])
def test_a_table_with_a_row_too_many_or_too_few_is_refused(change: str, message: str) -> None:
    rows = made_up()
    with pytest.raises(DataError, match=message):
        kernels_of([*rows, rows[0]] if change == "repeat" else rows[1:])


def test_the_command_scores_strategies_on_a_corpus(tmp_path: Path) -> None:
    empty = dict.fromkeys(field_types(TuningTime))
    with CorpusWriter(tmp_path / "corpus") as writer:
        rows = [row | {"problem_id": "linear_decode_bf16", "split": "test"} for row in made_up()]
        writer.append("tuning", [from_dict(TuningTime, empty | row) for row in rows])
    arguments = ["--tracks", "tune", "--dataset", str(tmp_path / "corpus")]
    answer = CliRunner().invoke(
        evaluate, [*arguments, "--surrogate", "random", "--surrogate", "interpolated", "--json"]
    )
    assert answer.exit_code == 0, answer.output
    found = {(one["strategy"], one["setting"]): one for one in json.loads(answer.stdout)}
    assert set(found) == {(name, setting) for name in ("random", "interpolated") for setting in (KNOWN, NEW)} | {
        ("random", UNSEEN)
    }
    assert found["interpolated", KNOWN]["questions"] == len(BATCHES)
    assert found["interpolated", "new shape"]["reached"]["share_at_4"] == 1.0
    assert "interpolated" in CliRunner().invoke(evaluate, [*arguments, "--all-baselines"]).stdout
    wrong = CliRunner().invoke(evaluate, [*arguments, "--surrogate", "nearest"])
    assert isinstance(wrong.exception, UnknownNameError)


@pytest.mark.parametrize("name", GROUPED)
def test_the_floor_counts_no_matrix_of_an_expert_without_rows(name: str) -> None:
    definition = problem(PREFIX + name)
    for size in definition.sizes:
        specs = {spec.name: spec for spec in definition.inputs(size.params) if isinstance(spec, TensorSpec)}
        matrices = sum(spec.nbytes for spec in specs.values() if spec.name.startswith("weight"))
        unused = known()[name].count_bytes(size.params) - definition.count_bytes(size.params)
        for seed in range(4):
            ends = specs["offsets"].fill(torch.Generator().manual_seed(seed), specs["offsets"], "cpu")
            without = int((ends.diff(prepend=torch.zeros(1, dtype=ends.dtype)) == 0).sum())
            assert unused >= matrices * without // size.params["experts"]
