"""Method: plans the next step of a run from its state. Pure: same state and generator, same plan."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kbench.generation.search.request import Request
from kbench.generation.search.state import RunState
from kbench.schemas import UnknownNameError

Plan = Callable[[RunState, int, random.Random], tuple[Request, ...]]
"""plan(state, count, rng) -> `count` requests for the next step."""


@dataclasses.dataclass(frozen=True, slots=True)
class Method:
    """A named way to choose what to propose next."""

    name: str
    plan: Plan


def methods() -> Mapping[str, Method]:
    """Every method by name."""
    from kbench.generation.search.methods import evolve, folder, hill_climb, puct, random_search

    found = (random_search.METHOD, hill_climb.METHOD, evolve.METHOD, puct.METHOD, folder.METHOD)
    return MappingProxyType({method.name: method for method in found})


def method(name: str) -> Method:
    """One method.

    Raises:
        UnknownNameError: with the nearest names.
    """
    return _named(name, methods())


def search_method(name: str) -> Method:
    """One method that searches, as the one for kernels that already exist does not.

    Raises:
        UnknownNameError: with the nearest names.
    """
    from kbench.generation.search.methods import folder

    return _named(name, {key: found for key, found in methods().items() if found is not folder.METHOD})


def _named(name: str, found: Mapping[str, Method]) -> Method:
    if name not in found:
        raise UnknownNameError("method", name, found)
    return found[name]
