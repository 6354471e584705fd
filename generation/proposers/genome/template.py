"""Kernel templates: files in the `templates` folders of the families, named by their path under `families`.

`${name}` is a value; a line that starts with `%%` is a statement (`%% if`, `%% for`, `%% include`, `%% endif`).
CUDA and Python both use braces and percent signs, so the usual template marks would collide.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment, Template


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "families"), auto_reload=False, cache_size=-1,
        block_start_string="<%%", block_end_string="%%>",
        variable_start_string="${", variable_end_string="}",
        comment_start_string="<%#", comment_end_string="%>",
        line_statement_prefix="%%",
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip


@functools.cache
def _template(name: str) -> Template:
    if "\n" in name:
        import textwrap

        return _environment().from_string(textwrap.dedent(name).lstrip("\n"))
    return _environment().get_template(name)


def render(name: str, **values: Any) -> str:
    """Fill a template; a missing value is an error, never an empty string."""
    return _template(name).render(**values).rstrip() + "\n"
