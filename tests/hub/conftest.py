"""A Hub of the test's own, and commands run against it in fresh processes (the client reads its settings at import)."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.problems.foreign.user_code import import_file

ROOT = Path(__file__).parents[2]


server = import_file(Path(__file__).parent / "server.py")


@pytest.fixture
def hub() -> Iterator[Any]:
    running = server.Hub()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def fresh(hub: Any, tmp_path: Path) -> Run:
    """Runs Python with its own Hub caches and the test's Hub."""

    def run(*arguments: str, token: str | None = server.TOKEN, **more: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "*",
            "HF_HOME": str(tmp_path / "hf"), "HF_DATASETS_CACHE": str(tmp_path / "hf_datasets"),
            "KBENCH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT / "src"), "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_TOKEN": token or "", **more,
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=200
        )

    return run


@pytest.fixture
def kbench(fresh: Run) -> Run:
    """Runs the command."""
    return lambda *arguments, **settings: fresh("-m", "kbench", *arguments, **settings)


@pytest.fixture(scope="session")
def made_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus whose rows may be passed on."""
    makers = import_file(ROOT / "tests" / "loaders" / "conftest.py")
    return makers.write_corpus(tmp_path_factory.mktemp("ours") / "corpus", 24)


@pytest.fixture(scope="session")
def release_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The release in miniature: files by repository."""
    makers = import_file(ROOT / "tests" / "loaders" / "importers" / "conftest.py")
    base = tmp_path_factory.mktemp("release")
    found: dict[str, dict[str, bytes]] = {}
    for path in makers.write_release(base):
        owner, name, *rest = path.relative_to(base).parts
        found.setdefault(f"{owner}/{name}", {})["/".join(rest)] = path.read_bytes()
    return found
