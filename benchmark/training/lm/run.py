"""A run's folder: settings, checkpoint, log, weights and result. Its presence is what makes a run resumable."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbench.benchmark.training.lm.settings import Settings
from kbench.loaders.storage.atomic import replacing, write_atomically
from kbench.schemas import DataError, InfrastructureError, UserError

CHANGEABLE = ("batch_tokens",)
"""Settings that a run may go on with changed: they decide how much memory it takes, not what it learns."""


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say in a line what torch and safetensors raise on a full disk, which are no errors of the system's."""
    from safetensors import SafetensorError

    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InfrastructureError(
            f"{path} cannot be written ({reason}); make room and run the same command again: it goes on"
        ) from error


class RunFolder:
    """The files of one training run."""

    def __init__(self, path: Path, settings: Settings, dataset: str) -> None:
        """Open or make the folder.

        Args:
            path: the folder.
            settings: of this run.
            dataset: fingerprint of the corpus that the prompts come from.

        Raises:
            UserError: the folder holds a run with other settings.
        """
        self.path = path
        self.log = path / "log.jsonl"
        self.model = path / "model"
        self._checkpoint, self._result = path / "checkpoint.pt", path / "result.json"
        told = settings.record() | {"dataset": dataset}
        file = path / "settings.json"
        if file.is_file():
            before = json.loads(file.read_text())
            other = [name for name in told if name not in CHANGEABLE and before.get(name) != told[name]]
            if other:
                name = other[0]
                raise UserError(
                    f"{path} holds a run with {name} {before.get(name)!r}, not {told[name]!r}; choose another --out"
                )
        else:
            path.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps(told, indent=1) + "\n")

    @property
    def result(self) -> dict[str, Any] | None:
        """What a finished run found; None while it is not finished."""
        found: dict[str, Any] | None = json.loads(self._result.read_text()) if self._result.is_file() else None
        return found

    def finish(self, result: dict[str, Any]) -> None:
        """Say that the run is finished; its checkpoint has served."""
        write_atomically(self._result, json.dumps(result, indent=1) + "\n")
        self._checkpoint.unlink(missing_ok=True)

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Keep what the run needs to go on after `step` steps."""
        import torch

        with _told(self._checkpoint), replacing(self._checkpoint) as file:
            torch.save({"step": step, **state}, file)

    def keep(self, network: Any) -> None:
        """Keep the trained weights."""
        with _told(self.model):
            network.save_pretrained(self.model)

    def resume(self, device: Any) -> tuple[int, dict[str, Any] | None]:
        """Steps done and their state; lines of the log that came after the checkpoint are taken back.

        Raises:
            DataError: the checkpoint cannot be read.
        """
        import torch

        state: dict[str, Any] | None = None
        if self._checkpoint.is_file():
            try:
                state = torch.load(self._checkpoint, map_location=device, weights_only=True)
            except torch.OutOfMemoryError:
                raise  # The file is whole: whoever removes it loses the run.
            except (RuntimeError, EOFError, ValueError) as error:
                raise DataError(f"{self._checkpoint} cannot be read ({error}); remove it to start over") from None
        step = 0 if state is None else int(state["step"])
        # A validation is written before the step that follows it.
        kept = [line for line in self.lines() if line["step"] + ("validation" in line) <= step]
        write_atomically(self.log, "".join(json.dumps(line) + "\n" for line in kept))
        return step, state

    def write(self, line: dict[str, Any]) -> None:
        """Append a line to the log."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """The log; a line that a killed process left unfinished does not count."""
        found: list[dict[str, Any]] = []
        if self.log.is_file():
            for text in self.log.read_text(encoding="utf-8").splitlines():
                try:
                    found.append(json.loads(text))
                except ValueError:
                    break
        return found
