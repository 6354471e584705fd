"""What a worker has given up, tried from inside a forked process."""

from __future__ import annotations

import json
import os
import socket
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from kbench.harness.isolate import mounts, sandbox
from kbench.harness.isolate.mounts import freeze_files
from kbench.harness.isolate.pristine import Pristine
from kbench.harness.isolate.seccomp import lock_down


def in_a_child(action: Callable[[], object]) -> object:
    """What an action returns in a process of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, json.dumps(action()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def attempt(action: Callable[[], object]) -> str:
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"


def test_after_lock_down_no_process_can_be_made_but_threads_can() -> None:
    import threading

    def inside() -> list[object]:
        locked = lock_down()
        done: list[int] = []
        thread = threading.Thread(target=done.append, args=(1,))
        thread.start()
        thread.join()
        return [locked, attempt(os.fork), attempt(lambda: os.execv("/bin/true", ["true"])), done]

    assert in_a_child(inside) == [True, "PermissionError", "PermissionError", [1]]


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root here")
def test_with_files_frozen_only_the_given_folder_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "other").mkdir()

    def inside() -> list[object]:
        frozen = freeze_files([tmp_path / "mine"])
        return [
            frozen,
            attempt(lambda: (tmp_path / "mine" / "a").write_text("x")),
            attempt(lambda: (tmp_path / "other" / "a").write_text("x")),
        ]

    assert in_a_child(inside) == [True, "done", "OSError"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root here")
def test_what_is_private_is_empty_there_and_nowhere_else(tmp_path: Path) -> None:
    mine, folder, file = tmp_path / "mine", tmp_path / ".keys", tmp_path / ".token"
    mine.mkdir()
    folder.mkdir()
    (folder / "id").write_text("secret")
    file.write_text("secret")

    def inside() -> list[object]:
        return [freeze_files([mine], private=[folder, file]), os.listdir(folder), file.read_text()]

    assert in_a_child(inside) == [True, [], ""]
    assert (folder / "id").read_text() == file.read_text() == "secret"


def test_whatever_is_hidden_in_the_home_folder_is_private_but_for_what_python_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".ssh", ".cache", ".tools", ".venv"):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / ".netrc").write_text("secret")
    (tmp_path / "work").mkdir()
    entry = types.SimpleNamespace(pw_dir=str(tmp_path))
    monkeypatch.setattr(mounts.pwd, "getpwuid", lambda user: entry)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / ".tools" / "inner"))
    found = {path for path in mounts.keys_and_tokens([tmp_path / ".cache" / "inner"]) if path.parent == tmp_path}
    assert found == {tmp_path / ".ssh", tmp_path / ".netrc"}


def test_a_worker_says_which_restrictions_are_in_force(tmp_path: Path) -> None:
    def inside() -> list[object]:
        applied = sandbox.enter(tmp_path / "scratch", gpu=False)
        unreachable = attempt(lambda: socket.create_connection(("192.0.2.1", 9), timeout=0.2))
        return [applied, unreachable, os.getcwd()]

    applied, unreachable, folder = in_a_child(inside)  # type: ignore[misc]
    assert {"rlimit", "scratch"} <= set(applied)
    assert unreachable != "done"
    assert folder == str(tmp_path / "scratch")


def test_only_named_variables_reach_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_SEED", "1")
    assert "SECRET_SEED" not in sandbox.environment()
    assert "PATH" in sandbox.environment()


def test_a_snapshot_notices_replaced_functions_and_swapped_code() -> None:
    def inside() -> list[object]:
        import statistics

        import torch

        from kbench.harness.verify import verify

        clean = Pristine()
        first = clean.changed()
        verify.call.__code__ = (lambda *a: None).__code__.replace(co_freevars=())
        second = clean.changed()
        again = Pristine()
        torch.Tensor.__le__ = lambda self, other: True  # type: ignore[method-assign, assignment]
        third = again.changed()
        last = Pristine()
        statistics.median = max  # type: ignore[assignment]
        return [first, second, third, last.changed()]

    found = in_a_child(inside)
    assert found == [
        None,
        "the code of kbench.harness.verify.verify.call was replaced",
        "class torch.Tensor.__le__ was added",
        "statistics.median was replaced",
    ]
