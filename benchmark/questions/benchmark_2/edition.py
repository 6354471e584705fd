"""The edition of benchmark 2: which kernels of held-out problems it asks about, those for validation included.

A dataset grows from release to release, and a benchmark must not: entries would no longer compare. So benchmark 2 asks
about the held-out kernels of the release it began with, `edition.json` has their ids, and what joined them later is
left out of questions and of training alike. A corpus that lacks one of these kernels is another one and asked whole.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

EDITION = Path(__file__).with_name("edition.json")
DIGITS = 10
"""Of a kernel's id, which tell all kernels apart."""
HELD_OUT = ("validation", "test", "test_near", "test_seen")


@functools.cache
def edition() -> Mapping[str, str]:
    """The split of every kernel that is asked about, by the first digits of its id."""
    recorded = json.loads(EDITION.read_text("utf-8"))
    return {digits: split for split in HELD_OUT for digits in recorded[split]}


def keep_edition(splits: Mapping[str, str], clusters: Mapping[str, str]) -> dict[str, str]:
    """Splits by kernel as the edition has them, without kernels that came too late.

    Args:
        splits: by kernel, of a whole corpus.
        clusters: of the same kernels.
    """
    asked, digits = edition(), {kernel: kernel[:DIGITS] for kernel in splits}
    if not asked.keys() <= set(digits.values()):
        return dict(splits)
    seen = {clusters[kernel] for kernel in splits if asked.get(digits[kernel]) == "test_seen"}
    return {
        kernel: asked.get(digits[kernel], split)
        for kernel, split in splits.items()
        if digits[kernel] in asked or (split not in HELD_OUT and clusters[kernel] not in seen)
    }
