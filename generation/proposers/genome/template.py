"""Kernel templates: files in the `templates` folders of the family groups.

`rowwise/norms.cu` names `families/rowwise/templates/cuda/norms.cu`, and `rowwise/norms.py` the Triton file beside it.
`${name}` is a value; a line that starts with `%%` is a statement (`%% if`, `%% for`, `%% macro`, …), which takes the
blank lines after it along; `<%% include "name" %%>` is the text of another template and `<%# … %>` a comment.
CUDA and Python both use braces and percent signs, so the usual template marks would collide.

A file with several kernels starts each at a line `%% section part`; `name#part` is that part alone.
In CUDA files the Python that launches the kernel follows a line `%% host` (`%% host named` where the module lists the
instances in `exported`, `%% host quoted` where the CUDA text stands in single quotes).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment, Template

FAMILIES = Path(__file__).parent / "families"
FOLDERS = {".cu": "cuda", ".py": "triton"}
INCLUDE = re.compile(r'^<%% include "(.*)" %%>\n', re.MULTILINE)
SECTION = re.compile(r"^%% section (\w+)\n", re.MULTILINE)
HOST = re.compile(r"^%% host *(\w*)\n", re.MULTILINE)
HEADER = "import torch\n\nfrom kbench.harness.cuda import CudaModule\n\n"
MODULES = {
    "": 'module = CudaModule(r"""\n{}""")\n\n\n',
    "quoted": "module = CudaModule(r'''\n{}''')\n\n\n",
    "named": "module = CudaModule(\n    r'''\n{}''',\n    names=(${{exported}}),\n)\n\n\n",
}
"""Python around the CUDA text, by the word after `%% host`."""


def render(name: str, **values: Any) -> str:
    """Fill a template; a missing value is an error, never an empty string."""
    return _template(name).render(**values).rstrip() + "\n"


@functools.cache
def _template(name: str) -> Template:
    return _environment().get_template(name)


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from jinja2.runtime import Context

    class Direct(Context):
        """Calls what a template calls, without looking for functions that want the context: here none does."""

        def call(self, function: Callable[..., Any], /, *args: Any, **values: Any) -> Any:
            values.pop("_loop_vars", None)
            values.pop("_block_vars", None)
            return function(*args, **values)

    class Plain(Environment):
        """Attributes are attributes; a missing one is an error at once."""

        context_class = Direct
        getattr = staticmethod(getattr)  # type: ignore[assignment]  # a builtin takes no self

    environment = Plain(
        loader=FunctionLoader(_text), auto_reload=False, cache_size=-1,
        block_start_string="<%%", block_end_string="%%>",
        variable_start_string="${", variable_end_string="}",
        comment_start_string="<%#", comment_end_string="%>",
        line_statement_prefix="%%",
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
        optimized=False,
    )  # fmt: skip
    environment.filters |= {"packed": packed, "flush": flush, "braced": braced, "times": times}
    return environment


def _text(name: str) -> str:
    """A template with its includes in place: Jinja would look them up and copy every value on each rendering."""
    file, _, part = name.partition("#")
    group, _, base = file.rpartition("/")
    path = FAMILIES / group / "templates" / FOLDERS[Path(base).suffix] / base
    text = path.read_text(encoding="utf-8")
    if part:
        parts = SECTION.split(text)
        text = parts[parts.index(part) + 1]
    text = INCLUDE.sub(lambda found: _text(found[1]), text)
    cuda, *host = HOST.split(text)
    return HEADER + MODULES[host[0]].format(cuda) + host[1] if host else text


def packed(code: str) -> str:
    """Code without the blank lines that macros leave."""
    return "\n".join([line for line in code.split("\n") if line and not line.isspace()]) + "\n"


def flush(code: str) -> str:
    """Code without blank lines and without indentation."""
    return "\n".join(filter(None, map(str.strip, code.split("\n")))) + "\n"


def braced(code: str) -> str:
    """CUDA code without blank lines, indented by its braces; a line that begins with + continues the one before."""
    depth, lines = 0, []
    for line in map(str.strip, code.split("\n")):
        if line:
            depth -= line[0] == "}"
            lines.append("    " * (depth + (line[0] == "+")) + line)
            depth += line[-1] == "{"
    return "\n".join(lines) + "\n"


def times(name: str, factor: int) -> str:
    """A product as text; a factor of one is left out."""
    return name if factor == 1 else f"{name} * {factor}"
