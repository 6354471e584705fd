"""From a model's reply to a kernel: exactly one code block that defines run with the problem's inputs."""

from __future__ import annotations

import ast
import re
import warnings

LONGEST_REPLY = 400_000
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)


class NoKernelError(ValueError):
    """The reply holds no usable kernel; the message starts with a short word for tables, then a colon."""


def extract(reply: str, inputs: int) -> str:
    """The kernel in a reply."""
    if len(reply) > LONGEST_REPLY:
        raise NoKernelError(f"too long: the reply has {len(reply)} characters, more than {LONGEST_REPLY}")
    try:
        reply.encode()
    except UnicodeEncodeError:
        raise NoKernelError("not text: the reply cannot be encoded as UTF-8") from None
    blocks = [found[3] for found in FENCE.finditer(reply.replace("\r\n", "\n") + "\n")]
    if not blocks and _run_function(reply) is not None:
        blocks = [reply]
    if not blocks:
        raise NoKernelError("no code: the reply has no code block")
    kernels = list(dict.fromkeys(block.strip() + "\n" for block in blocks if _run_function(block) is not None))
    if not kernels:
        invalid = all(_parse(block) is None for block in blocks)
        raise NoKernelError(f"no kernel: no code block {'is valid Python' if invalid else 'defines run'}")
    if len(kernels) > 1:
        raise NoKernelError(f"several kernels: {len(kernels)} code blocks define run; one was asked for")
    function = _run_function(kernels[0])
    assert function is not None
    arguments = function.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    if arguments.vararg is None and not most - len(arguments.defaults) <= inputs <= most:
        raise NoKernelError(f"other problem: run takes {most} inputs, this problem has {inputs}")
    return kernels[0]


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # foreign code may hold odd escapes; they are its own business
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _run_function(text: str) -> ast.FunctionDef | None:
    tree = _parse(text)
    if tree is None:
        return None
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run"), None)
