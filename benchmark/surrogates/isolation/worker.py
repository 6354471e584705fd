"""The process a user's surrogate lives in: `python -m kbench.benchmark.surrogates.isolation.worker READ_FD WRITE_FD`.

Whatever the surrogate prints, changes, hangs on or exits with stays in this process.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, BinaryIO

from kbench.benchmark.surrogates.isolation.wire import line, pack_forecasts, unpack_queries, unpack_training
from kbench.benchmark.surrogates.protocol import INPUTS
from kbench.benchmark.surrogates.resolve import SurrogateTarget, construct
from kbench.schemas import KbenchError


class Session:
    """One surrogate and what is asked of it."""

    def __init__(self) -> None:
        self._surrogate: Any = None

    def make(self, message: dict[str, Any]) -> dict[str, Any]:
        """Construct the surrogate and say what it is."""
        self._surrogate = construct(SurrogateTarget(**message["target"]), message["arguments"])
        return {
            "inputs": getattr(self._surrogate, "inputs", INPUTS[0]),
            "repeats": int(getattr(self._surrogate, "repeats", 1)),
            "fits": callable(getattr(self._surrogate, "fit", None)),
        }

    def fit(self, message: dict[str, Any]) -> dict[str, Any]:
        """Let it learn."""
        with open(message["path"], encoding="utf-8") as file:
            self._surrogate.fit(unpack_training(json.load(file)))
        return {}

    def forecast(self, message: dict[str, Any]) -> dict[str, Any]:
        """Let it answer."""
        return {"forecasts": pack_forecasts(list(self._surrogate.forecast(unpack_queries(message["queries"]))))}

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Any request, by its name; an exception becomes its message."""
        try:
            action = {"make": self.make, "fit": self.fit, "forecast": self.forecast}[message["do"]]
            return {"ok": True} | action(message)
        except KbenchError as error:
            return {"ok": False, "error": str(error), "user": True}
        except Exception as error:  # noqa: BLE001 - the process boundary: anything a user's code raises is an answer
            traceback.print_exc(file=sys.stderr)
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}


def serve(requests: BinaryIO, responses: BinaryIO) -> None:
    """Answer until the parent closes the pipe."""
    session = Session()
    for request in requests:
        reply = session.answer(json.loads(request))
        responses.write(line(reply))
        responses.flush()


def main() -> None:
    """Entry point."""
    read_fd, write_fd = int(sys.argv[1]), int(sys.argv[2])
    # Children of the surrogate must not hold the pipes open after it died.
    os.set_inheritable(read_fd, False)
    os.set_inheritable(write_fd, False)
    with open(read_fd, "rb") as requests, open(write_fd, "wb") as responses:
        serve(requests, responses)


if __name__ == "__main__":
    main()
