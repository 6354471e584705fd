"""The explicit list of methods, and methods from files."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from kbench.benchmark.surrogates.resolve import module_of
from kbench.generation.search.methods import bayes, evolve, hill_climb, puct, random_search, written
from kbench.generation.search.methods.method import Method
from kbench.generation.search.settings import FilterSettings, RunSettings, in_file
from kbench.schemas import UnknownNameError, UserError

SEARCHES: Mapping[str, Method] = {
    one.name: one for one in (random_search.METHOD, hill_climb.METHOD, evolve.METHOD, puct.METHOD, bayes.METHOD)
}
"""Methods that search, by name. New ones come last: a language model's strategies rotate by the place in this list."""
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
    if name in written.NAMES:
        return written.METHOD
    plain = searchable(name.removeprefix(written.PREFIX))
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
    found = getattr(module_of(path.resolve()), name, None)
    if not isinstance(found, Method):
        raise UserError(
            f"{str(path)!r} has no method {name!r}; define {name} = Method(name, plan), as docs/extend.md does"
        )
    return found
