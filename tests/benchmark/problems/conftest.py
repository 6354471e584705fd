"""Every test of problems uses torch's own loops on the CPU."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbench.benchmark.problems.check import plain_cpu


@pytest.fixture(autouse=True)
def plain_loops() -> Iterator[None]:
    with plain_cpu():
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of a file from before."""
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
