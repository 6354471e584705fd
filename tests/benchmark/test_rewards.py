"""Rewards: TRL's signature, the metrics' values, and a gate that no failed kernel passes."""

import dataclasses
import json
import math

import numpy as np
import pytest
import scoringrules

from kbench.benchmark import rewards
from kbench.benchmark.metrics.forecast import brier_rows, rps
from kbench.schemas import Backend, KernelSource, Status, bins

SHARES = [0.0, 0.05, 0.1, 0.4, 0.3, 0.1, 0.05, 0.0]


def answer(shares: list[float]) -> str:
    return "Thinking.\n" + json.dumps({"probabilities": dict(zip(map(str, bins.NUMBERS), shares, strict=True))})


def certain(number: int) -> str:
    return answer([float(each == number) for each in bins.NUMBERS])


def test_forecast_rewards_are_one_less_the_metric() -> None:
    completions = [answer(SHARES), [{"role": "assistant", "content": certain(8)}]]
    columns = {"bin": [5, 1], "problem_id": ["a", "b"]}
    assert rewards.brier(completions, **columns) == pytest.approx([1 - brier_rows([SHARES], [5])[0], 0.0])
    assert rewards.rps(completions, **columns) == pytest.approx([1 - rps([SHARES], [5]), 0.0])


def test_crps_is_that_of_the_distribution_on_bin_centers() -> None:
    centers = np.log2([bins.center(number) for number in bins.NUMBERS])
    speedup = 1.3
    # scoringrules takes equally likely members: twenty of them have these shares.
    members = np.repeat(centers, np.round(np.array(SHARES) * 20).astype(int))
    expected = scoringrules.crps_ensemble(math.log2(speedup), members, estimator="nrg")
    span = centers[-1] - centers[0]
    assert rewards.crps([answer(SHARES)], speedup=[speedup]) == pytest.approx([1 - expected / span])
    assert rewards.crps([certain(8)], speedup=[1e-3]) == pytest.approx([0.0])


@pytest.mark.parametrize("reward", [rewards.brier, rewards.rps, rewards.crps])
def test_no_answer_earns_nothing_and_the_truth_earns_most(reward: rewards.Reward) -> None:
    columns = {"bin": [4, 4, 4], "speedup": [bins.center(4)] * 3}
    silent, true, near = reward(["no idea", certain(4), certain(5)], **columns)
    assert silent == 0.0
    assert true == pytest.approx(1.0)
    assert 0.0 <= near < 1.0


def test_no_failed_kernel_scores_as_high_as_a_correct_one() -> None:
    statuses, speedups = ["ok", "ok", "incorrect", "ok"], [2.0, 1e-9, None, 1e9]
    found = rewards.log_speedup([""] * 4, status=statuses, speedup=speedups)
    assert found == [1.0, -4.0, -5.0, 4.0]
    assert rewards.correctness([""] * 4, status=statuses) == [1.0, 1.0, 0.0, 1.0]


@dataclasses.dataclass(frozen=True)
class Found:
    status: Status
    speedup: float | None


def test_a_judged_reward_measures_each_kernel_once_and_refuses_answers_without_one() -> None:
    seen: list[KernelSource] = []

    def judge(kernel: KernelSource) -> Found:
        seen.append(kernel)
        return Found(Status.OK, 2.0) if "good" in kernel.source else Found(Status.INCORRECT, None)

    good, bad = (f"```python\ndef run(x):\n    return x  # {word}\n```" for word in ("good", "bad"))
    completions = [good, [{"role": "assistant", "content": bad}], "I cannot.", good]
    columns = {"problem_id": ["relu"] * 4, "backend": ["triton"] * 4, "best_speedup": [1.0] * 4}
    fast = rewards.judged(rewards.log_speedup, judge)
    assert fast(completions, **columns) == [1.0, -5.0, -5.0, 1.0]
    assert fast.__name__ == "log_speedup"
    assert [kernel.backend for kernel in seen] == [Backend.TRITON] * 2
    assert rewards.judged(rewards.correctness, judge)(completions, **columns) == [1.0, 0.0, 0.0, 1.0]
