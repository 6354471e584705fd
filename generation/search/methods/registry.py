"""The explicit list of methods."""

from __future__ import annotations

from collections.abc import Mapping

from kbench.generation.search.methods import evolve, hill_climb, puct, random_search, written
from kbench.generation.search.methods.method import Method
from kbench.schemas import UnknownNameError

SEARCHES: Mapping[str, Method] = {
    one.name: one for one in (random_search.METHOD, hill_climb.METHOD, evolve.METHOD, puct.METHOD)
}
"""Methods that search, by name."""


def search_method(name: str) -> Method:
    """One method that searches.

    Raises:
        UnknownNameError: with the nearest names.
    """
    if name not in SEARCHES:
        raise UnknownNameError("method", name, SEARCHES)
    return SEARCHES[name]


def method(name: str) -> Method:
    """The method a run's settings name: a search, kernels from a folder, or a search that starts from those.

    Raises:
        UnknownNameError: with the nearest names.
    """
    if name in written.NAMES:
        return written.METHOD
    return search_method(name.removeprefix(written.PREFIX))
