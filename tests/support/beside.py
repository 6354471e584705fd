"""Modules that tests load by their file: test folders are no packages."""

import importlib.util
import sys
from pathlib import Path
from typing import Any


def module_at(path: Path) -> Any:
    """The module in a file, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"kbench_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
