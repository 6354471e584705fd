"""Imports go one way: no circle anywhere, not even one that imports inside functions would hide."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("schemas", "loaders", "benchmark", "harness", "generation", "leaderboard")
PATHS = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "genomes" not in path.parts)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["kbench", *(parts[:-1] if parts[-1] == "__init__" else parts)])


MODULES = {name_of(path): path for path in PATHS}


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules of ours that a text imports anywhere, except for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield from imported(node)


def test_there_is_no_import_circle_even_through_imports_inside_functions() -> None:
    graph = {
        name: {found for found in imported(ast.parse(path.read_text())) if found in MODULES and found != name}
        for name, path in MODULES.items()
    }
    # Raises CycleError, which names the modules of a circle.
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(MODULES)


def test_every_module_can_be_imported_first() -> None:
    """Each in a fork of its own, from a process that has third-party packages and the folders below, but not its own.

    No folder imports one after it in the list (import-linter holds that), so those before it cannot hide a circle.
    """
    script = f"""
import importlib, os
import click, jinja2, numpy, pandas, pyarrow.dataset, tqdm
for folder in {FOLDERS!r}:
    names = [name for name in {sorted(MODULES)!r} if name.split(".")[1] == folder]
    for name in names:
        if not (child := os.fork()):
            try:
                importlib.import_module(name)
            except BaseException as error:
                print(name, repr(error), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    for name in names:
        importlib.import_module(name)
    if folder == "benchmark":
        import torch  # only now, because forks of a large process are slow
"""
    environment = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(Path.home())}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == ""
