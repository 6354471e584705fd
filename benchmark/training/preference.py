"""`trl-preference`: the faster of two kernels over the slower, where measurement leaves no doubt."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kbench.benchmark.training.material import Material, Row
from kbench.benchmark.training.rows import Preference


def preferences(material: Material) -> Iterator[Preference]:
    """The corpus's pairs of two kernels of the split that differ beyond both intervals, each pair of texts once a GPU.

    The prompt names the GPU, so another GPU's answer is another row, also where it is the reverse.
    """
    told: set[tuple[str, str, str]] = set()
    for pair in material.corpus.table("pairs", split=material.split).to_pylist():
        anchor = material.kernels.get((pair["anchor_id"], pair["gpu"]))
        candidate = material.kernels.get((pair["candidate_id"], pair["gpu"]))
        if anchor is None or candidate is None or anchor["backend"] != candidate["backend"]:
            continue
        chosen, rejected = (candidate, anchor) if (pair["speedup"] or 0) > 1 else (anchor, candidate)
        texts = material.source(chosen), material.source(rejected)
        if not beyond_doubt(chosen, rejected) or texts[0] == texts[1] or (*texts, pair["gpu"]) in told:
            continue
        told.add((*texts, pair["gpu"]))
        yield Preference(
            **material.task(chosen),
            chosen=material.answer(chosen),
            rejected=material.answer(rejected),
            margin=abs(math.log2(pair["speedup"])),
            pair_id=pair["pair_id"],
            chosen_id=chosen["kernel_id"],
            rejected_id=rejected["kernel_id"],
            chosen_speedup=chosen["speedup"],
            rejected_speedup=rejected["speedup"],
        )


def beyond_doubt(faster: Row, slower: Row) -> bool:
    """Whether two 95 % intervals are known and do not touch."""
    low, high = faster["speedup_low"], slower["speedup_high"]
    return low is not None and high is not None and low > high
