"""Machines that refuse to write. Usage: refusals.py OUT.json [NAMES]

Every command that writes meets a folder that is read-only, a limit on the size of files, and a full disk (a small tmpfs
in a mount namespace, where the system permits one). It must end with exit code 1 or 2 and one line, leave what stood
there, leave nothing aside, and do its work once there is room.
"""

from __future__ import annotations

import ctypes
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
    """The output's file system is small."""

    def mount(work: Path) -> None:
        libc, user = ctypes.CDLL(None, use_errno=True), os.getuid()
        if libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)):
            os._exit(98)
        libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None)
        if libc.mount(b"small", os.fsencode(work), b"tmpfs", 0, f"size={bytes_}".encode()):
            os._exit(98)
        (work / "tmp").mkdir()
        os.chdir(work)

    return mount


FAULTS = {
    "read-only folder": read_only,
    **{f"files of at most {size} bytes": small_files(size) for size in (0, 100, 1000, 4000, 16000)},
    **{f"a disk of {size} bytes": full_disk(size) for size in (4096, 16384, 65536)},
}


def refused(runner: Runner, one: Command, fault: str) -> dict[str, Any]:
    """One command on one machine."""
    work = begun(one, runner.base / "refused")
    code, _, outlived = runner.run(one.arguments(work), work, fault=FAULTS[fault])
    said = runner.said
    for folder in (work, *work.rglob("*")):
        if folder.is_dir():
            folder.chmod(0o755)
    told = [line for line in said.splitlines() if line.startswith("kbench:")]
    left, written = left_aside(work), contents(work)
    again = runner.run(one.arguments(work), work)[0] if code else 0
    shutil.rmtree(work)
    one_line = len(told) == 1 and "Traceback" not in said
    good = code == 0 or (code in (1, 2) and one_line and not left and not outlived)
    good = good and not again
    shown = told[0] if told else said[-200:]
    return {"code": code, "said": shown, "written": sorted(written), "left": left, "again": again, "good": good}


def main() -> None:
    """Refuse and write what came of it."""
    found: dict[str, dict[str, Any]] = {}
    with ready_runner() as runner:
        for name, one in known(runner.base).items():
            if not one.compares or one.ends or (len(sys.argv) > 2 and name not in sys.argv[2].split(";")):
                continue
            for fault in FAULTS:
                found[f"{name}: {fault}"] = result = refused(runner, one, fault)
                if not result["good"]:
                    sys.stderr.write(f"{name}: {fault}: {json.dumps(result)}\n")
    wrong = sum(not one["good"] for one in found.values())
    refusals = sum(one["code"] != 0 for one in found.values())
    summary = {"tried": len(found), "refused": refusals, "wrong": wrong}
    sys.stderr.write(json.dumps(summary) + "\n")
    Path(sys.argv[1]).write_text(json.dumps(summary | {"cases": found}, indent=1) + "\n")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
