"""What makes all tests cheap: workers share the cores, and corpora are written without drawing their plots."""

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

# Each worker has its share of the cores, said before numpy or torch is loaded: with a thread per core in every worker,
# fits of small models take several times the processor time.
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    for library in ("OMP", "OPENBLAS"):
        os.environ.setdefault(f"{library}_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))

from kbench.loaders.card import plots

# A busy machine is no failure.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
SLOW = ("hostile/test_hostile.py", "harness/test_faults.py", "leaderboard/test_atlas.py")
"""Files that take longest. They come first, so that no worker is left with one while the others are done."""
DRAW = plots._svg
Drawing = Callable[[], contextlib.AbstractContextManager[None]]


def pytest_configure(config: pytest.Config) -> None:
    """Have workers take files in this order, not those with the most tests first."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: not str(item.path).endswith(SLOW))


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
