"""Kernel templates: the files of `generation/genomes`, CUDA (`.cu`) and Triton (`.py`) side by side.

`${name}` is a value; a line that starts with `%%` is a statement (`%% if`, `%% for`, `%% macro`, …), which takes the
blank lines after it along; `<%% include "name" %%>` is the text of another template and `<%# … %>` a comment.
CUDA and Python both use braces and percent signs, so the usual template marks would collide.

A template is named by its path, such as `rowwise/norms.cu`. A file with several kernels starts each at a line
`%% section part`; `name#part` is that part alone, and the plain name is what stands above the first section.
In CUDA files the Python that launches the kernel follows a line `%% host` (`%% host named` where the module lists the
instances in `exported`, `%% host quoted` where the CUDA text stands in single quotes).
The comment lines at the top of a file or section, with the blank line after them, are its header; kernels do not carry
it. It says what genome families the template has:

    // Embedding lookups.
    // family gather_cuda for embedding_gather
    // shape walk = "block", "warp", "flat"
    // pick threads = 64, 128, 256
    // pick unroll = 1, 2, 4, 8
    // refuse walk == "flat" and unroll != 4: the flat walk has no loop
    // let columns = threads * unroll

| line | meaning |
|---|---|
| `family NAME for PROBLEM, …` | a family and the problems it solves |
| `family NAME where CONDITION` | the same, with the problems of the facts file for which the condition holds |
| `facts NAME = FILE` | the problem's table in a TOML file, over the file's `[default]` |
| `shape GENE = CHOICE, …` | a gene that changes the structure of the code; a problem with no choice lacks it |
| `pick GENE = CHOICE, …` | a gene that only changes numbers |
| `refuse CONDITION: REASON` | which genomes cannot work, or repeat another; `{name}` in the reason is a value |
| `let NAME = VALUE` | a value for the lines below and for the template |
| `polish HELPER` | what is done to the rendered text |
| `# …` | a remark |

Lines are read from top to bottom. Each sees the names above it, `problem`, `family`, and what `helpers.py` lists. Up to
the last gene they know the problem alone, and are read once per problem; below it they see the genome. Lines above the
first family hold for every family of the file, those of its sections included. A line that begins with a space goes on
with the one before.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import random
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from kbench.generation.proposers.genome import helpers
from kbench.schemas import Backend

if TYPE_CHECKING:
    from jinja2 import Environment, Template

GENOMES = Path(__file__).parents[2] / "genomes"
INCLUDE = re.compile(r'^<%% include "(.*)" %%>\n', re.MULTILINE)
SECTION = re.compile(r"^%% section (\w+)\n", re.MULTILINE)
HOST = re.compile(r"^%% host *(\w*)\n", re.MULTILINE)
COMMENTS = {".cu": re.compile(r"(?://.*\n)*\n?"), ".py": re.compile(r"(?:#.*\n)*\n?")}
IMPORTS = "import torch\n\nfrom kbench.harness.cuda import CudaModule\n\n"
MODULES = {
    "": 'module = CudaModule(r"""\n{}""")\n\n\n',
    "quoted": "module = CudaModule(r'''\n{}''')\n\n\n",
    "named": "module = CudaModule(\n    r'''\n{}''',\n    names=(${{exported}}),\n)\n\n\n",
}
"""Python around the CUDA text, by the word after `%% host`."""
Value = int | str | bool
Genome = Mapping[str, Value]
"""Gene values by gene name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gene:
    """One choice. Structural genes change the shape of the code; the others only its numbers."""

    name: str
    choices: tuple[Value, ...]
    structural: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """A parametrised kernel for one backend and one or more problems."""

    name: str
    backend: Backend
    problems: tuple[str, ...]
    """Ids of the problems it can solve."""
    genes: Callable[[str], tuple[Gene, ...]]
    """The genes for a problem; their order is fixed."""
    render: Callable[[str, Genome], str]
    """Kernel source for a problem and a valid genome; pure, so equal genomes give equal text."""
    invalid: Callable[[str, Genome], str | None] = lambda problem_id, genome: None
    """Why a combination cannot work (shared memory, tile shapes, …); None when it can."""


def sample(family: Family, problem_id: str, rng: random.Random, tries: int = 1000) -> dict[str, Value]:
    """A random valid genome."""
    genes = family.genes(problem_id)
    for _ in range(tries):
        genome = {gene.name: rng.choice(gene.choices) for gene in genes}
        if family.invalid(problem_id, genome) is None:
            return genome
    raise ValueError(f"family {family.name!r} found no valid genome for {problem_id!r} in {tries} tries")


def mutate(family: Family, problem_id: str, genome: Genome, rng: random.Random, tries: int = 200) -> dict[str, Value]:
    """A valid genome that differs from `genome` in one gene, sometimes two."""
    genes = [gene for gene in family.genes(problem_id) if len(gene.choices) > 1]
    for _ in range(tries):
        child = dict(genome)
        for gene in rng.sample(genes, k=min(len(genes), 2 if rng.random() < 0.25 else 1)):
            child[gene.name] = rng.choice([choice for choice in gene.choices if choice != genome[gene.name]])
        if family.invalid(problem_id, child) is None:
            return child
    return sample(family, problem_id, rng)


def cross(family: Family, problem_id: str, one: Genome, other: Genome, rng: random.Random) -> dict[str, Value]:
    """A valid genome that takes each gene from one of two parents; falls back to a mutation of the first."""
    for _ in range(50):
        child = {name: rng.choice((one[name], other[name])) for name in one}
        if family.invalid(problem_id, child) is None and child not in (dict(one), dict(other)):
            return child
    return mutate(family, problem_id, one, rng)


MARKS = {".cu": "//", ".py": "#"}
BACKENDS = {".cu": Backend.CUDA, ".py": Backend.TRITON}
WORDS = ("family", "facts", "shape", "pick", "refuse", "let", "polish")
GENES = ("shape", "pick")
NAMES: dict[str, Any] = {
    "__builtins__": {}, "len": len, "max": max, "min": min,
    **{name: getattr(helpers, name) for name in helpers.__all__},
}  # fmt: skip
"""What expressions may call or look up beside the names of the header."""
ALLOWED = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Tuple, ast.Dict, ast.Starred, ast.Subscript, ast.Slice,
    ast.Attribute, ast.Call, ast.keyword, ast.IfExp, ast.BoolOp, ast.boolop, ast.BinOp, ast.operator, ast.UnaryOp,
    ast.unaryop, ast.Compare, ast.cmpop, ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip
"""Expressions of a header: arithmetic, comparisons, choices, tables, fields, and calls of helpers and their methods."""


@functools.cache
def families() -> Mapping[str, Family]:
    """Every family by name. Files are read in alphabetical order: a recorded search draws families by their place."""
    by_name: dict[str, Family] = {}
    for path in sorted(path for path in GENOMES.rglob("*") if path.suffix in BACKENDS):
        for family in read_file(path):
            if family.name in by_name:
                raise ValueError(f"genome family {family.name!r} is declared twice, again in {path.name}")
            by_name[family.name] = family
    return MappingProxyType(by_name)


def families_for(problem_id: str, backend: Backend) -> tuple[Family, ...]:
    """The families that can solve a problem in a backend."""
    return tuple(f for f in families().values() if f.backend is backend and problem_id in f.problems)


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One line of a header."""

    word: str
    name: str = ""
    """What the line names: a family, a gene, a value, a helper."""
    text: str = ""
    """A family's problems, a facts file, or the reason of a refusal."""
    code: CodeType | None = None
    """The line's expression."""

    def value(self, scope: dict[str, Any]) -> Any:
        """The expression's value where `scope` has the names."""
        assert self.code is not None
        return eval(self.code, NAMES, scope)  # `expression` has admitted the code


def expression(text: str) -> CodeType:
    """Compile an expression of the small language that headers use."""
    try:
        tree = ast.parse(f"({text.strip()})", mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not an expression: {error.msg}") from error
    for node in ast.walk(tree):
        hidden = isinstance(node, ast.Attribute) and node.attr.startswith("_")
        if hidden or not isinstance(node, ALLOWED):
            raise ValueError(f"{text!r} has {ast.unparse(node)!r}, which headers may not say")
    return compile(tree, "<header>", "eval")


def read_file(path: Path) -> Iterator[Family]:
    """The families of a template, in the order of their lines; none where it is only included by others.

    Raises:
        ValueError: a line of the header is malformed; the message names the file and the line.
    """
    name = path.relative_to(GENOMES).as_posix()
    top, *sections = SECTION.split(path.read_text(encoding="utf-8"))
    # The families of a file may all be in its sections; then what stands above them is nothing but shared lines.
    shared = _lines(top if COMMENTS[path.suffix].fullmatch(top) else header_of(top, path.suffix), name)
    yield from _families(name, [], shared)
    above = list(itertools.takewhile(lambda line: line.word != "family", shared))
    for part, text in zip(sections[::2], sections[1::2], strict=True):
        yield from _families(f"{name}#{part}", above, _lines(header_of(text, path.suffix), f"{name}#{part}"))


def _lines(header: str, name: str) -> list[Line]:
    """The lines of a header; the description above the first word of the language is for readers."""
    joined: list[str] = []
    for comment in header.splitlines():
        line = comment.removeprefix(MARKS[_suffix(name)]).removeprefix(" ")
        if line.startswith(" ") and joined:
            joined[-1] += " " + line.strip()
        elif line and not line.startswith("#"):
            joined.append(line)
    start = next((i for i, line in enumerate(joined) if line.split(" ")[0] in WORDS), len(joined))
    parsed = []
    for line in joined[start:]:
        try:
            parsed.append(_line(line))
        except ValueError as error:
            raise ValueError(f"{name}, line {line!r} of the header: {error}") from error
    return parsed


def _suffix(template: str) -> str:
    return Path(template.partition("#")[0]).suffix


def _line(text: str) -> Line:
    word, _, rest = text.partition(" ")
    if word not in WORDS:
        raise ValueError(f"{word!r} is none of {', '.join(WORDS)}")
    if word == "polish":
        if rest not in NAMES:
            raise ValueError(f"helpers.py has no {rest!r}")
        return Line(word, rest)
    if word == "refuse":
        condition, separator, reason = rest.rpartition(": ")
        line = Line(word, text=reason, code=expression(condition))
    else:
        name, separator, value = rest.partition(" " if word == "family" else " = ")
        line = Line(word, name, value) if word in ("family", "facts") else Line(word, name, code=expression(value))
    if not separator:
        raise ValueError("it ends too early; kbench.generation.proposers.genome.template shows every kind of line")
    return line


def _families(template: str, above: Sequence[Line], lines: Sequence[Line]) -> Iterator[Family]:
    """The families of one header. Every run of `family` lines begins a group with lines of its own."""
    runs = [list(run) for _, run in itertools.groupby(lines, key=lambda line: line.word == "family")]
    if runs and runs[0][0].word != "family":
        above = [*above, *runs.pop(0)]
    for heads, body in zip(runs[::2], [*runs[1::2], []], strict=False):  # the last group may have no lines
        for head in heads:
            reader = _Reader(head.name, template, (*above, *body))
            relation, _, rest = head.text.partition(" ")
            if relation not in ("for", "where"):
                raise ValueError(f"{template}: family {head.name!r} says neither for nor where")
            problems = tuple(rest.split(", ")) if relation == "for" else reader.where(expression(rest), len(above))
            yield Family(
                name=head.name, backend=BACKENDS[_suffix(template)], problems=problems,
                genes=reader.genes, render=reader.render, invalid=reader.invalid,
            )  # fmt: skip


class _Reader:
    """A family's lines, read for a problem and a genome."""

    def __init__(self, name: str, template: str, lines: Sequence[Line]) -> None:
        self._name, self._template = name, template
        self._polish = [NAMES[line.name] for line in lines if line.word == "polish"]
        lines = [line for line in lines if line.word != "polish"]
        places = [i for i, line in enumerate(lines) if line.word in GENES]
        refusals = [i for i, line in enumerate(lines) if line.word == "refuse"]
        if not places or (refusals and refusals[0] < places[-1]):
            raise ValueError(f"{template}: family {name!r} needs genes, and its refusals stand below them")
        genes, limits = places[-1] + 1, max(refusals, default=places[-1]) + 1
        self._facts, self._limits = lines[:genes], lines[genes:limits]
        self._values = [line for line in lines[genes:] if line.word == "let"]
        self._problems: dict[str, tuple[dict[str, Any], tuple[Gene, ...]]] = {}

    def where(self, condition: CodeType, above: int) -> tuple[str, ...]:
        """The problems of the facts file for which a condition on the lines above the family holds."""
        file = next(line.text for line in self._facts if line.word == "facts")
        problems = [problem for problem in _facts(file) if problem != "default"]
        return tuple(p for p in problems if eval(condition, NAMES, self._read(p, self._facts[:above])[0]))

    def genes(self, problem: str) -> tuple[Gene, ...]:
        """The genes that a problem has."""
        return self._of(problem)[1]

    def invalid(self, problem: str, genome: Genome) -> str | None:
        """The reason of the first refusal that applies."""
        scope = {**self._of(problem)[0], **genome}
        for line in self._limits:
            value = line.value(scope)
            if line.word == "let":
                scope[line.name] = value
            elif value:
                return line.text.format_map(scope)
        return None

    def render(self, problem: str, genome: Genome) -> str:
        """The template, filled with the genome and the header's values."""
        scope = {**self._of(problem)[0], **genome}
        for line in self._values:
            scope[line.name] = line.value(scope)
        text = render(self._template, scope)
        for polish in self._polish:
            text = polish(text)
        return text

    def _of(self, problem: str) -> tuple[dict[str, Any], tuple[Gene, ...]]:
        if problem not in self._problems:
            self._problems[problem] = self._read(problem, self._facts)
        return self._problems[problem]

    def _read(self, problem: str, lines: Sequence[Line]) -> tuple[dict[str, Any], tuple[Gene, ...]]:
        """The values that hold for a problem whatever its genome, and its genes."""
        scope: dict[str, Any] = {"problem": problem, "family": self._name}
        genes = []
        for line in lines:
            if line.word == "facts":
                scope[line.name] = SimpleNamespace(**_facts(line.text)["default"] | _facts(line.text)[problem])
            elif line.word == "let":
                scope[line.name] = line.value(scope)
            elif (choices := line.value(scope)) != ():
                choices = choices if isinstance(choices, tuple) else (choices,)
                genes.append(Gene(line.name, choices, structural=line.word == "shape"))
        return scope, tuple(genes)


@functools.cache
def _facts(file: str) -> dict[str, dict[str, Any]]:
    """The tables of a facts file, by problem."""
    tables = tomllib.loads((GENOMES / file).read_text(encoding="utf-8"))
    return {problem: {name: _frozen(value) for name, value in table.items()} for problem, table in tables.items()}


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(each) for each in value)
    return SimpleNamespace(**value) if isinstance(value, dict) else value


def render(name: str, values: Mapping[str, Any]) -> str:
    """Fill a template; a missing value is an error, never an empty string."""
    return _template(name).render(values).rstrip() + "\n"


def header_of(text: str, suffix: str) -> str:
    """The comment lines at the top of a text, where they declare families."""
    comments = COMMENTS[suffix].match(text)
    assert comments is not None  # it may be empty
    return comments[0] if any(line.split(" ")[1:2] == ["family"] for line in comments[0].splitlines()) else ""


@functools.cache
def _template(name: str) -> Template:
    return _environment().get_template(name)


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_text), auto_reload=False, cache_size=-1,
        block_start_string="<%%", block_end_string="%%>",
        variable_start_string="${", variable_end_string="}",
        comment_start_string="<%#", comment_end_string="%>",
        line_statement_prefix="%%",
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
        optimized=False,
    )  # fmt: skip
    environment.filters |= helpers.FILTERS
    return environment


def _text(name: str) -> str:
    """A template with its includes in place: Jinja would look them up and copy every value on each rendering."""
    file, _, part = name.partition("#")
    text = (GENOMES / file).read_text(encoding="utf-8")
    top, *parts = SECTION.split(text)
    text = parts[parts.index(part) + 1] if part else top
    text = text.removeprefix(header_of(text, Path(file).suffix))
    text = INCLUDE.sub(lambda include: _text(include[1]), text)
    cuda, *host = HOST.split(text)
    return IMPORTS + MODULES[host[0]].format(cuda) + host[1] if host else text
