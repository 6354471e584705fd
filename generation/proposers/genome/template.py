"""Kernel templates: `${name}` is a value; a line that starts with `%%` is a statement (`%% if`, `%% for`, `%% endif`).

CUDA and Python both use braces and percent signs, so the usual template marks would collide.
"""

from __future__ import annotations

import functools
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment, Template


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, StrictUndefined

    return Environment(
        block_start_string="<%%", block_end_string="%%>",
        variable_start_string="${", variable_end_string="}",
        comment_start_string="<%#", comment_end_string="%>",
        line_statement_prefix="%%",
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip


@functools.lru_cache(maxsize=512)
def _compiled(template: str) -> Template:
    # Compiling takes far longer than filling, and a search fills the same few templates thousands of times.
    return _environment().from_string(textwrap.dedent(template).lstrip("\n"))


def render(template: str, **values: Any) -> str:
    """Fill a template; a missing value is an error, never an empty string."""
    return _compiled(template).render(**values).rstrip() + "\n"
