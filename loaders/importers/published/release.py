"""The published release: names, announced figures, and which of its problems are ours.

docs/published-release.md tells what is known of it and what its importers do about each trap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kbench.loaders.importers.fields import slug

OWNER = "codezakh"
PREFIX = "gpu-forecasters-"
EVAL, PREDICTIONS, POOL, PAIRS, EVENTS = (
    "eval-set", "eval-set-predictions", "rl-training-pool", "discovery-pairs", "puct-search-events",
)  # fmt: skip
DATASETS = (EVAL, PREDICTIONS, POOL, PAIRS, EVENTS)
"""In the order they are imported."""

ANNOUNCED_ROWS: Mapping[str, int] = {EVAL: 424, PREDICTIONS: 8904, POOL: 2322, PAIRS: 1347}
ANNOUNCED_KERNELS, ANNOUNCED_PROBLEMS, ANNOUNCED_GPUS = 12_388, 118, 3
SURROGATES = (
    "gemini3_flash", "gpt_oss_120b", "gpt_oss_20b_untrained", "deepseek_v4", "trained_correctness",
    "trained_correctness_brier", "trained_correctness_crps",
)  # fmt: skip

FAMILY = "gpu_mode"
PROBLEMS: Mapping[str, str] = {
    "trimul": "trimul",
    "cross_entropy": "cross_entropy_fwd_bwd",
    "fp8_quant": "fp8_quant",
    "gdn_chunk_fwd_h": "gdn_chunk_fwd_h",
    "gdn_chunk_fwd_o": "gdn_chunk_fwd_o",
    "gdn_recompute_w_u": "gdn_recompute_w_u",
}
"""Packs of the release that are problems of ours, by our id."""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Which dataset a row comes from, at which commit."""

    dataset: str
    revision: str | None = None

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision else ""
        return f"{OWNER}/{PREFIX}{self.dataset}{at}"


def problem_of(name: str, family: str | None, field: str) -> tuple[str, str]:
    """Our id and family of a problem the release names; one we do not have keeps the release's words.

    Args:
        name: the release's name.
        family: the release's benchmark family, where it states one.
        field: where the name was read, for errors.
    """
    if name in PROBLEMS:
        return PROBLEMS[name], FAMILY
    group = slug(family, "benchmark_family") if family else "gpu_forecasters"
    return slug(f"{group}_{name}", field), group


def repository(dataset: str) -> str:
    """The dataset's id on the Hub."""
    return f"{OWNER}/{PREFIX}{dataset}"
