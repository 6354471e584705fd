"""One run from start to end: load or resume, train, forecast, keep."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kbench.benchmark.surrogates.forecasts.table import write_forecasts
from kbench.benchmark.surrogates.language.local.answers import Answers
from kbench.benchmark.surrogates.language.local.model import DigitModel
from kbench.benchmark.surrogates.language.local.weights import load_network, load_tokenizer
from kbench.benchmark.training.lm.prompts import Prompts
from kbench.benchmark.training.lm.run import RunFolder
from kbench.benchmark.training.lm.settings import Settings
from kbench.benchmark.training.lm.trainer import Pace, Trainer, peak_memory_bytes
from kbench.schemas import Forecast, UserError


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """What `kbench train lm` was asked for."""

    settings: Settings
    prompts: Prompts
    out: Path
    pace: Pace
    splits: tuple[str, ...]
    """Splits to answer at the end."""
    repeats: int
    """Sampled answers per question."""
    device: str

    def run(self, advance: Callable[[int], object], *, keep_weights: bool = True) -> dict[str, Any] | None:
        """Train and forecast; a finished run is only told again.

        Returns:
            the result; None when the deadline came first.

        Raises:
            UserError: weights are missing, the folder holds another run, or the GPU's memory is full.
        """
        folder = RunFolder(self.out, self.settings, self.prompts.dataset)
        if folder.result is not None:
            return folder.result
        with _full_memory_told(self.settings.batch_tokens):
            return self._run(folder, advance, keep_weights)

    def _run(self, folder: RunFolder, advance: Callable[[int], object], keep_weights: bool) -> dict[str, Any] | None:
        import torch

        begun = time.monotonic()
        torch.manual_seed(self.settings.seed)
        network = load_network(self.settings.model, self.device)
        model = DigitModel(network, self.prompts.digit_tokens.tolist())
        trainer = Trainer(model, self.prompts, self.settings)
        if not trainer.train(folder, self.pace, advance):
            return None
        trained_s = time.monotonic() - begun
        for split in self.splits:
            self._forecast(trainer, split)
        result = {
            "steps": self.settings.steps,
            "validation": trainer.validate(),
            "seconds": trained_s,
            "forecast_seconds": time.monotonic() - begun - trained_s,
            "peak_memory_bytes": peak_memory_bytes(model.device),
            "device": torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else "cpu",
        }
        if keep_weights:
            self._keep(trainer, folder)
        folder.finish(result)
        return result

    def _forecast(self, trainer: Trainer, split: str) -> None:
        """Forecasts of a split in two files: what the model implies, and what it states."""
        chosen = self.prompts.of(split)
        found = trainer.ask(chosen, self.repeats)
        names = [str(name) for name in self.prompts.query_id[chosen]]
        for kind in ("implied", "stated"):
            told = list(_forecasts(names, found, kind))
            write_forecasts(self.out / f"{split}-{kind}.parquet", told, self.prompts.dataset)

    def _keep(self, trainer: Trainer, folder: RunFolder) -> None:
        """Weights in float32, so that training can go on from them without loss; the tokenizer if there is one."""
        for weight, master in zip(trainer.model.network.parameters(), trainer.optimizer.masters, strict=True):
            weight.data = master.data
        folder.keep(trainer.model.network)
        source = Path(self.settings.model)
        if not source.is_dir():
            load_tokenizer(self.settings.model).save_pretrained(folder.model)
        for file in source.glob("tokenizer*"):
            shutil.copy(file, folder.model)


@contextlib.contextmanager
def _full_memory_told(batch_tokens: int) -> Iterator[None]:
    """Say in a line what to do when torch finds no memory on the GPU."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"the GPU's memory is full; free some, or give a --batch-tokens below {batch_tokens}, and run the same"
            " command again: it goes on from the last checkpoint"
        ) from error


def _forecasts(names: list[str], found: Answers, kind: str) -> Iterator[Forecast]:
    shares = found.stated if kind == "stated" else found.implied[:, None].astype(np.float32)
    for name, several in zip(names, shares, strict=True):
        for repeat, distribution in enumerate(several):
            yield Forecast(query_id=name, repeat=repeat, probabilities=tuple(distribution.tolist()))
