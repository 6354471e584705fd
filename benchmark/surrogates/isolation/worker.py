"""The process of a user's surrogate: `python -m kbench.benchmark.surrogates.isolation.worker FD`.

Whatever the surrogate prints, changes, hangs on or exits with stays in this process.
"""

from __future__ import annotations

import json
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from kbench.benchmark.surrogates.forecasts.answers import answer_rows
from kbench.benchmark.surrogates.isolation import messages
from kbench.benchmark.surrogates.isolation.confine import confine
from kbench.benchmark.surrogates.protocol import SurrogateFacts
from kbench.benchmark.surrogates.resolve import construct
from kbench.loaders.storage.scratch import settle_temporary_folder
from kbench.schemas import KbenchError


class SurrogateSession:
    """One surrogate and the requests made of it."""

    def __init__(self) -> None:
        self._surrogate: Any = None

    def reply(self, request: messages.Request) -> bytes:
        """Do what a request says; an exception becomes its message."""
        try:
            return messages.encode(self._done(request))
        except KbenchError as error:
            return messages.encode(messages.Failed(str(error)))
        except Exception as error:  # noqa: BLE001 - the process boundary: anything a user's code raises is a reply
            traceback.print_exc(file=sys.stderr)
            return messages.encode(messages.Failed(f"{type(error).__name__}: {error}"))

    def _done(self, request: messages.Request) -> messages.Reply:
        match request:
            case messages.Make(target, arguments):
                self._surrogate = construct(target, arguments)
                return SurrogateFacts.of(self._surrogate)
            case messages.Fit(path):
                self._surrogate.fit(messages.decode(Path(path).read_bytes()).pairs())
                return messages.Fitted()
            case messages.Ask(queries):
                asked = queries.queries()
                return messages.Answered(answer_rows(self._surrogate.forecast(asked), asked))


def main() -> None:
    """Answer until the parent closes the connection."""
    for refused in confine(**json.loads(sys.argv[2])) if len(sys.argv) > 2 else ():
        sys.stderr.write(f"kbench: this system does not permit {refused}; the surrogate runs without that limit\n")
    settle_temporary_folder()
    session = SurrogateSession()
    with socket.socket(fileno=int(sys.argv[1])) as connection, connection.makefile("rb") as requests:
        # Children of the surrogate must not hold the connection open after it died.
        connection.set_inheritable(False)
        for request in requests:
            connection.sendall(session.reply(messages.decode(request)))


if __name__ == "__main__":
    main()
