"""How one run trains: fixed when it begins, so that a resumed run is the same run."""

from __future__ import annotations

import dataclasses
from typing import Any

from kbench.benchmark.rewards import FORECAST_REWARDS
from kbench.schemas import UnknownNameError, UserError

WARM_UP, CROSS_ENTROPY, RPS = "warm-up", "cross-entropy", "rps"
SUPERVISED = (WARM_UP, CROSS_ENTROPY, RPS)
OBJECTIVES = (*SUPERVISED, *FORECAST_REWARDS)
BASELINES = ("leave-one-out", "mean")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that decides what a run learns."""

    model: str
    """Weights to start from: a folder, a GGUF file or a Hub id."""
    objective: str
    """What is learnt: one of OBJECTIVES."""
    seed: int = 0
    """Of the order of prompts and of every sampled answer."""
    steps: int = 150
    batch: int = 64
    """Prompts per step."""
    group: int = 8
    """Answers sampled per prompt."""
    baseline: str = BASELINES[0]
    """What a reward is compared with: the mean of the group's other answers, or of all of them."""
    learning_rate: float = 1e-5
    warm_up_pairs: int = 4000
    """Pairs set apart for the warm-up; the other objectives take the rest."""
    batch_tokens: int = 49152
    """Most tokens read at once; more are read in several passes with the same result."""
    validate_every: int = 25
    validation_prompts: int = 256

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UnknownNameError("objective", self.objective, OBJECTIVES)
        if self.baseline not in BASELINES:
            raise UnknownNameError("baseline", self.baseline, BASELINES)
        low = {"steps": 1, "batch": 1, "group": 2, "warm_up_pairs": 0, "batch_tokens": 1, "validate_every": 1}
        for name, least in low.items():
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not self.learning_rate > 0:
            raise UserError(f"learning rate is {self.learning_rate}; it must be above 0")

    @property
    def reinforced(self) -> bool:
        """Whether answers are sampled and rewarded."""
        return self.objective in FORECAST_REWARDS

    def rate(self, step: int) -> float:
        """Learning rate of a step: up over the first twentieth, then down to a tenth in a straight line."""
        rising = (step + 1) / max(1, self.steps // 20)
        return self.learning_rate * min(rising, 1.0 - 0.9 * step / self.steps)

    def record(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return dataclasses.asdict(self)
