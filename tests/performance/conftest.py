"""What is measured draws its plots."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def drawn(drawing: Any) -> Iterator[None]:
    with drawing():
        yield
