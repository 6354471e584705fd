"""The explicit list of methods, and methods from files; and repairs, which methods with parents have in common.

Some requests of a plan go to failed kernels instead, for proposers that can read what went wrong.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import sys
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kbench.benchmark.surrogates.resolve import locate, module_of
from kbench.generation.search.methods import evolve, puct
from kbench.generation.search.methods.method import LLM, Method, chances, derivation
from kbench.generation.search.settings import FilterSettings, RunSettings, in_file
from kbench.generation.search.state import FRESH, Node, Operator, ProposalRequest, RunState
from kbench.loaders.source.python import files_with
from kbench.schemas import KbenchError, UnknownNameError, UserError
from kbench.schemas.ids import content_hash


def plan_fresh(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Fresh candidates only."""
    return (FRESH,) * count


def plan_climb(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Changes to the best kernel of the current climb; after some steps without gain, or at first, a fresh start."""
    fresh: dict[int, bool] = {}
    for node in state.nodes.values():
        fresh[node.step] = fresh.get(node.step, True) and node.parent_id is None
    # The climb began at the last step whose candidates all have no parent.
    first = max((step for step, all_fresh in fresh.items() if all_fresh), default=0)
    climb = [node for node in state.rewarded() if node.step >= first]
    # Of equals the earliest counts: the climb has stalled since then.
    best = max(climb, key=lambda node: (node.reward or 0.0, -node.step), default=None)
    if best is None or state.step - 1 - best.step >= state.settings.patience:
        return (FRESH,) * count
    return tuple(ProposalRequest(derivation(state, rng), best.kernel_id) for _ in range(count))


def plan_bayes(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Half fresh candidates, half children as in evolution; a model of the run chooses among them."""
    fresh = count // 2
    return (*(FRESH,) * fresh, *evolve.plan(state, count - fresh, rng))


RANDOM = Method("random", plan_fresh)
"""Every candidate is drawn afresh: the baseline for the other methods."""
CLIMB = Method("hill_climb", plan_climb)
BAYES = Method("bayes", plan_bayes, FilterSettings(surrogate="online", draw=8, unsure_share=0.0))
"""Bayesian optimisation: many candidates for each one measured."""
SEARCHES: Mapping[str, Method] = {one.name: one for one in (RANDOM, CLIMB, evolve.METHOD, puct.METHOD, BAYES)}
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
        forgotten = Path(f"{name}.py")  # its suffix, when there is such a file
        raise UnknownNameError("method", name, [str(forgotten)] if forgotten.is_file() else SEARCHES)
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


def with_hash(settings: RunSettings) -> RunSettings:
    """Settings with hashes of their method's and surrogate's files: a run does not go on with another text of one."""
    name = settings.method.removeprefix(WRITTEN_PREFIX)
    of_method = _hash_of(_file_of(searchable(name)).resolve()) if in_file(name) else None
    leaves = locate(settings.filter.surrogate).leaves if settings.filter else ()
    files = [_hash_of(Path(leaf.location)) for leaf in leaves if leaf.kind == "file"]
    of_surrogate = content_hash(*files) if files else None
    return dataclasses.replace(settings, method_hash=of_method, surrogate_hash=of_surrogate)


def _hash_of(file: Path) -> str:
    """Of a file's text, and those beside it that it imports."""
    beside = [path for path in files_with(file) if path != file]
    named = [part for path in beside for part in (path.relative_to(file.parent).as_posix(), path.read_bytes())]
    return content_hash(file.read_bytes(), *named)


def filter_of(settings: RunSettings) -> FilterSettings | None:
    """How a run chooses among its candidates: by its settings or else by its method; None where it measures all."""
    return settings.filter or method(settings.method).guide


def planned(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """What the run's method asks for next, checked: up to `count` requests about kernels of the run."""
    name = state.settings.method.removeprefix(WRITTEN_PREFIX)
    again = random.Random()
    again.setstate(rng.getstate())
    try:
        state = _read_only(state) if in_file(name) else state
        with contextlib.redirect_stdout(sys.stderr):  # what a method prints is no result
            requests = method(name).plan(state, count, rng)
            # A resumed run plans again, and must go the same way.
            twin = method(name).plan(state, count, again) if in_file(name) else requests
    except KbenchError:
        raise
    except (Exception, SystemExit) as error:
        if not in_file(name):
            raise
        raise UserError(f"method {name!r} failed {_place_in(name, error)}") from error
    if not isinstance(requests, tuple | list) or not all(isinstance(one, ProposalRequest) for one in requests):
        raise UserError(f"method {name!r} planned {requests!r:.80}; plan returns a tuple of ProposalRequest")
    if twin != requests:
        raise UserError(
            f"method {name!r} planned otherwise when asked again; plan must read no clock, remember no earlier call, "
            "change no state, and draw from `rng` alone"
        )
    if len(requests) > count:
        raise UserError(f"method {name!r} planned {len(requests)} requests where {count} were asked; plan no more")
    for request in requests:
        if fault := _fault(request, state):
            raise UserError(f"method {name!r} asked to {request.operator.value} {fault}")
    return tuple(requests)


def _read_only(state: RunState) -> RunState:
    """The state as a file's method sees it: what it changed there would change the run."""
    values = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    shown: dict[str, Any] = {name: MappingProxyType(one) for name, one in values.items() if isinstance(one, dict)}
    return dataclasses.replace(state, **shown)


def _fault(request: ProposalRequest, state: RunState) -> str | None:
    """Why no proposer can answer a request; None where one can."""
    for key in (request.parent_id, request.other_id):
        if key is not None and (not isinstance(key, str) or key not in state.nodes):
            return f"{key!r:.80}, which is no kernel of this run; name one by its kernel_id"
    if request.operator is not Operator.FRESH and request.parent_id is None:
        return "without a parent; name one by its kernel_id"
    if request.operator is Operator.CROSS and request.other_id is None:
        return f"{request.parent_id!r} with nothing; name a second kernel as other_id"
    return None


def _place_in(spec: str, error: BaseException) -> str:
    """Where in a method's file an error arose, and the error."""
    path = _file_of(spec)
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path.resolve())
    ]
    if isinstance(error, SyntaxError):
        lines.append(error.lineno)
    where = f"in {path}, line {lines[-1]}" if lines else f"in {path}"
    said = error.msg if isinstance(error, SyntaxError) else error
    return f"{where}: {type(error).__name__}: {said}"


def _file_of(spec: str) -> Path:
    return Path(spec.partition(".py")[0] + ".py")


@functools.cache
def _from_file(spec: str) -> Method:
    path, attribute = _file_of(spec), spec.partition(".py")[2]
    if not path.is_file():
        raise UserError(f"method file {str(path)!r} does not exist; give the path of a Python file")
    name = attribute.removeprefix(":") or DEFAULT_ATTRIBUTE
    try:
        module = module_of(path.resolve())
    except (Exception, SystemExit) as error:
        raise UserError(f"method file {str(path)!r} cannot be loaded: {_place_in(spec, error)}") from error
    loaded = getattr(module, name, None)
    if not isinstance(loaded, Method):
        wrong = f"has no method {name!r}" if loaded is None else f"has as {name!r} no Method but {loaded!r:.80}"
        raise UserError(f"{str(path)!r} {wrong}; define {name} = Method(name, plan), as docs/extend.md does")
    return loaded


METHODS = frozenset({CLIMB.name, evolve.METHOD.name, puct.METHOD.name})
"""Methods that have parents; `random` stays the baseline without any."""
SHARE_WITHOUT_CORRECT = 0.5
"""Chance of each request to become a repair while no kernel is correct; later it is that of the operator."""
MOST_REPAIRS = 2
"""How often one failed kernel is asked to be repaired."""


def learns(settings: RunSettings) -> bool:
    """Whether a run's author is told of earlier kernels."""
    return settings.proposer == LLM and settings.method in METHODS


def with_repairs(
    state: RunState, requests: tuple[ProposalRequest, ...], rng: random.Random
) -> tuple[ProposalRequest, ...]:
    """The plan with some requests replaced by repairs of failed kernels."""
    if not learns(state.settings):
        return requests
    correct = bool(state.rewarded())
    restarts = state.settings.method == CLIMB.name and FRESH in requests
    if correct and restarts:
        return requests
    share = chances(state)[Operator.REPAIR] if correct else SHARE_WITHOUT_CORRECT
    tried = Counter(node.parent_id for node in state.nodes.values() if node.parent_id is not None)
    planned = []
    for request in requests:
        broken = _choose(state, tried) if rng.random() < share else None
        if broken is not None:
            tried[broken.kernel_id] += 1
            request = dataclasses.replace(request, operator=Operator.REPAIR, parent_id=broken.kernel_id, other_id=None)
        planned.append(request)
    return tuple(planned)


def _choose(state: RunState, tried: Counter[str], /) -> Node | None:
    """The failed kernel whose idea promises most: repaired least often, then of the fastest parent, then the newest.

    One whose repair was correct needs no other.
    """
    repaired = {node.parent_id for node in state.rewarded()}
    broken = [
        node for node in state.failed() if tried[node.kernel_id] < MOST_REPAIRS and node.kernel_id not in repaired
    ]

    def promise(node: Node) -> tuple[int, float, int]:
        parent = state.nodes.get(node.parent_id or "")
        return -tried[node.kernel_id], (parent.reward or 0.0) if parent else 0.0, node.step

    return max(broken, key=promise, default=None)
