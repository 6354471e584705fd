"""Train a small language model to forecast speedups, supervised or by reinforcement with calibration rewards.

    python examples/train_lm.py --model HuggingFaceTB/SmolLM2-135M --objective warm-up --out runs/warm
    python examples/train_lm.py --model runs/warm/model --objective +brier --out runs/brier
    kbench evaluate --surrogate lm --surrogate-arg model=runs/brier/model --surrogate-arg mode=sampled

The model answers nine digits: the likeliest bin, then a weight of each bin. `warm-up` teaches that form.
`cross-entropy` and `rps` teach the first digit's distribution; `correctness`, `+brier` and `+crps` sample answers and
reward them. What a step does follows from the seed and its number alone, so the same command continues a stopped run.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from kbench.benchmark.metrics.forecast import accuracy, ece, rps
from kbench.benchmark.questions.build import answered_pairs
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.rewards import FORECAST_REWARDS
from kbench.benchmark.surrogates.lm import (
    LARGEST,
    LENGTH,
    DigitModel,
    ReadPrompts,
    batches,
    distributions,
    load_model,
    noise,
    prompt_tokens,
)
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.storage.atomic import replacing, whole_folder, write_atomically
from kbench.loaders.storage.lock import held
from kbench.schemas import DataError, KbenchError, UserError, bins

OBJECTIVES = ("warm-up", "cross-entropy", "rps", *FORECAST_REWARDS)
WIDTHS = np.array([0.0, 0.5, 1.0, 2.0])
"""Spreads of the weights that the warm-up shows, drawn at random: one alone would leave nothing to explore."""
PARTITION_SEED = 0
"""The pairs set apart for the warm-up are the same in every run."""
LARGEST_NORM = 1.0
"""Longer gradients are shortened to this length."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that decides what a run learns; a run continues under the settings it began with."""

    model: str
    objective: str
    seed: int = 0
    steps: int = 150
    batch: int = 64
    group: int = 8
    learning_rate: float = 1e-5
    warm_up_pairs: int = 4000
    batch_tokens: int = 49152
    validation_prompts: int = 256

    def rate(self, step: int) -> float:
        """Learning rate of a step: up over the first twentieth, then down to a tenth in a straight line."""
        rising = (step + 1) / max(1, self.steps // 20)
        return self.learning_rate * min(rising, 1.0 - 0.9 * step / self.steps)


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """One question with its answer."""

    query_id: str
    tokens: np.ndarray
    bin: int


def read_prompts(corpus: Any, split: str, encode: Any, source_tokens: int, most: int | None = None) -> list[Prompt]:
    """The answered questions of a split, by ascending id, which is as good as at random."""
    remembered = functools.lru_cache(maxsize=50_000)(lambda text: tuple(encode(text)))
    pairs = [(query, pair) for query, pair in answered_pairs(corpus, split) if pair.speedup is not None]
    return [
        Prompt(query.query_id, np.array(prompt_tokens(query, lambda t: list(remembered(t)), source_tokens)), pair.bin)
        for query, pair in sorted(pairs, key=lambda asked: asked[0].query_id)[:most]
    ]


def order_of(prompts: list[Prompt], settings: Settings) -> list[list[Prompt]]:
    """Prompts of every step, each epoch in an order of its own; the warm-up has pairs that no other run sees."""
    mixed = np.random.default_rng(PARTITION_SEED).permutation(len(prompts))
    first = settings.objective == "warm-up"
    mine = mixed[: settings.warm_up_pairs] if first else mixed[settings.warm_up_pairs :]
    if len(mine) < settings.batch:
        raise UserError(
            f"{len(mine)} training pairs are left for {settings.objective} and a batch takes {settings.batch};"
            " change --warm-up-pairs or --batch"
        )
    random = np.random.default_rng(settings.seed)
    epochs = -(-settings.steps * settings.batch // len(mine))
    order = np.concatenate([random.permutation(mine) for _ in range(epochs)])[: settings.steps * settings.batch]
    return [[prompts[index] for index in row] for row in order.reshape(settings.steps, settings.batch)]


# Objectives: from prompts that were read, with gradients, to a loss summed over them and the forecasts they implied.


def supervise(model: DigitModel, read: ReadPrompts, truth: np.ndarray, objective: str) -> tuple[torch.Tensor, Any]:
    """Teach the distribution of the first digit: by its log-likelihood, or by its ranked probability score."""
    logits = model.bin_logits(read)
    shares = torch.softmax(logits, dim=-1)
    number = torch.as_tensor(truth, device=model.device)
    if objective == "rps":
        truly_below = number[:, None] <= torch.arange(1, bins.COUNT, device=model.device)
        loss = (shares.cumsum(-1)[:, :-1] - truly_below.float()).square().mean(-1).sum()
    else:
        loss = torch.nn.functional.cross_entropy(logits, number - 1, reduction="sum")
    return loss, shares.detach().double().cpu().numpy()


def spread(numbers: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Answers that name these bins, with weights that fall by a factor of e over a width; 0 is all on the bin."""
    distance = np.abs(np.asarray(bins.NUMBERS) - numbers[:, None])
    fall = np.where(widths[:, None] > 0, np.exp(-distance / np.maximum(widths[:, None], 1e-9)), distance == 0)
    return np.concatenate([numbers[:, None], np.rint(LARGEST * fall).astype(np.int64)], axis=1)


def warm_up(model: DigitModel, read: ReadPrompts, truth: np.ndarray, uniform: np.ndarray) -> tuple[torch.Tensor, Any]:
    """Teach the form of an answer: the measured bin, and weights around it of a random width."""
    shown = torch.as_tensor(spread(truth, WIDTHS[(uniform[:, 0, 0] * len(WIDTHS)).astype(int)]), device=model.device)
    loss = -model.log_chances(read, shown[:, None])[:, 0].sum()
    return loss, torch.softmax(model.bin_logits(read).detach().double(), dim=-1).cpu().numpy()


def advantages(rewards: np.ndarray) -> np.ndarray:
    """Rewards [prompts, group] less the mean of the group's other answers.

    They are never divided by the group's standard deviation: under proper scores that teaches over-confidence.
    """
    group = rewards.shape[1]
    return (rewards - rewards.mean(axis=1, keepdims=True)) * (group / (group - 1))


def reinforce(
    model: DigitModel, read: ReadPrompts, truth: np.ndarray, objective: str, uniform: np.ndarray
) -> tuple[torch.Tensor, Any, np.ndarray]:
    """The plain policy gradient: each answer's advantage times its log-probability. Returns the rewards as well."""
    answers = model.sample(read, uniform)
    digits = answers.flatten(0, 1).cpu().numpy()
    texts, numbers = ["".join(map(str, row)) for row in digits], np.repeat(truth, uniform.shape[1])
    rewards = np.sum([reward(texts, bin=numbers) for reward in FORECAST_REWARDS[objective]], axis=0)
    weight = torch.as_tensor(advantages(rewards.reshape(len(truth), -1)), dtype=torch.float32, device=model.device)
    loss = -(weight * model.log_chances(read, answers).sum(-1)).mean(1).sum()
    return loss, distributions(digits), rewards


def figures(forecasts: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """How good distributions are."""
    return {"rps": rps(forecasts, truth), "ece": ece(forecasts, truth), "accuracy": accuracy(forecasts, truth)}


class MasterAdam:
    """AdamW on float32 copies of weights that are kept in bfloat16, where a small step would round away."""

    def __init__(self, network: Any) -> None:
        self.weights = [weight for weight in network.parameters() if weight.requires_grad]
        self.masters = [weight.detach().float().clone().requires_grad_() for weight in self.weights]
        self.adam = torch.optim.AdamW(self.masters, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, foreach=True)

    def step(self, rate: float) -> float:
        """Follow the gradients that were gathered; returns their length."""
        for weight, master in zip(self.weights, self.masters, strict=True):
            master.grad, weight.grad = (None if weight.grad is None else weight.grad.float()), None
        norm = torch.nn.utils.clip_grad_norm_(self.masters, LARGEST_NORM)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        self.copy_back()
        return float(norm)

    @torch.no_grad()
    def copy_back(self) -> None:
        """Give the network the new weights."""
        for weight, master in zip(self.weights, self.masters, strict=True):
            weight.copy_(master)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: weights and moments."""
        return {"masters": [master.detach() for master in self.masters], "adam": self.adam.state_dict()}

    @torch.no_grad()
    def load(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint."""
        for master, kept in zip(self.masters, state["masters"], strict=True):
            master.copy_(kept)
        self.adam.load_state_dict(state["adam"])
        self.copy_back()


class Trainer:
    """A model, the prompts of every step, and how it learns."""

    def __init__(self, model: DigitModel, train: list[Prompt], validation: list[Prompt], settings: Settings) -> None:
        self.model, self.validation, self.settings = model, validation, settings
        self.order = order_of(train, settings)
        self.optimizer = MasterAdam(model.network)

    def step(self, step: int) -> dict[str, float]:
        """One step of the optimizer; its line in the log."""
        prompts, settings = self.order[step], self.settings
        rewarded = settings.objective in FORECAST_REWARDS
        shape = (len(prompts), settings.group if rewarded else 1, LENGTH)
        uniform = np.random.default_rng([settings.seed, step]).random(shape)
        truth = np.array([prompt.bin for prompt in prompts])
        losses, forecasts, bins_seen, rewards = [], [], [], []
        for part in batches(np.array([len(prompt.tokens) for prompt in prompts]), settings.batch_tokens):
            read = self.model.read([prompts[index].tokens for index in part])
            if rewarded:
                loss, shares, earned = reinforce(self.model, read, truth[part], settings.objective, uniform[part])
                rewards.append(earned)
            elif settings.objective == "warm-up":
                loss, shares = warm_up(self.model, read, truth[part], uniform[part])
            else:
                loss, shares = supervise(self.model, read, truth[part], settings.objective)
            (loss / settings.batch).backward()
            losses.append(float(loss.detach()) / settings.batch)
            forecasts.append(shares)
            bins_seen.append(np.repeat(truth[part], len(shares) // len(part)))
        norm = self.optimizer.step(settings.rate(step))
        if not np.isfinite([sum(losses), norm]).all():
            raise DataError(f"step {step + 1} has loss {sum(losses)} and gradient {norm}; lower the learning rate")
        line = {"step": step + 1, "loss": sum(losses), "gradient_norm": norm}
        line |= {"reward": float(np.concatenate(rewards).mean())} if rewarded else {}
        return line | figures(np.concatenate(forecasts), np.concatenate(bins_seen))

    def validate(self) -> dict[str, float]:
        """Figures on validation problems: of what the model implies, and of what it states when sampled once."""
        uniform = noise([prompt.query_id for prompt in self.validation], self.settings.seed, 1)
        tokens, truth = [prompt.tokens for prompt in self.validation], np.array([p.bin for p in self.validation])
        implied, stated = self.model.answers(tokens, uniform, self.settings.batch_tokens)
        kinds = {"implied": figures(implied, truth), "stated": figures(stated[:, 0], truth)}
        return {f"{kind}_{name}": value for kind, values in kinds.items() for name, value in values.items()}


def train(trainer: Trainer, out: Path, save_every: int) -> Iterator[dict[str, float]]:
    """Take the steps that are left, from the last checkpoint on; yields the log's lines.

    Raises:
        UserError: the folder holds a run with other settings.
    """
    checkpoint, settings_file, log = out / "checkpoint.pt", out / "settings.json", out / "log.jsonl"
    settings = dataclasses.asdict(trainer.settings)
    before = json.loads(settings_file.read_text()) if settings_file.is_file() else settings
    # How many tokens are read at once decides the memory a run takes, not what it learns.
    for name in settings.keys() - {"batch_tokens"}:
        if before[name] != settings[name]:
            raise UserError(f"{out} holds a run with {name} {before[name]!r}; choose another --out")
    write_atomically(settings_file, json.dumps(settings, indent=1))
    done = 0
    if checkpoint.is_file():
        state = torch.load(checkpoint, map_location=trainer.model.device, weights_only=True)
        trainer.optimizer.load(state)
        done = state["step"]
    lines = log.read_text().splitlines(keepends=True)[:done] if log.is_file() else []
    write_atomically(log, "".join(lines))  # Steps after the checkpoint are taken, and logged, again.
    for step in range(done, trainer.settings.steps):
        line = trainer.step(step)
        last = step + 1 == trainer.settings.steps
        line |= trainer.validate() if last or (step + 1) % 25 == 0 else {}
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if last or (step + 1) % save_every == 0:
            with replacing(checkpoint) as file:
                torch.save({"step": step + 1, **trainer.optimizer.state()}, file)
        yield line


@click.command()
@click.option("--model", required=True, help="Weights to start from: a folder, a .gguf file or a Hub id.")
@click.option("--objective", type=click.Choice(OBJECTIVES), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the run.")
@click.option("--dataset", help="Corpus folder or Hub id; the shipped dataset by default.")
@click.option("--seed", default=0, help="Of the order of prompts and of every sampled answer.")
@click.option("--steps", default=150)
@click.option("--batch", default=64, help="Prompts per step.")
@click.option("--group", default=8, help="Answers sampled per prompt.")
@click.option("--learning-rate", default=1e-5)
@click.option("--warm-up-pairs", default=4000, help="Training pairs set apart for the warm-up.")
@click.option("--batch-tokens", default=49152, help="Most tokens read at once; less takes less memory.")
@click.option("--validation-prompts", default=256)
@click.option("--source-tokens", default=420, help="Most tokens of a source.")
@click.option("--save-every", default=50)
@click.option("--device", default="auto", help="cpu, cuda, or auto.")
def main(out: Path, dataset: str | None, source_tokens: int, save_every: int, device: str, **options: Any) -> None:
    """Train a model; weights, log and checkpoint go to --out, and the same command continues a stopped run."""
    settings = Settings(**options)
    torch.manual_seed(settings.seed)
    model, encode = load_model(settings.model, device)
    corpus = benchmark_of(Corpus.open(dataset))
    prompts = read_prompts(corpus, "train", encode, source_tokens)
    validation = read_prompts(corpus, "validation", encode, source_tokens, settings.validation_prompts)
    trainer = Trainer(model, prompts, validation, settings)
    with held(out):
        for line in train(trainer, out, save_every):
            click.echo(json.dumps(line))
        # Weights in float32, so that training can go on from them without loss; the tokenizer beside them.
        for weight, master in zip(trainer.optimizer.weights, trainer.optimizer.masters, strict=True):
            weight.data = master.data
        with whole_folder(out / "model", replace=(out / "model").exists()) as folder:
            model.network.save_pretrained(folder)
            encode.func.__self__.save_pretrained(folder)


if __name__ == "__main__":
    try:
        main()
    except KbenchError as error:
        sys.exit(str(error))
