"""What assembly needs to know of every source text; parsing thousands of them is the slow part, so cores share it."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import multiprocessing
import os
from collections.abc import Iterable, Mapping

from kbench.loaders.source.strip import strip_comments
from kbench.loaders.source.structure import structure_id
from kbench.schemas.ids import content_hash

FEW = 200
"""Texts below which starting processes costs more than it saves."""


@dataclasses.dataclass(frozen=True, slots=True)
class TextFacts:
    """Two identities of a source text."""

    stripped: str
    """Hash of the text without comments."""
    structure: str
    """Hash of its shape."""


def facts_of(source: str) -> TextFacts:
    """The identities of one text."""
    return TextFacts(content_hash(strip_comments(source)), structure_id(source))


def text_facts(sources: Iterable[str]) -> Mapping[str, TextFacts]:
    """The identities of many texts, by text."""
    distinct = list(dict.fromkeys(sources))
    if len(distinct) < FEW:
        return {source: facts_of(source) for source in distinct}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        return dict(zip(distinct, pool.map(facts_of, distinct, chunksize=32), strict=True))
