"""The training loop. What a step does follows from the seed and its number alone, so a resumed run is the same run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.metrics.arrays import Ints
from kbench.benchmark.surrogates.language.local.answers import Answers, answers, noise_of
from kbench.benchmark.surrogates.language.local.digits import LENGTH
from kbench.benchmark.surrogates.language.local.model import DigitModel, batches
from kbench.benchmark.training.lm.objective import Taught, figures, teach
from kbench.benchmark.training.lm.optimizer import MasterAdam
from kbench.benchmark.training.lm.prompts import Prompts
from kbench.benchmark.training.lm.run import RunFolder
from kbench.benchmark.training.lm.settings import WARM_UP, Settings
from kbench.schemas import DataError, UserError

if TYPE_CHECKING:
    import torch

PARTITION_SEED = 0
"""The pairs set apart for the warm-up are the same in every run."""

UNTRAINED = 4
"""How many times more tokens fit into memory when nothing is kept for gradients, with room to spare."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """When a run saves, and when it stops although it is not done."""

    save_every: int = 50
    deadline_s: float | None = None
    """Seconds after which no further step begins."""


class Trainer:
    """One run: a model, its prompts, and how it learns."""

    def __init__(self, model: DigitModel, prompts: Prompts, settings: Settings) -> None:
        """Prepare a run.

        Args:
            model: the weights to train.
            prompts: what it learns from.
            settings: how.

        Raises:
            UserError: too few training pairs are left for the objective.
        """
        self.model, self.prompts, self.settings = model, prompts, settings
        self.optimizer = MasterAdam(model.network)
        self._order = _order(prompts, settings)

    def train(self, folder: RunFolder, pace: Pace, advance: Callable[[int], object] = lambda _: None) -> bool:
        """Take the steps that are left.

        Returns:
            whether all are taken; a run stopped by its deadline goes on when it is started again.
        """
        begun = time.monotonic()
        done, state = folder.resume(self.model.device)
        if state is not None:
            self.optimizer.load(state)
        advance(done)
        for step in range(done, self.settings.steps):
            if pace.deadline_s is not None and time.monotonic() - begun > pace.deadline_s:
                folder.save(step, self.optimizer.state())
                return False
            if step % self.settings.validate_every == 0:
                folder.write({"step": step, "validation": self.validate()})
            folder.write({"step": step + 1, **self._step(step)})
            advance(1)
            if (step + 1) % pace.save_every == 0:
                folder.save(step + 1, self.optimizer.state())
        return True

    def validate(self) -> dict[str, float]:
        """Figures on validation problems: of what the model implies, and of what it states when sampled once."""
        chosen = self.prompts.of("validation")
        chosen = chosen[self.prompts.bin[chosen] > 0][: self.settings.validation_prompts]
        found, truth = self.ask(chosen, samples=1), self.prompts.bin[chosen]
        named = {"implied": found.implied, "stated": found.stated[:, 0]}
        return {f"{kind}_{name}": value for kind, f in named.items() for name, value in figures(f, truth).items()}

    def ask(self, chosen: Ints, samples: int, advance: Callable[[int], object] = lambda _: None) -> Answers:
        """Answers to some of the prompts."""
        drawn = [noise_of(str(name), self.settings.seed, samples) for name in self.prompts.query_id[chosen]]
        noise = np.array(drawn).reshape(len(chosen), samples, LENGTH)
        texts = [self.prompts[index] for index in chosen]
        return answers(self.model, texts, noise, UNTRAINED * self.settings.batch_tokens, advance=advance)

    def _step(self, step: int) -> dict[str, Any]:
        """One step of the optimizer; its line in the log."""
        begun = time.monotonic()
        passes = []
        for taught in self._passes(step):
            loss = taught.loss / self.settings.batch
            loss.backward()  # type: ignore[no-untyped-call]
            passes.append((float(loss.detach()), taught))
        norm = self.optimizer.step(self.settings.rate(step))
        loss_sum = sum(loss for loss, _ in passes)
        if not np.isfinite([loss_sum, norm]).all():
            raise DataError(f"step {step + 1} has loss {loss_sum} and gradient {norm}; lower the learning rate")
        rewards = np.concatenate([taught.rewards for _, taught in passes])
        forecasts = np.concatenate([taught.forecasts for _, taught in passes])
        truth = np.concatenate([taught.bins for _, taught in passes])
        seconds = time.monotonic() - begun
        tokens = int(self.prompts.lengths(self._order[step]).sum())
        line = {"loss": loss_sum, "gradient_norm": norm, "seconds": seconds, "tokens_per_s": tokens / seconds}
        return line | ({"reward": float(rewards.mean())} if len(rewards) else {}) | figures(forecasts, truth)

    def _passes(self, step: int) -> Iterator[Taught]:
        chosen, settings = self._order[step], self.settings
        shape = (settings.batch, settings.group if settings.reinforced else 1, LENGTH)
        noise = np.random.default_rng([settings.seed, step]).random(shape)
        for part in batches(self.prompts.lengths(chosen), settings.batch_tokens):
            read = self.model.read([self.prompts[index] for index in chosen[part]])
            yield teach(self.model, read, self.prompts.bin[chosen[part]], settings, noise[part])


def _order(prompts: Prompts, settings: Settings) -> Ints:
    """Prompts of every step, [steps, batch]: each epoch in an order of its own."""
    mixed = np.random.default_rng(PARTITION_SEED).permutation(prompts.of("train"))
    first = settings.objective == WARM_UP
    mine = mixed[: settings.warm_up_pairs] if first else mixed[settings.warm_up_pairs :]
    if len(mine) < settings.batch:
        raise UserError(
            f"{len(mine)} training pairs are left for {settings.objective} and a batch takes {settings.batch};"
            " change --warm-up-pairs or --batch"
        )
    random = np.random.default_rng(settings.seed)
    epochs = -(-settings.steps * settings.batch // len(mine))
    order: Ints = np.concatenate([random.permutation(mine) for _ in range(epochs)])
    return order[: settings.steps * settings.batch].reshape(settings.steps, settings.batch)


def peak_memory_bytes(device: torch.device) -> int | None:
    """Most memory of the GPU that was in use; None on a CPU."""
    import torch

    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
