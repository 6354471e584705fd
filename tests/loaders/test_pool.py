"""What runs beside a command makes files for it, and ends with it."""

import time
from pathlib import Path

import pytest

from kbench.loaders.storage.pool import beside


def test_a_function_beside_the_body_can_be_waited_for(tmp_path: Path) -> None:
    with beside(Path.write_text, tmp_path / "made", "done") as ready:
        ready()
        assert (tmp_path / "made").read_text() == "done"


def test_it_ends_with_the_body_and_what_it_raises_is_not_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    with beside(time.sleep, 600):
        pass
    with beside(Path.write_text, tmp_path / "no folder" / "made", "done") as ready:
        ready()
    assert time.monotonic() - began < 300
    assert capfd.readouterr().err == ""
