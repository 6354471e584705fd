"""The explicit list of methods, and methods from files."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from pathlib import Path

from kbench.benchmark.surrogates.resolve import module_of
from kbench.generation.search.methods import evolve, hill_climb, puct
from kbench.generation.search.methods.method import Method
from kbench.generation.search.settings import FilterSettings, RunSettings, in_file
from kbench.generation.search.state import FRESH, ProposalRequest, RunState
from kbench.schemas import UnknownNameError, UserError


def plan_fresh(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Fresh candidates only."""
    return (FRESH,) * count


def plan_bayes(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Half fresh candidates, half children as in evolution; a model of the run chooses among them."""
    fresh = count // 2
    return (*(FRESH,) * fresh, *evolve.plan(state, count - fresh, rng))


RANDOM = Method("random", plan_fresh)
"""Every candidate is drawn afresh: the baseline for the other methods."""
BAYES = Method("bayes", plan_bayes, FilterSettings(surrogate="online", draw=8, unsure_share=0.0))
"""Bayesian optimisation: many candidates for each one measured."""
SEARCHES: Mapping[str, Method] = {
    one.name: one for one in (RANDOM, hill_climb.METHOD, evolve.METHOD, puct.METHOD, BAYES)
}
"""Methods that search, by name. New ones come last: a language model's strategies rotate by the place in this list."""
WRITTEN = Method("written", plan_fresh)
"""No search: kernels of a folder are brought in as they are, step by step; the proposer says when there are no more."""
WRITTEN_NAMES = (WRITTEN.name, "none")
"""Older logs say `none`."""
WRITTEN_PREFIX = "written+"
"""Before the name of a method that varies kernels from a folder."""
DEFAULT_ATTRIBUTE = "METHOD"


def searchable(name: str) -> str:
    """The name of a method that searches, checked: one of the list, or `path/to/file.py[:NAME]`.

    Raises:
        UnknownNameError: no such method; with the nearest names.
        UserError: there is no such file, or it has no such method.
    """
    if in_file(name):
        _from_file(name)
    elif name not in SEARCHES:
        raise UnknownNameError("method", name, SEARCHES)
    return name


def method(name: str) -> Method:
    """The method a run's settings name: a search, kernels from a folder, or a search that starts from those.

    Raises:
        UnknownNameError: with the nearest names.
        UserError: there is no such file, or it has no such method.
    """
    if name in WRITTEN_NAMES:
        return WRITTEN
    plain = searchable(name.removeprefix(WRITTEN_PREFIX))
    return _from_file(plain) if in_file(plain) else SEARCHES[plain]


def filter_of(settings: RunSettings) -> FilterSettings | None:
    """How a run chooses among its candidates: by its settings or else by its method; None where it measures all."""
    return settings.filter or method(settings.method).guide


@functools.cache
def _from_file(spec: str) -> Method:
    place, _, attribute = spec.partition(".py")
    path = Path(place + ".py")
    if not path.is_file():
        raise UserError(f"method file {str(path)!r} does not exist; give the path of a Python file")
    name = attribute.removeprefix(":") or DEFAULT_ATTRIBUTE
    loaded = getattr(module_of(path.resolve()), name, None)
    if not isinstance(loaded, Method):
        raise UserError(
            f"{str(path)!r} has no method {name!r}; define {name} = Method(name, plan), as docs/extend.md does"
        )
    return loaded
