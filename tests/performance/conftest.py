"""What is measured draws its plots, and figures are kept where that is wanted."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def drawn(drawing: Any) -> Iterator[None]:
    with drawing():
        yield


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, Any]]:
    """What was measured; kept where KBENCH_EVIDENCE says."""
    found: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    yield found
    if target := os.environ.get("KBENCH_EVIDENCE"):
        Path(target).write_text(json.dumps(found, indent=1) + "\n")
