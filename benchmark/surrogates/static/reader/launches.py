"""What `run` would launch for each workload: its text is parsed and followed, never run."""

from __future__ import annotations

import ast
import functools
import json
import re
import warnings
from typing import Any

from kbench.benchmark.surrogates.static.reader.run import MOST_DEPTH, Env, RunReader
from kbench.benchmark.surrogates.static.reader.values import Tensor, Trace, UnreadableError

INPUT = re.compile(r"\w+\[([\d,]*)\]$")
MOST_RUN = 16384
"""Characters of the longest `run` that is read, ten times what kernels have."""
PLAIN_RUN = 2048
"""Characters too few to nest more deeply than the parser allows. Of longer texts the depth is counted first, since
what the parser allows depends on the depth of its caller."""

Constants = tuple[tuple[str, int], ...]


@functools.lru_cache(maxsize=8192)
def parsed(run: str) -> tuple[tuple[str, ...], tuple[ast.stmt, ...]] | None:
    """Parameters and statements of a `run`; None where the text is of no such function."""
    # Names set within expressions may be set where nothing is followed, as in the arguments of a launch.
    if ":=" in run:
        return None
    try:
        with warnings.catch_warnings():
            # The parser warns of escapes and of words that touch a number; neither is of interest here.
            warnings.simplefilter("ignore")
            found = ast.parse(run).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not found or not isinstance(found[0], ast.FunctionDef) or found[0].name != "run":
        return None
    if len(run) > PLAIN_RUN and not _shallow(found[0]):
        return None
    return tuple(each.arg for each in found[0].args.args), tuple(found[0].body)


def _shallow(tree: ast.AST) -> bool:
    """Whether a tree is of a depth that may be followed."""
    level: list[ast.AST] = [tree]
    for _ in range(MOST_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return True
    return False


@functools.lru_cache(maxsize=4096)
def _inputs_of(workloads_json: str) -> tuple[tuple[Any, ...], ...]:
    """What each workload passes to `run`: shapes, and numbers where they are stated."""
    return tuple(tuple(_input(text) for text in work["inputs"]) for work in json.loads(workloads_json))


def _input(text: str) -> Any:
    value = text.partition(": ")[2]
    if found := INPUT.match(value):
        return Tensor(tuple(int(each) for each in found[1].split(",") if each))
    return int(value) if value.isdecimal() else None


def traces(run: str, constants: Constants, workloads_json: str, processors: int | None) -> list[Trace]:
    """What `run` does for each workload; nothing where that cannot be told, or the text is of no such function.

    Args:
        run: its text.
        constants: numbers it may use by name.
        workloads_json: the query's.
        processors: how many the GPU has, where a source asks; None where that is not known.
    """
    if len(run) > MOST_RUN:
        return []
    found = parsed(run)
    if found is None:
        return []
    names, body = found
    known: Env = dict(constants)
    reader = RunReader(processors)
    try:
        return [
            reader.read(body, known | dict(zip(names, given, strict=False))) for given in _inputs_of(workloads_json)
        ]
    except UnreadableError:
        return []
