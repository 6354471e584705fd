"""What a worker has given up, tried from inside a forked process."""

import ctypes
import errno
import fcntl
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import kbench.harness
from kbench.harness.isolate import limits, sandbox
from kbench.harness.isolate.protocol import KEY_BYTES, Channel
from kbench.harness.isolate.sandbox import LOG_NAME
from kbench.harness.isolate.spawner import LOG_TAIL, WorkerProcess
from kbench.loaders.storage import mounts, namespaces
from kbench.loaders.storage.mounts import close_files, freeze_files
from kbench.loaders.storage.scratch import remove_tree
from kbench.loaders.storage.seccomp import forbid_reaching_out, lock_down
from kbench.schemas import Status

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root here")


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
    def inside() -> list[object]:
        locked = lock_down()
        done: list[int] = []
        thread = threading.Thread(target=done.append, args=(1,))
        thread.start()
        thread.join()
        return [locked, attempt(os.fork), attempt(lambda: os.execv("/bin/true", ["true"])), done]

    assert in_a_child(inside) == [True, "PermissionError", "PermissionError", [1]]


def test_without_sockets_programs_and_pairs_work_but_nobody_can_be_reached() -> None:
    def pair_of(kind: socket.SocketKind) -> str:
        def sends() -> None:
            here, there = socket.socketpair(socket.AF_UNIX, kind)
            with here, there:
                here.send(b"x")

        return attempt(sends)

    def started(*command: str) -> bool:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def inside() -> list[object]:
        return [
            forbid_reaching_out(),
            started("true"),
            [pair_of(kind) for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM)],
            [attempt(lambda: socket.socket(socket.AF_UNIX)), attempt(socket.socket)],
            started(sys.executable, "-c", "import socket; socket.socket()"),
        ]

    refused = "PermissionError"
    assert in_a_child(inside) == [True, True, ["done", "done", refused], [refused, refused], False]


PTRACE, PROCESS_VM_READV, PIDFD_GETFD, IO_URING_SETUP, GETPID = 101, 310, 438, 425, 39
OTHER_ABI = 0x40000000


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls")
@pytest.mark.parametrize("forbid", [lock_down, forbid_reaching_out])
def test_others_memory_is_out_of_reach_and_no_call_has_a_second_number(forbid: Callable[[], bool]) -> None:
    def error_of(number: int) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.syscall(number, -1, 0, 0, 0, 0, 0) == -1
        return ctypes.get_errno()

    def inside() -> list[object]:
        return [forbid(), *map(error_of, (PTRACE, PROCESS_VM_READV, PIDFD_GETFD, OTHER_ABI | GETPID, IO_URING_SETUP))]

    *denied, ring = in_a_child(inside)  # type: ignore[misc]
    assert denied == [True] + 4 * [errno.EPERM]
    assert forbid is lock_down or ring == errno.ENOSYS


def worker_in(folder: Path) -> WorkerProcess:
    here, there = socket.socketpair()
    here.close()
    there.close()
    return WorkerProcess(0, Channel(here, bytes(KEY_BYTES)), "plan", folder, {})


def test_of_a_log_only_the_end_is_read(tmp_path: Path) -> None:
    with open(tmp_path / LOG_NAME, "w") as log:
        # A file with a hole: whoever reads it whole needs all that memory.
        log.seek(1 << 38)
        log.write("€" * LOG_TAIL + "its last words\n")
    said = worker_in(tmp_path).log_tail()
    assert said.endswith("€its last words")
    assert len(said) == LOG_TAIL - 1


REPLACED: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda log, secret: log.symlink_to(secret),
    "second name": lambda log, secret: log.hardlink_to(secret),
    "pipe": lambda log, secret: os.mkfifo(log),
    "endless": lambda log, secret: log.symlink_to("/dev/zero"),
    "folder": lambda log, secret: log.mkdir(),
    "missing": lambda log, secret: None,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("how", REPLACED)
def test_a_log_that_was_replaced_is_not_read(how: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    REPLACED[how](tmp_path / LOG_NAME, secret)
    assert worker_in(tmp_path).log_tail() == ""


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with folders in folders, deeper than a recursive function can follow."""
    here, made = os.open(".", os.O_RDONLY), tmp_path / "deep"
    made.mkdir()
    os.chdir(made)
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    os.fchdir(here)
    os.close(here)
    yield made
    # Whatever a test left of it: pytest cannot remove it either.
    subprocess.run(["rm", "-rf", "--", made], check=True)


def test_folders_however_deep_are_removed(deep: Path) -> None:
    worker_in(deep).clean()
    assert not deep.exists()


def test_what_cannot_be_removed_stays_and_nobody_is_told(
    deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_tree(tmp_path / "missing")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        remove_tree(deep)
        assert deep.exists()


@as_root
def test_only_what_is_needed_is_seen_wherever_the_rest_lies(tmp_path: Path) -> None:
    folders = ("scratch", "needed", "needed/cache", "needed/cache/own")
    scratch, needed, cache, own = (tmp_path / name for name in folders)
    for folder in (scratch, own):
        folder.mkdir(parents=True)
    for file in (needed / "module.py", cache / "rival.cubin", tmp_path / "results.jsonl", tmp_path / "problem.py"):
        file.write_text("text")
    (tmp_path / "link").symlink_to(needed)

    def inside() -> list[object]:
        closed = close_files(scratch, [needed, tmp_path / "link", tmp_path / "problem.py"], [own], [cache])
        return [
            closed,
            [sorted(os.listdir(folder)) for folder in (tmp_path, tmp_path / "link", cache, Path.home(), "/dev/shm")],
            (tmp_path / "problem.py").read_text(),
            [attempt((folder / "new").touch) for folder in (scratch, own, needed, tmp_path, Path("/usr"))],
        ]

    seen = [["link", "needed", "problem.py", "scratch"], ["cache", "module.py"], ["own"], [], []]
    assert in_a_child(inside) == [True, seen, "text", ["done", "done", "OSError", "OSError", "OSError"]]
    assert sorted(os.listdir(cache)) == ["own", "rival.cubin"]


def test_python_and_its_packages_are_needed_and_lie_in_no_folder_twice() -> None:
    needed = mounts.what_python_needs()
    for module in (torch, kbench.harness, json):
        place = Path(str(module.__file__)).resolve()
        assert mounts._is_systems(place) or any(place.is_relative_to(folder) for folder in needed)
    kept = mounts.outermost(needed)
    assert not [one for one in kept for other in kept if one != other and one.is_relative_to(other)]
    folders = map(Path, ("/", "/usr/x", "/b/c/d", "/b/c", "/b/c-d"))
    assert mounts.outermost(list(folders)) == [Path("/b/c"), Path("/b/c-d")]


def tried_in_memory(scratch: Path) -> list[object]:
    """What holds in a folder that was put in memory."""
    os.chdir(scratch)
    frozen = close_files(scratch, []) or freeze_files([scratch])
    room = os.statvfs(".")
    return [
        frozen,
        os.listdir(scratch),
        attempt(lambda: (scratch / "triton" / "inner").mkdir(parents=True)),
        os.listdir("."),
        room.f_blocks * room.f_frsize <= 1 << 30 and 0 < room.f_files <= 65536,
        attempt(lambda: (scratch.parent / "outside").touch()),
    ]


@as_root
def test_a_folder_in_memory_is_empty_small_and_gone_with_its_process(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).write_text("log")
    assert in_a_child(lambda: tried_in_memory(tmp_path)) == [True, [], "done", ["triton"], True, "OSError"]
    assert os.listdir(tmp_path) == [LOG_NAME]


@as_root
def test_where_no_folder_can_be_put_in_memory_it_stays_writable_on_disk(tmp_path: Path) -> None:
    def inside() -> object:
        mounts.IN_MEMORY = b"no_such_option=1"
        return tried_in_memory(tmp_path)

    (tmp_path / LOG_NAME).write_text("log")
    frozen, before, made, after, _, outside = in_a_child(inside)  # type: ignore[misc]
    assert (frozen, before, made, outside) == (True, [LOG_NAME], "done", "OSError")
    assert sorted(after) == [LOG_NAME, "triton"]


SOMEONE, PR_SET_DUMPABLE = 1234, 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")
def test_a_user_without_privileges_keeps_its_name_and_its_folder_in_memory() -> None:
    scratch = Path(tempfile.mkdtemp()) / "scratch"
    scratch.mkdir()
    for path in (scratch.parent, scratch):
        os.chown(path, SOMEONE, SOMEONE)

    def inside() -> list[object]:
        os.setgroups([])
        os.setgid(SOMEONE)
        os.setuid(SOMEONE)
        # A process that was root may not look at itself, unless it says so.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)
        applied = sandbox.enter(scratch, gpu=False)
        tried = tried_in_memory(scratch)
        return [applied, os.getuid(), tried, namespaces.drop_capabilities(), attempt(Path("x").touch)]

    applied, user, *rest = in_a_child(inside)  # type: ignore[misc]
    shutil.rmtree(scratch.parent)
    if "netns" not in applied:
        pytest.skip("users may not make namespaces here")
    assert user == SOMEONE
    assert rest == [[True, [], "done", ["triton"], True, "OSError"], True, "done"]


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
    mounts.what_python_needs.cache_clear()
    found = {path for path in mounts.keys_and_tokens([tmp_path / ".cache" / "inner"]) if path.parent == tmp_path}
    assert found == {tmp_path / ".ssh", tmp_path / ".netrc"}
    mounts.what_python_needs.cache_clear()


def test_what_can_only_be_read_cannot_be_locked(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.touch()

    exclusive = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)

    def inside() -> list[object]:
        forbidden = forbid_reaching_out()
        with file.open("rb") as read, file.open("ab") as write:
            return [
                forbidden,
                attempt(lambda: fcntl.flock(read, fcntl.LOCK_SH | fcntl.LOCK_NB)),
                attempt(lambda: fcntl.lockf(read, fcntl.LOCK_SH | fcntl.LOCK_NB)),
                attempt(lambda: fcntl.lockf(write, fcntl.LOCK_EX)),
                attempt(lambda: fcntl.fcntl(write, fcntl.F_OFD_SETLK, exclusive)),
                attempt(lambda: fcntl.fcntl(read, fcntl.F_SETLEASE, fcntl.F_RDLCK)),
                attempt(lambda: fcntl.fcntl(read, fcntl.F_GETFL)),
                subprocess.run(["flock", "-n", file, "true"], check=False, capture_output=True).returncode == 0,
            ]

    assert in_a_child(inside) == [True, *5 * ["PermissionError"], "done", False]


def sleepers(count: int) -> None:
    for _ in range(count):
        if os.fork() == 0:
            time.sleep(60)


def hold_memory(nbytes: int) -> None:
    if os.fork() == 0:
        kept = bytearray(os.urandom(1) * nbytes)
        time.sleep(60 + len(kept))


def burn() -> None:
    for _ in range(2):
        if os.fork() == 0:
            while True:
                pass


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("misuse", "status", "words"),
    [
        (lambda: sleepers(12), Status.REJECTED, "more than 8 processes"),
        (lambda: [hold_memory(48 << 20) for _ in range(4)], Status.OUT_OF_MEMORY, "GiB over "),
        (burn, Status.TIMEOUT, "s of processor time"),
        (lambda: None, None, ""),
    ],
    ids=["processes", "memory", "processor", "honest"],
)
def test_limits_count_all_processes_of_a_worker_together(
    misuse: Callable[[], object], status: Status | None, words: str
) -> None:
    worker = os.fork()
    if worker == 0:
        os.setsid()
        misuse()
        time.sleep(60)
    before = limits._shared_out_bytes(worker)
    # Processes that are forked take over a part of what this one shares with its parent.
    room = 128 << 20 if status is Status.OUT_OF_MEMORY else 1 << 40
    allowed = limits.Limits(cpu_s=1.0, processes=8, nbytes=before + room)
    found, end = None, time.monotonic() + (40.0 if status else 1.0)
    while found is None and time.monotonic() < end:
        found = allowed.exceeded(worker)
        time.sleep(limits.LOOK_SECONDS)
    started = limits.descendants(worker, 100)
    limits.end(worker)
    os.waitpid(worker, 0)
    assert (found[0] if found else None) is status
    assert words in (found[1] if found else "")
    end = time.monotonic() + 10.0
    while any(alive(process) for process in started[1:]) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(alive(process) for process in started[1:])


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_only_named_variables_reach_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_SEED", "1")
    assert "SECRET_SEED" not in sandbox.environment()
    assert "PATH" in sandbox.environment()
