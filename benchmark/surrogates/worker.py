"""The process of a user's surrogate: `python -m kbench.benchmark.surrogates.worker FD`.

Whatever the surrogate prints, changes, hangs on or exits with stays in this process. Its limits are asked of the system
before any of its code runs. What the system does not permit is named, not hidden: docs/threat-model.md says what each
part is worth.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import platform
import resource
import socket
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kbench
from kbench.loaders.storage.mounts import conceal
from kbench.loaders.storage.namespaces import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    drop_capabilities,
    enter_process_namespace,
    leave_first_process,
    process_namespace_works,
    unshare,
)
from kbench.loaders.storage.scratch import settle_temporary_folder
from kbench.loaders.storage.seccomp import forbid_escape
from kbench.schemas import Forecast, KbenchError, to_dict


def main() -> None:
    """Answer until the parent closes the connection."""
    surrogate: Any = None
    printed = ""
    with socket.socket(fileno=int(sys.argv[1])) as connection, connection.makefile("rb") as requests:
        # Before any of the surrogate's code runs, so that it can be refused where too little is in force.
        connection.sendall(_line({"confine": confine(**json.loads(requests.readline()))}))
        # Not sooner: numpy starts threads, and a process that has any may not become a user of its own.
        from kbench.benchmark.surrogates.protocol import SurrogateFacts, answer_rows
        from kbench.benchmark.surrogates.resolve import construct

        settle_temporary_folder()
        # Children of the surrogate must not hold the connection open after it died.
        connection.set_inheritable(False)
        with contextlib.suppress(EOFError):
            while True:
                kind, given = pickle.load(requests)
                try:
                    if kind == "make":
                        surrogate = construct(*given)
                        result: Any = dataclasses.asdict(SurrogateFacts.of(surrogate))
                    elif kind == "fit":
                        surrogate.fit(pickle.loads(Path(given).read_bytes()))
                        result = True
                    else:
                        result = answer_rows(surrogate.forecast(given), given)
                    reply = _line({kind: result})
                except Exception as error:  # noqa: BLE001 - the process boundary: what a user's code raises is a reply
                    ours, at = isinstance(error, KbenchError), _place(error)
                    text = traceback.format_exc()
                    if (at or not ours) and text != printed:
                        # Queries of a batch that failed are asked singly, and most fail alike.
                        printed = text
                        sys.stderr.write(text)
                    reply = _line({"failed": f"{'' if ours else f'{type(error).__name__}: '}{error}{at}"})
                connection.sendall(reply)


def _place(error: Exception) -> str:
    """The last line of the author's own code that an error came through; empty where it came through none."""
    others = (
        f"{Path(kbench.__file__).parent}{os.sep}",
        *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
        "<",
    )
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(others)]
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _line(reply: dict[str, Any]) -> bytes:
    """One line of JSON. NaN and Infinity pass, so that the reader can refuse them by name."""
    return json.dumps(reply, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Forecast):
        return {name: each for name, each in to_dict(value).items() if each is not None}
    if hasattr(value, "tolist"):
        # Most models have numpy numbers at hand.
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no number")


def confine(
    memory_bytes: int,
    network: bool,
    hidden: Sequence[str] = (),
    protected: Sequence[str] = (),
    writable: Sequence[str] = (),
) -> list[str]:
    """Confine this process and all it starts, as far as the system permits.

    Args:
        memory_bytes: limit on the data of each process.
        network: whether other machines may be reached.
        hidden: files and folders that are empty from here on.
        protected: folders that can only be read, though they lie in writable ones.
        writable: folders that can be written; nothing else can.

    Returns:
        What the system does not permit.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if platform.system() != "Linux":
        return ["hiding answers and secrets", "limits on system calls"]
    missing = []
    spaces = CLONE_NEWNS | CLONE_NEWIPC
    if unshare(spaces if network else spaces | CLONE_NEWNET) or unshare(CLONE_NEWNS):
        # A /proc of its own comes first: others' entries there lead around what is hidden.
        separate = process_namespace_works() and enter_process_namespace()
        visible, changeable = conceal(*([Path(path) for path in paths] for paths in (hidden, protected, writable)))
        if separate:
            leave_first_process()
        else:
            missing.append("hiding other processes")
        missing += [f"hiding {path}" for path in visible] + [
            f"keeping {path} from being changed" for path in changeable
        ]
    else:
        missing.append("private mounts, which would hide answers and secrets")
    if not drop_capabilities():
        missing.append("giving up privileges")
    if not forbid_escape(network=network):
        missing.append("limits on system calls" + ("" if network else ", which would cut off the network"))
    return missing


if __name__ == "__main__":
    main()
