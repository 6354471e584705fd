"""Zygote: a process that has imported everything and forks ready workers in milliseconds.

Importing torch and Triton takes seconds; a worker that died must be replaced while the next kernel waits. The zygote
never touches CUDA, so a forked worker can make its own context.

The first workers need not wait for the zygote's imports: those requested as `early` are forked before it imports
anything, and import what they need themselves while the driver makes their context.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from kbench.harness.isolate import limits, sandbox
from kbench.harness.worker import serve as worker
from kbench.loaders.storage import namespaces
from kbench.loaders.storage.scratch import remove_tree
from kbench.schemas.errors import install_command

EARLY_MS, IDLE_MS = 2_000, round(1e3 * limits.LOOK_SECONDS)
"""How long early requests are waited for before the zygote imports, and how often it looks for deaths afterwards."""


def main() -> None:
    """Serve spawn requests on the descriptor named in argv; workers' folders are below the folder named next.

    The last argument is `plan` where the workers plan kernels, `run` where they hold devices.
    """
    planning = sys.argv[3] in ("plan", "count")

    def load() -> None:
        try:
            worker.preload(planning=planning, counting=sys.argv[3] == "count")
        except (ImportError, RuntimeError) as error:
            sys.exit(f"{error}; {install_command('explain')} installs what compiling needs beside torch")
        # What was imported lives for good: neither the collector nor copy-on-write should touch it again.
        gc.freeze()

    if planning:
        load()
    serve(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]), None if planning else load)


def serve(control: socket.socket, scratch: Path, load: Callable[[], None] | None = None) -> None:
    """Fork a worker for each request until the parent hangs up or dies, then remove what the workers left.

    Args:
        control: where requests come from.
        scratch: the folder below which workers have theirs.
        load: imports what workers need, after the early ones were forked; None when that has been done.
    """
    # When the parent was killed, its workers follow as this process ends.
    with contextlib.suppress(ConnectionError):
        _serve(control, load)
    remove_tree(scratch)


def _serve(control: socket.socket, load: Callable[[], None] | None) -> None:
    confined = namespaces.process_namespace_works()
    limits.adopt_orphans()
    workers: dict[int, limits.Limits | None] = {}
    control.sendall(b'{"ready": true}\n')
    poller = select.poll()
    poller.register(control, select.POLLIN)
    looked = 0.0
    while True:
        ready = poller.poll(IDLE_MS if load is None else EARLY_MS)
        _report_deaths(control, workers)
        if time.monotonic() - looked >= limits.LOOK_SECONDS:
            _watch(control, workers)
            looked = time.monotonic()
        text, fds, _, _ = socket.recv_fds(control, 1 << 16, 1) if ready else (b"", [], 0, None)
        if ready and not text:
            return
        request = json.loads(text) if text else {}
        if load is not None and not request.get("early"):
            load()
            load = None
        if not text:
            continue
        pid = os.fork()
        if pid == 0:
            _become_worker(control, request, fds[0], confined=confined)
        os.close(fds[0])
        workers[pid] = limits.Limits(**request["limits"]) if "limits" in request else None
        _tell(control, {"spawned": pid})


def _tell(control: socket.socket, message: Mapping[str, object]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def _report_deaths(control: socket.socket, workers: dict[int, limits.Limits | None]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in workers:
            del workers[pid]
            _tell(control, {"died": pid, "code": os.waitstatus_to_exitcode(status)})


def _watch(control: socket.socket, workers: Mapping[int, limits.Limits | None]) -> None:
    """End workers that exceed their limits, and whatever outlived the worker that started it."""
    for pid, allowed in workers.items():
        excess = None if allowed is None else allowed.exceeded(pid)
        if excess is not None:
            _tell(control, {"exceeded": pid, "status": excess[0].value, "reason": excess[1]})
            limits.end(pid)
    for pid in limits.children(os.getpid()):
        if pid not in workers:
            limits.end(pid)


def _become_worker(control: socket.socket, request: dict[str, object], descriptor: int, *, confined: bool) -> None:
    """Never returns: whatever happens, the child must not run the zygote's loop."""
    code = 1
    try:
        control.close()
        # In this order there is no moment at which neither the group's end nor the parent's would end this process.
        namespaces.die_with_parent()
        os.setsid()
        if confined and request["role"] not in worker.TRUSTED:
            namespaces.enter_process_namespace(limits.MOST_TASKS if "limits" in request else None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        scratch = Path(str(request["scratch"]))
        scratch.mkdir(parents=True, exist_ok=True)
        log = os.open(scratch / sandbox.LOG_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sandbox.close_inherited(descriptor)
        worker.serve(descriptor, request, scratch)
        code = 0
    except BaseException:  # noqa: BLE001 - the process boundary: the traceback goes to the worker's log
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
