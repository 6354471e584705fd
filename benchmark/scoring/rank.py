"""Track rank: does it order a pool? Every figure is a mean over pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.rank.kendall import kendall
from kbench.benchmark.metrics.rank.ndcg import ndcg
from kbench.benchmark.metrics.rank.regret import FRACTIONS, regret_at
from kbench.benchmark.metrics.rank.spearman import spearman
from kbench.benchmark.metrics.rank.top_k_recall import top_k_recall

LEAST = 5
"""Fewest valid kernels of a pool worth ordering."""
NEAR = 0.2
"""The published claim is about finding a kernel within 20 % of the best."""


def percent(share: float) -> str:
    """A share as metric names carry it: 05 for 0.05."""
    return f"{round(100 * share):02d}"


def pool_values(scores: Floats, runtimes: Floats) -> dict[str, float]:
    """Every metric of one pool of valid kernels."""
    speeds = runtimes.min() / runtimes
    values = {"regret_at_10": regret_at(scores, runtimes, 0.1)}
    values["within_20_at_10"] = _near_share(scores, runtimes)
    values |= {
        "spearman": spearman(scores, speeds),
        "kendall": kendall(scores, speeds),
        "ndcg": ndcg(scores, speeds),
        "top_10_recall": top_k_recall(scores, speeds, 10),
    }
    values |= {f"regret_at_{percent(f)}": regret_at(scores, runtimes, f) for f in FRACTIONS if f not in (0.1, 1.0)}
    return values


def _near_share(scores: Floats, runtimes: Floats) -> float:
    """Chance that a kernel within 20 % of the best is among the top tenth."""
    far = (runtimes > (1 + NEAR) * runtimes.min()) + 1.0
    # Regret of a two-valued runtime is the chance that only far kernels were measured.
    return 1.0 - regret_at(scores, far, 0.1)


def rank_figures(
    pools: Sequence[Ints], problems: Sequence[str], scores: Floats, runtimes: Floats, resamples: int, seed: int
) -> Mapping[str, Figure]:
    """Every metric of the track.

    Args:
        pools: row positions of each pool's valid kernels, as long as LEAST or longer.
        problems: the problem of each pool.
        scores: [repeats, rows], higher means faster.
        runtimes: [rows].
        resamples: of the bootstrap, which draws problems.
        seed: of the bootstrap.
    """
    if not pools:
        return {}
    values = [pool_values(one[rows], runtimes[rows]) for one in scores for rows in pools]
    bootstrap = Bootstrap(np.array(list(problems) * len(scores)), resamples, seed)
    return {name: bootstrap.mean(np.array([value[name] for value in values])) for name in values[0]}
