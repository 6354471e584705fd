"""From `--surrogate NAME` to a surrogate: built-in, entry point, module:attribute, file.py[:attribute], forecasts.

`calibrated:NAME` and `stack:A+B` are made of surrogates that are found the same way.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import json
import numbers
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from kbench import __version__
from kbench.benchmark.surrogates.protocol import INPUTS, Compiler, Surrogate
from kbench.loaders.source.python import files_with
from kbench.schemas import UnknownNameError, UserError
from kbench.schemas.ids import content_hash

BUILT_IN: Mapping[str, str] = {
    "uniform": "baselines:UniformSurrogate",
    "prior": "baselines:PriorSurrogate",
    "length": "baselines:LengthSurrogate",
    "roofline": "baselines:RooflineSurrogate",
    "nearest": "nearest:NearestSurrogate",
    "lookup": "nearest:LookupSurrogate",
    "transfer": "baselines:TransferSurrogate",
    "online": "online:OnlineSurrogate",
    "static": "static.static:StaticSurrogate",
    "static-compiler": "counted.counted:CountedSurrogate",
    "llm": "llm:LlmSurrogate",
    "lm": "lm:LmSurrogate",
}
"""Built-in surrogates by name; `replay:FILE` and a bare path to a forecasts file are one more."""
CALIBRATED, STACK = "calibrated", "stack"
VALIDATION = "validation"
VALIDATION_FORECASTS, VALIDATION_LIMIT = "validation_forecasts", "validation_limit"
"""Arguments of a combined surrogate: forecasts of validation queries made earlier, and how many to ask at most."""
REPLAY = "baselines:ReplaySurrogate"
BASELINES = ("uniform", "prior", "length", "roofline", "nearest", "lookup", "static")
"""Built-ins that need no endpoint and no file."""
DOCUMENTED = frozenset(BUILT_IN) - {"llm", "lm"}
"""Built-ins that kbench can describe in a submission; the others ask a model of the user's choice."""
ENTRY_POINTS = "kbench.surrogates"
FORECAST_SUFFIXES = (".parquet", ".jsonl")
DEFAULT_ATTRIBUTE = "surrogate"
MOST_NAME = 64
"""Characters of an entry's name."""
BUILT_IN_FOLDER = Path(__file__).parent
"""Built-ins share code and ship their models in this folder, so any file here is part of each."""


@dataclasses.dataclass(frozen=True, slots=True)
class SurrogateTarget:
    """Where a surrogate is found; nothing of it has run yet."""

    name: str
    """Short name for tables and folders."""
    kind: str
    """built_in, entry_point, module, file, forecasts, calibrated or stack."""
    location: str
    """Module, path, built-in name, or what the parts were called."""
    attribute: str = ""
    parts: tuple[SurrogateTarget, ...] = ()
    """What a combined surrogate is made of."""

    @property
    def leaves(self) -> tuple[SurrogateTarget, ...]:
        """The parts; of a surrogate that has none, itself."""
        return tuple(self.parts) or (self,)

    @property
    def entry(self) -> str | None:
        """The name that stored forecasts have as a leaderboard entry, by the submission.json beside them."""
        if self.kind != "forecasts":
            return None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            name = json.loads(Path(self.location).with_name("submission.json").read_bytes())["name"]
            return name if isinstance(name, str) and name.isprintable() and 0 < len(name) <= MOST_NAME else None
        return None

    @property
    def found_at(self) -> str:
        """A hash that tells surrogates of one name apart without showing their paths."""
        places = [(each.location, each.attribute) for each in self.leaves]
        return content_hash("target", self.kind, *itertools.chain.from_iterable(places))

    @property
    def built_in(self) -> bool:
        """Whether it comes with kbench, every part included."""
        return all(each.kind == "built_in" for each in self.leaves)

    @property
    def trusted(self) -> bool:
        """Whether it is our own code, which runs in this process."""
        return all(each.kind in ("built_in", "forecasts") for each in self.leaves)

    @property
    def documented(self) -> bool:
        """Whether kbench itself can describe it in a submission."""
        return all(each.kind == "built_in" and each.location in DOCUMENTED for each in self.leaves)


def locate(spec: str, forecasts_folder: Path | None = None) -> SurrogateTarget:
    """Find what a name means, without running it.

    Args:
        spec: built-in name, entry point, `module:attribute`, `path/to/file.py[:attribute]`, a forecasts file,
            `calibrated:SPEC` or `stack:SPEC+SPEC`.
        forecasts_folder: where `replay:NAME` looks for NAME.parquet or NAME.jsonl.
    """
    if spec in BUILT_IN:
        return SurrogateTarget(spec, "built_in", spec)
    kind, _, inner = spec.partition(":")
    if kind in (CALIBRATED, STACK):
        return _combined_target(kind, inner, forecasts_folder)
    if spec in ("replay", "replay:"):
        raise UserError(f"surrogate {spec!r} names no forecasts; write replay:FILE")
    if spec.startswith("replay:") or spec.endswith(FORECAST_SUFFIXES):
        return _forecasts(spec.removeprefix("replay:"), forecasts_folder)
    entries = importlib.metadata.entry_points(group=ENTRY_POINTS).names
    if spec in entries:
        return SurrogateTarget(spec, "entry_point", spec)
    head, _, attribute = spec.rpartition(":") if ":" in spec else (spec, "", "")
    if head.endswith(".py"):
        if not Path(head).is_file():
            raise UserError(f"surrogate file {head!r} does not exist; give the path of a Python file")
        # Several models may stand in one file.
        name = f"{Path(head).stem}-{attribute}" if attribute else Path(head).stem
        return SurrogateTarget(name, "file", str(Path(head).resolve()), attribute)
    if attribute:
        return SurrogateTarget(attribute, "module", head, attribute)
    if Path(spec).is_dir():
        return _forecasts(spec, forecasts_folder)
    if Path(spec).is_file():
        raise UserError(
            f"surrogate {spec!r} is neither a model (.py) nor forecasts (.parquet, .jsonl); give one of these"
        )
    files = [file for file in (f"{spec}.py",) if Path(file).is_file()]
    names = (*BUILT_IN, "replay", f"{CALIBRATED}:NAME", f"{STACK}:A+B", *entries)
    raise UnknownNameError("surrogate", spec, files or names)


def _combined_target(kind: str, inner: str, folder: Path | None) -> SurrogateTarget:
    specs = inner.split("+") if kind == STACK else [inner]
    if not all(specs) or (kind == STACK and len(specs) < 2):
        form = "stack:A+B[+C]" if kind == STACK else "calibrated:NAME"
        raise UserError(f"surrogate {f'{kind}:{inner}'!r} names too few surrogates; write {form}")
    parts = tuple(locate(spec, folder) for spec in specs)
    if any(part.parts for part in parts):
        raise UserError(f"surrogate {f'{kind}:{inner}'!r} nests; a stack is calibrated already, so write stack:A+B")
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        raise UserError(f"surrogate {f'{kind}:{inner}'!r} has two parts of one name; name each part once")
    return SurrogateTarget(f"{kind}-{'+'.join(names)}", kind, inner, parts=parts)


def refuse_early(target: SurrogateTarget, arguments: Mapping[str, Any]) -> None:
    """Refuse what can be refused before a file runs and the corpus is read: importing a model's packages takes seconds.

    A wrong argument of a class that inherits, or is decorated, shows only when it is made.
    """
    for part in target.parts:
        refuse_early(part, {})
    if target.kind == "built_in":
        _check_names(target, inspect.signature(imported(target)), arguments)
    if target.kind != "file":
        return
    text, classes = "", []
    # What cannot be read or parsed is said, with its line, when it is run.
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        text = Path(target.location).read_text(encoding="utf-8")
        classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    if classes and target.attribute and not re.search(rf"\b{re.escape(target.attribute)}\b|import \*|globals", text):
        raise UnknownNameError(f"attribute of {target.location}", target.attribute, [one.name for one in classes])
    able = [
        one for one in classes if one.name == target.attribute or (not target.attribute and "forecast" in _methods(one))
    ]
    # What the file calls `surrogate` comes before its classes.
    chosen = target.attribute or not re.search(rf"^(def |(from|import) .*)?\b{DEFAULT_ATTRIBUTE}\b", text, re.MULTILINE)
    if chosen and len(able) == 1 and not able[0].bases and not able[0].decorator_list:
        init = _methods(able[0]).get("__init__")
        if init is None or init.args.kwarg is None:
            taken = [] if init is None else [*init.args.args[1:], *init.args.kwonlyargs]
            kind, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
            parameters = [
                inspect.Parameter(one.arg, kind, annotation=ast.unparse(one.annotation) if one.annotation else empty)
                for one in taken
            ]
            _check_names(target, inspect.Signature(parameters), arguments)


def _methods(made: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in made.body if isinstance(node, ast.FunctionDef)}


def entry_point(name: str) -> importlib.metadata.EntryPoint:
    """The entry point of this name."""
    return next(iter(importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)))


def _forecasts(name: str, folder: Path | None) -> SurrogateTarget:
    choices = [Path(name)]
    if Path(name).is_dir():
        choices = [Path(name) / f"forecasts{suffix}" for suffix in FORECAST_SUFFIXES]
    elif folder is not None and not Path(name).suffix:
        choices = [folder / f"{name}{suffix}" for suffix in FORECAST_SUFFIXES]
    file = next((path for path in choices if path.is_file()), None)
    if file is None:
        here = sorted({p.stem for p in folder.iterdir()}) if folder is not None and folder.is_dir() else []
        if here:
            raise UnknownNameError("forecasts", name, here)
        if Path(name).is_dir():
            raise UserError(f"folder {name!r} holds no forecasts.parquet or forecasts.jsonl; give a file in it")
        raise UserError(f"forecasts {name!r} do not exist; give a .parquet or .jsonl file, or a folder that holds one")
    stem = file.parent.name if file.stem == "forecasts" else file.stem
    return SurrogateTarget(stem, "forecasts", str(file.resolve()))


def resolve(spec: str, *, compiler: Compiler | None = None, **arguments: Any) -> Surrogate:
    """Find and make a surrogate in this process."""
    return construct(locate(spec), arguments, compiler)


def construct(
    target: SurrogateTarget,
    arguments: Mapping[str, Any],
    compiler: Compiler | None = None,
    in_own_process: Callable[[SurrogateTarget, Mapping[str, Any]], Surrogate] | None = None,
) -> Surrogate:
    """Import and make the surrogate. This runs its code."""
    if target.parts:
        return _construct_combined(target, arguments, compiler, in_own_process)
    surrogate = imported(target)
    if inspect.isclass(surrogate) or not hasattr(surrogate, "forecast"):
        if not callable(surrogate):
            raise UserError(f"surrogate {target.name!r} is {type(surrogate).__name__}; it must have forecast(queries)")
        signature = inspect.signature(surrogate)
        _check_names(target, signature, arguments)
        try:
            signature.bind(**arguments)
        except TypeError as error:
            fault = f"{error}; give it with --surrogate-arg NAME=VALUE" if "missing" in str(error) else str(error)
            raise UserError(
                f"surrogate {target.name!r} cannot be made with {dict(arguments) or 'no arguments'}: {fault}"
            ) from None
        if target.kind == "built_in" and "compiler" in signature.parameters:
            arguments = {**arguments, "compiler": compiler}
        surrogate = surrogate(**arguments)
    elif arguments:
        raise UserError(f"surrogate {target.name!r} takes no arguments, got {dict(arguments)}")
    if not callable(getattr(surrogate, "forecast", None)):
        raise UserError(f"surrogate {target.name!r} has no method forecast(queries)")
    if getattr(surrogate, "inputs", INPUTS[0]) not in INPUTS:
        raise UserError(f"surrogate {target.name!r} has inputs {surrogate.inputs!r}; it must be one of {INPUTS}")
    return surrogate


def _check_names(target: SurrogateTarget, signature: inspect.Signature, arguments: Mapping[str, Any]) -> None:
    """Refuse an argument that a surrogate does not take."""
    takes = signature.parameters.values()
    for each in takes:
        value = arguments.get(each.name)
        if each.name in arguments and (wanted := _wanted(each.annotation, value)):
            raise UserError(f"surrogate {target.name!r} has {each.name} {value!r}; it must be {wanted}")
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes):
        return
    # kbench passes the compiler itself.
    ours = ("compiler",) if target.kind == "built_in" else ()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    names = [each.name for each in takes if each.kind not in by_position and each.name not in ours]
    for name in arguments:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            takes_what = f"it takes {', '.join(names)}" if names else "it takes none"
            raise UserError(f"surrogate {target.name!r} has no argument {name!r}{hint} {takes_what}")


def _wanted(annotation: Any, value: Any) -> str | None:
    """What a value must be, by its parameter's annotation; None where it is that, or the annotation says too little."""
    name = annotation.__name__ if annotation in (bool, int, float) else annotation
    kinds = {"bool": bool, "int": numbers.Integral, "float": numbers.Real}
    if not isinstance(name, str) or name not in kinds:
        return None
    fits = isinstance(value, kinds[name]) and (name == "bool" or not isinstance(value, bool))
    return None if fits else {"bool": "true or false", "int": "a whole number", "float": "a number"}[name]


def _construct_combined(
    target: SurrogateTarget,
    arguments: Mapping[str, Any],
    compiler: Compiler | None,
    in_own_process: Callable[[SurrogateTarget, Mapping[str, Any]], Surrogate] | None,
) -> Surrogate:
    """Make every part with its own arguments: of a stack, those that begin with the part's name and a dot."""
    left = dict(arguments)
    limit = left.pop(VALIDATION_LIMIT, None)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise UserError(f"--surrogate-arg {VALIDATION_LIMIT} is {limit!r}; it must be a whole number of at least 1")
    parts, recorded = {}, {}
    for part in target.parts:
        start = f"{part.name}." if target.kind == STACK else ""
        own = {key.removeprefix(start): left.pop(key) for key in list(left) if key.startswith(start)}
        file = own.pop(VALIDATION_FORECASTS, None)
        if file is not None:
            if not Path(str(file)).is_file():
                raise UserError(f"--surrogate-arg {start}{VALIDATION_FORECASTS} is {file!r}; give a forecasts file")
            recorded[part.name] = _held_out_forecasts(str(file), f"{start}{VALIDATION_FORECASTS}", part)
        if in_own_process is None or part.trusted:
            parts[part.name] = construct(part, own, compiler)
        else:
            parts[part.name] = in_own_process(part, own)
    if left:
        names = ", ".join(f"{part.name}.NAME=VALUE" for part in target.parts)
        raise UserError(f"--surrogate-arg {next(iter(left))} names no part of {target.name}; write {names}")
    part = _built_in("stack:Part")
    combined: Surrogate = _built_in("stack:CombinedSurrogate")(
        target.name, [part(name, each, recorded.get(name)) for name, each in parts.items()], limit
    )
    return combined


def _held_out_forecasts(file: str, argument: str, part: SurrogateTarget) -> Surrogate:
    """Forecasts of validation queries made earlier, by a surrogate that did not learn from them as far as is known."""
    recorded = construct(_forecasts(file, None), {})
    if VALIDATION in (recorded.learned_from(()) or ()):  # type: ignore[attr-defined]
        raise UserError(
            f"--surrogate-arg {argument} is {file!r}, forecasts by what learned from the validation problems; leave it "
            f"out where {part.name} has fit, or make it with a surrogate that learned from train alone: "
            "kbench evaluate --surrogate NAME --split validation"
        )
    return recorded


def imported(target: SurrogateTarget) -> Any:
    """The class, function or object a target names. This runs its code."""
    if target.kind == "built_in":
        return _built_in(BUILT_IN[target.location])
    if target.kind == "forecasts":
        return _built_in(REPLAY)(target.location)
    if target.kind == "entry_point":
        return entry_point(target.location).load()
    if target.kind == "module":
        sys.path.insert(0, str(Path.cwd()))
        return _attribute(importlib.import_module(target.location), target)
    return _attribute(module_of(Path(target.location)), target)


def _built_in(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(f"kbench.benchmark.surrogates.{module}"), attribute)


def module_of(path: Path) -> Any:
    """A file as a module. This runs its code."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UserError(f"file {str(path)!r} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    # A file's neighbours are importable, as they are when it is run as a script.
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def _attribute(module: Any, target: SurrogateTarget) -> Any:
    name = target.attribute or DEFAULT_ATTRIBUTE
    if hasattr(module, name):
        return getattr(module, name)
    if target.attribute:
        names = [key for key, value in vars(module).items() if callable(getattr(value, "forecast", None))]
        raise UnknownNameError(f"attribute of {target.location}", target.attribute, names or vars(module))
    own = [v for v in vars(module).values() if inspect.isclass(v) and v.__module__ == module.__name__]
    able = [v for v in own if callable(getattr(v, "forecast", None))]
    if not able:
        raise UserError(f"{target.location} defines no class with a method forecast(queries); define one")
    if len(able) > 1:
        classes = ", ".join(v.__name__ for v in able)
        fix = f"name one, as in {Path(target.location).name}:{able[0].__name__}, or define `{DEFAULT_ATTRIBUTE}`"
        raise UserError(f"{target.location} defines {len(able)} classes with forecast(queries): {classes}; {fix}")
    return able[0]


def surrogate_fingerprint(target: SurrogateTarget, arguments: Mapping[str, Any], *asked: str) -> str:
    """Changes when kbench, the surrogate's code, its model or an argument changes; nothing of it is run.

    Args:
        target: where the surrogate is found.
        arguments: its constructor's; one that names a file counts with the file's content.
        asked: what else decides the answers, such as the dataset.

    Raises:
        UserError: a file that an argument names cannot be read.
    """
    settings = [f"{key}={arguments[key]!r} {_named_file(key, arguments[key])}" for key in sorted(arguments)]
    code = [f"{path}: {_digest(path)}" for path in _code(target)]
    where = (target.kind, target.location, target.attribute)
    return content_hash("surrogate", __version__, *where, str(len(code)), *code, str(len(settings)), *settings, *asked)


def _code(target: SurrogateTarget) -> list[Path]:
    """The files a surrogate consists of, in a fixed order."""
    if target.parts:
        # How parts are combined is code of ours.
        whole = [SurrogateTarget(target.kind, "built_in", target.kind), *target.parts]
        return sorted({path for part in whole for path in _code(part)})
    if target.kind == "built_in":
        return sorted(path for path in BUILT_IN_FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc")
    if target.kind == "file":
        return files_with(Path(target.location))
    if target.kind == "forecasts":
        return [Path(target.location)]
    module = target.location if target.kind == "module" else entry_point(target.location).module
    return sorted(_module_files(module))


def _module_files(module: str) -> Iterator[Path]:
    """A module's own file, or every Python file of the package it lies in: its parts import one another.

    Only the outermost name is looked up: finding a part of a package runs the package.
    """
    outermost = module.partition(".")[0]
    # Where the worker looks: the current folder first. Editable installs may have a finder of their own.
    spec = PathFinder.find_spec(outermost, [os.getcwd(), *sys.path]) or importlib.util.find_spec(outermost)
    if spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        yield from Path(folder).rglob("*.py")
    if not spec.submodule_search_locations and spec.origin is not None and os.path.isfile(spec.origin):
        yield Path(spec.origin)


def _named_file(key: str, value: Any) -> str:
    """The content of the file an argument names; nothing where it names none."""
    if not isinstance(value, str) or not os.path.isfile(value):
        return ""
    try:
        return _digest(Path(value))
    except OSError as error:
        raise UserError(f"--surrogate-arg {key} names {value!r}, which cannot be read ({error.strerror})") from None


def _digest(path: Path) -> str:
    # In pieces: weights may be larger than memory.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
