"""Machines that refuse to write. Usage: refusals.py OUT.json [NAMES]

Every command that writes meets a folder that is read-only, a limit on the size of files, and a full disk (a small tmpfs
in a mount namespace, where the system permits one). It must end with exit code 1 or 2 and one line, leave what stood
there, leave nothing aside, and do its work once there is room. Pairs of commands that are not named stay in OUT.json.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from commands import Command, begun, known
from kill_commands import Runner, contents, left_aside, ready_runner

CLONE_NEWNS, CLONE_NEWUSER, MS_REC_PRIVATE = 0x20000, 0x10000000, 0x44000
CAPABILITIES = 0x20080522
"""Version of the arguments of capset."""
PAGE_BYTES = 4096
HOLDS = "the small disk holds: "


def read_only(work: Path) -> None:
    """Only temporary files can be written; root gives up what lets it write all the same."""
    for folder in (work, *(path for path in work.rglob("*") if path.is_dir() and path.name not in ("tmp", "home"))):
        folder.chmod(0o555)
    header, nothing = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    ctypes.CDLL(None).capset(header, nothing)


def small_files(bytes_: int) -> Callable[[Path], None]:
    """No file may grow above a size."""
    return lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


def full_disk(bytes_: int) -> Callable[[Path], None]:
    """The output's file system has little room beside what lies there before; what it holds at the end is told."""

    def mount(work: Path) -> None:
        libc, user = ctypes.CDLL(None, use_errno=True), os.getuid()
        hidden = os.open(work, os.O_RDONLY)
        pages = sum(-(-path.stat().st_size // PAGE_BYTES) for path in work.rglob("*") if path.is_file())
        if libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)):
            os._exit(98)
        libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None)
        if libc.mount(b"small", os.fsencode(work), b"tmpfs", 0, f"size={pages * PAGE_BYTES + bytes_}".encode()):
            os._exit(98)
        shutil.copytree(f"/proc/self/fd/{hidden}", work, dirs_exist_ok=True)
        os.close(hidden)
        os.chdir(work)
        atexit.register(lambda: os.write(1, f"{HOLDS}{json.dumps([hashes(work), left_aside(work)])}\n".encode()))

    return mount


FAULTS = {
    "read-only folder": read_only,
    **{f"files of at most {size} bytes": small_files(size) for size in (0, 100, 1000, 4000, 16000)},
    **{f"a disk of {size} bytes": full_disk(size) for size in (4096, 16384, 65536)},
}


def hashes(work: Path) -> dict[str, str]:
    """Of each file a command wrote, a hash."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in contents(work).items()}


def refused(runner: Runner, one: Command, fault: str, whole: set[str]) -> dict[str, Any]:
    """One command on one machine, where a run that meets no fault writes some files."""
    work = begun(one, runner.base / "refused")
    before = hashes(work)
    code, _, outlived = runner.run(one.arguments(work), work, fault=FAULTS[fault])
    said = runner.said.replace(str(runner.base), "BASE")
    for folder in (work, *work.rglob("*")):
        if folder.is_dir():
            folder.chmod(0o755)
    written, left = hashes(work), left_aside(work)
    said, _, held = said.partition(HOLDS)
    if held:
        written, left = json.loads(held.splitlines()[0])
    told = [line for line in said.splitlines() if line.startswith("kbench:")]
    done = code == one.ends and set(written) >= whole
    again = one.ends if done else runner.run(one.arguments(work), work)[0]
    shutil.rmtree(work)
    # What appends keeps whole lines, and a corpus without its manifest is none.
    kept = one.resumes or (one.commits and "out/manifest.json" not in written) or written == before
    one_line = len(told) == 1 and "Traceback" not in said
    good = (done or (code in (1, 2) and one_line and kept)) and not left and not outlived and again == one.ends
    shown = told[0] if told else said[-200:]
    return {
        "code": code, "said": shown, "written": sorted(written), "left": left, "again": again, "good": good,
        "refused": not done,
    }  # fmt: skip


def main() -> None:
    """Refuse and write what came of it."""
    out, chosen = Path(sys.argv[1]), sys.argv[2].split(";") if len(sys.argv) > 2 else []
    found: dict[str, dict[str, Any]] = json.loads(out.read_text())["cases"] if chosen and out.exists() else {}
    with ready_runner() as runner:
        for name, one in known(runner.base).items():
            if not one.compares or (chosen and name not in chosen):
                continue
            work = begun(one, runner.base / "whole")
            if runner.run(one.arguments(work), work)[0] != one.ends:
                raise SystemExit(f"{name}: {runner.said}")
            whole = set(contents(work))
            shutil.rmtree(work)
            for fault in FAULTS:
                found[f"{name}: {fault}"] = result = refused(runner, one, fault, whole)
                if not result["good"]:
                    sys.stderr.write(f"{name}: {fault}: {json.dumps(result)}\n")
            write(out, found)
    sys.exit(any(not one["good"] for one in found.values()))


def write(out: Path, found: dict[str, dict[str, Any]]) -> None:
    """The pairs so far, and how many went wrong."""
    wrong = sum(not one["good"] for one in found.values())
    refusals = sum(one["refused"] for one in found.values())
    summary = {"tried": len(found), "refused": refusals, "wrong": wrong}
    sys.stderr.write(json.dumps(summary) + "\n")
    out.write_text(json.dumps(summary | {"cases": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
