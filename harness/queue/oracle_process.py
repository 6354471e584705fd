"""Oracle process: the process that holds a device's expected answers, as its parent sees it."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from kbench.harness.device.gpu import Gpu
from kbench.harness.isolate.protocol import KEY_BYTES, ClosedError, ProtocolError
from kbench.harness.isolate.spawner import Spawner
from kbench.schemas import InfrastructureError


class OracleProcess:
    """Started at once, and waited for when the first kernel goes to its device."""

    def __init__(self, spawner: Spawner, gpu: Gpu) -> None:
        """Start it.

        Raises:
            InfrastructureError: no process can be started.
        """
        address = str(Path(tempfile.mkdtemp(prefix="oracle-", dir=spawner.scratch)) / "socket")
        self.connection = {"address": address, "key": secrets.token_hex(KEY_BYTES)}
        """What a worker needs to ask it."""
        self._process = spawner.spawn("oracle", gpu=str(gpu), early=True, **self.connection)
        self._ready = False

    def wait(self) -> None:
        """Wait until it can be asked.

        Raises:
            InfrastructureError: it could not start.
        """
        if self._ready:
            return
        try:
            message = self._process.channel.receive()
        except (ClosedError, ProtocolError) as error:
            reason = self._process.log_tail() or error
            raise InfrastructureError(f"the process that holds the answers did not start: {reason}") from error
        if "broken" in message:
            raise InfrastructureError(str(message["broken"]))
        self._ready = True

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.clean()
