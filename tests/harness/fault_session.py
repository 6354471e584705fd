"""A server of measuring sessions that can be killed: one line on stdin starts a session, its pid is answered.

Everything is imported once, under Triton's interpreter; a session is a fork, and so is its starter of workers.
"""

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from honest_kernels import KERNELS, numbered

from kbench.harness.commands.journal import Journal
from kbench.harness.commands.measure import run_journaled
from kbench.harness.harness import Harness
from kbench.harness.isolate.spawner import Spawner
from kbench.harness.worker import serve as worker
from kbench.harness.worker import zygote


def close_what_a_new_program_would_not_have(*but: int) -> None:
    """A fork that stands for a started program must not hold the journal's lock."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) not in but and not os.get_inheritable(int(name)):
                os.close(int(name))
        except OSError:
            continue


class ForkedStarter:
    """A forked zygote with the part of Popen's interface that a Spawner uses."""

    stderr = None

    def __init__(self, control: socket.socket, scratch: Path, keep: socket.socket | None) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            if keep is not None:
                keep.close()
            close_what_a_new_program_would_not_have(control.fileno())
            os.setsid()
            try:
                zygote.serve(control, scratch)
            finally:
                os._exit(0)

    def poll(self) -> int | None:
        done, status = os.waitpid(self.pid, os.WNOHANG)
        return status if done else None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        os.waitpid(self.pid, 0)


class ForkSpawner(Spawner):
    """Starts its zygote by forking, in a millisecond."""

    def _start_zygote(self, control: socket.socket) -> Any:
        # The child must not hold the parent's end, or it would never see the parent die.
        return ForkedStarter(control, self.scratch, self._here)

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        self._here, there = super()._pair()
        return self._here, there


class ForkHarness(Harness):
    spawner_type = ForkSpawner


def session(out: Path, cache: Path) -> None:
    journal = Journal(out)
    todo = [k for k in map(numbered, range(KERNELS)) if k.kernel_id not in journal.measurements]
    with ForkHarness(gpu=None, cache=cache, workloads=("tiny",), builders=1, retries=1000) as harness:
        for _ in run_journaled(harness, todo, journal):
            pass
    journal.close()


def main() -> None:
    worker.preload(planning=False)
    out, cache = Path(sys.argv[1]), Path(sys.argv[2])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                session(out, cache)
                code = 0
            finally:
                os._exit(code)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
