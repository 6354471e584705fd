"""One error family. A message names the field, the value and the fix; `exit_code` is what the command ends with."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
from collections.abc import Iterable
from pathlib import Path


class KbenchError(Exception):
    """Base of every error kbench raises on purpose."""

    exit_code = 1


class UserError(KbenchError, ValueError):
    """The caller asked for something that cannot be: exit code 2."""

    exit_code = 2


LONGEST_NAME = 100
"""Characters of an unknown name that a message shows."""


class UnknownNameError(UserError, LookupError):
    """A name that is not in a closed list; the message carries the nearest names."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(map(str, known))
        text = str(name)
        if len(text) > LONGEST_NAME:  # finding names close to it would take minutes
            name = text[:LONGEST_NAME] + "…"
        near = difflib.get_close_matches(str(name), names, n=3)
        near = near or [each for each in names if text and each.startswith(text)][:3]
        nearest = " or ".join(map(repr, near)).replace(" or ", ", ", max(0, len(near) - 2))
        hint = f"did you mean {nearest}?" if near else f"known: {', '.join(names[:12])}"
        if not near and len(names) > 12:
            hint += f", … ({len(names)} in all)"
        super().__init__(f"unknown {kind} {name!r}; {hint}")
        self.kind, self.name, self.near = kind, text, near


class DataError(UserError):
    """Data on disk is not what it claims: names file, row, field and value."""


def install_command(extra: str) -> str:
    """The command that adds an extra: from the checkout that this installation came from, or by the package's name."""
    import importlib.metadata
    import json
    import urllib.parse

    source = "kbench-gpu"
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        about = json.loads(importlib.metadata.distribution(source).read_text("direct_url.json") or "{}")
        folder = urllib.parse.unquote(urllib.parse.urlsplit(about.get("url", "")).path)
        if "dir_info" in about and (Path(folder) / "pyproject.toml").is_file():
            return f"pip install {'-e ' * about['dir_info'].get('editable', False)}'{folder}[{extra}]'"
    return f"pip install '{source}[{extra}]'"


CPU_TORCH = "without a GPU a CPU build does: https://pytorch.org/get-started"


class MissingDependencyError(KbenchError, ImportError):
    """An optional package is needed; the message is the install command."""

    exit_code = 2

    def __init__(self, package: str, extra: str, purpose: str, *, instead: str = "") -> None:
        install = f"{purpose} needs the package {package!r}; install it with: {install_command(extra)}"
        instead = instead or CPU_TORCH * (package == "torch")
        super().__init__(f"{install}; {instead}" if instead else install)


def require_package(package: str, extra: str, purpose: str) -> None:
    """Refuse early what an optional package is needed for; nothing is imported.

    Raises:
        MissingDependencyError: the package is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise MissingDependencyError(package, extra, purpose)


class InfrastructureError(KbenchError, RuntimeError):
    """The machine failed, not the kernel; the work may be tried again elsewhere."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without its final full stop."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
