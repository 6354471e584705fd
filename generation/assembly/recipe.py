"""Recipe: what a corpus is assembled from, as a TOML file whose paths are relative to its own folder."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.schemas import DataError, UserError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The inputs of one corpus. Each field but `samples` and `private` is a list of paths in the file."""

    runs: tuple[Path, ...]
    """Run folders or log files, each run in one of them."""
    samples: Path | None = None
    """Corpus that holds the texts and samples which the logs and corpora below leave out."""
    corrections: tuple[Path, ...] = ()
    """Corpora with measurements of these kernels that replace wrong logged ones; a later corpus overrules an earlier
    one."""
    repeats: tuple[Path, ...] = ()
    """Corpora with measurements of these kernels made again, kept beside the first (`kbench measure --corpus`)."""
    other_gpus: tuple[Path, ...] = ()
    """Corpora with measurements of these kernels on GPUs that the logs do not have; they become further rows."""
    references: tuple[Path, ...] = ()
    """Files of reference times (`kbench problems references`)."""
    counters: tuple[Path, ...] = ()
    """Files of hardware counters (`kbench kernels counters`); those of other kernels are left out."""
    plans: tuple[Path, ...] = ()
    """Files that say what these kernels launch, one kernel per line."""
    errata: tuple[Path, ...] = ()
    """YAML files of kernels that were found wrong after they were measured: what is wrong, by kernel id."""
    private: bool = False
    """Whether held-out questions keep their answers in a file of their own beside the corpus."""


def recipe_of(sources: Sequence[Path]) -> Recipe:
    """The recipe that a command names: one TOML file, or run folders and log files alone.

    Raises:
        UserError: a recipe and other paths are named together, or a path of the recipe does not exist.
        DataError: the recipe is damaged; names the field.
    """
    recipes = [path for path in sources if path.suffix == ".toml"]
    if not recipes:
        return Recipe(runs=tuple(sources))
    if len(sources) > 1:
        raise UserError(f"{str(recipes[0])!r} is a recipe and stands alone; list the runs in it")
    return read_recipe(recipes[0])


def read_recipe(path: Path) -> Recipe:
    """Read a recipe file.

    Raises:
        UserError: a path in it does not exist.
        DataError: names the field that is missing, unknown or of the wrong type.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not TOML: {error}") from None
    names = [field.name for field in dataclasses.fields(Recipe)]
    unknown = sorted(set(data) - set(names))
    if unknown:
        raise DataError(f"{path}: unknown field {unknown[0]!r}; known: {', '.join(names)}")
    if not data.get("runs"):
        raise DataError(f"{path}: field 'runs' is missing; list the run folders")
    plain = {"private": data.pop("private", False)}
    if not isinstance(plain["private"], bool):
        raise DataError(f"{path}: field 'private' is {plain['private']!r}; it must be true or false")
    fields: dict[str, Any] = {name: _paths(path, name, value) for name, value in data.items() if name != "samples"}
    fields |= plain
    if "samples" in data:
        (fields["samples"],) = _paths(path, "samples", [data["samples"]])
    return Recipe(**fields)


def _paths(recipe: Path, name: str, value: Any) -> tuple[Path, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DataError(f"{recipe}: field {name!r} is {value!r}; it must be a list of paths")
    paths = tuple(recipe.parent / item for item in value)
    for path in paths:
        if not path.exists():
            raise UserError(f"{recipe}: field {name!r} names {str(path)!r}, which does not exist")
    return paths
