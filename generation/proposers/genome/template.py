"""Kernel templates: the files of `generation/genomes`, CUDA (`.cu`) and Triton (`.py`) side by side.

`${name}` is a value; a line that starts with `%%` is a statement (`%% if`, `%% for`, `%% macro`, …), which takes the
blank lines after it along; `<%% include "name" %%>` is the text of another template and `<%# … %>` a comment.
CUDA and Python both use braces and percent signs, so the usual template marks would collide.

A template is named by its path, such as `rowwise/norms.cu`. A file with several kernels starts each at a line
`%% section part`; `name#part` is that part alone, and the plain name is what stands above the first section.
In CUDA files the Python that launches the kernel follows a line `%% host` (`%% host named` where the module lists the
instances in `exported`, `%% host quoted` where the CUDA text stands in single quotes).
The comment lines at the top of a file or section, with the blank line after them, are its header (`header.py`); kernels
do not carry it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.generation.proposers.genome.helpers import FILTERS

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
    environment.filters |= FILTERS
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
