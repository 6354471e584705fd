"""Every test of problems uses torch's own loops on the CPU."""

from collections.abc import Iterator

import pytest

from kbench.benchmark.problems.check import plain_cpu


@pytest.fixture(autouse=True)
def plain_loops() -> Iterator[None]:
    with plain_cpu():
        yield
