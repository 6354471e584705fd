"""Corpora of tests are written without drawing their plots, which would take most of the time."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from kbench.loaders.card import plots

# A busy machine is no failure.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
DRAW = plots._svg
Drawing = Callable[[], contextlib.AbstractContextManager[None]]


@pytest.fixture(scope="session", autouse=True)
def undrawn() -> Iterator[None]:
    """Every plot is its title."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "_svg", lambda draw, title, *_, **__: f"<svg>{title}</svg>")
        yield


@pytest.fixture(scope="session")
def drawing(undrawn: None) -> Drawing:
    """Plots are drawn within it."""

    @contextlib.contextmanager
    def drawn() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plots, "_svg", DRAW)
            yield

    return drawn
