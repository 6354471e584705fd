"""One step of every TRL trainer on the training exports, with a tiny random model and no download.

Needs the extra `train`. Usage: python tests/support/trl_one_step.py [CORPUS]
"""

import functools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
import trl
from click.testing import CliRunner
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from kbench.benchmark import rewards
from kbench.cli import cli
from kbench.schemas import KernelSource, Status

TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
TEMPLATE += "{% if add_generation_prompt %}<|assistant|>{% endif %}"
SPECIAL = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
ROWS = 4
LONGEST = {"max_length": 8192}
"""A byte is a token here, so a kernel is thousands of them."""


def tokenizer() -> Any:
    """A byte tokenizer made here: 256 bytes and the marks of the chat."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={byte: number for number, byte in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|end|>", pad_token="<|end|>", additional_special_tokens=SPECIAL
    )
    made.chat_template = TEMPLATE
    return made


def config(words: Any, **more: Any) -> Any:
    """A Llama of two layers and sixteen channels."""
    return transformers.LlamaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=16384, pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id, **more,
    )  # fmt: skip


def exported(folder: Path, corpus: list[str], form: str, *options: str) -> datasets.Dataset:
    """The shortest rows of an export."""
    out = folder / f"{form}{'-'.join(options)}.parquet"
    found = CliRunner().invoke(cli, ["data", "export", *corpus, "--format", form, "--out", str(out), *options])
    if found.exit_code:
        raise SystemExit(f"export of {form} failed: {found.exception}")
    rows = datasets.Dataset.from_parquet(str(out), cache_dir=str(folder / "cache"))
    lengths = [len(json.dumps(row)) for row in rows]
    return rows.select(sorted(range(len(lengths)), key=lengths.__getitem__)[:ROWS])


def settings(kind: type, folder: Path, **more: Any) -> Any:
    """One step on the CPU."""
    return kind(
        output_dir=str(folder / kind.__name__), max_steps=1, per_device_train_batch_size=2, use_cpu=True,
        report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True, **more,
    )  # fmt: skip


class Unmeasured:
    """A verdict where there is no GPU: whatever looks like a kernel is taken for one."""

    status, speedup = Status.OK, 1.0


def judge(kernel: KernelSource) -> Unmeasured:
    return Unmeasured()


def trained(folder: Path, corpus: list[str]) -> Iterator[tuple[str, str, Any]]:
    """Each trainer after one step, with the name of its format."""
    words = tokenizer()
    torch.manual_seed(0)
    # DPO loads its reference model from where the model lies.
    transformers.LlamaForCausalLM(config(words)).save_pretrained(folder / "model")
    causal = functools.partial(transformers.AutoModelForCausalLM.from_pretrained, folder / "model")
    scorer = transformers.LlamaForSequenceClassification(config(words, num_labels=1))
    preference = exported(folder, corpus, "trl-preference")
    forecast = exported(folder, corpus, "trl-prompt")
    write = exported(folder, corpus, "trl-prompt", "--task", "write")
    demonstrations = exported(folder, corpus, "sft")
    generation = {"num_generations": 2, "max_completion_length": 8}
    for form, rows, model, trainer, kind in (
        ("trl-preference", preference, scorer, trl.RewardTrainer, trl.RewardConfig),
        ("trl-preference", preference, causal(), trl.DPOTrainer, trl.DPOConfig),
        ("sft", demonstrations, causal(), trl.SFTTrainer, trl.SFTConfig),
    ):
        args = settings(kind, folder, **LONGEST)
        made = trainer(model=model, args=args, train_dataset=rows, processing_class=words)
        yield form, trainer.__name__, made
    yield "trl-prompt --task forecast", "GRPOTrainer", trl.GRPOTrainer(
        model=causal(), args=settings(trl.GRPOConfig, folder, **generation), train_dataset=forecast,
        processing_class=words, reward_funcs=[rewards.brier, rewards.rps, rewards.crps],
    )  # fmt: skip
    yield "trl-prompt --task write", "GRPOTrainer", trl.GRPOTrainer(
        model=causal(), args=settings(trl.GRPOConfig, folder, **generation), train_dataset=write,
        processing_class=words,
        reward_funcs=[rewards.judged(one, judge) for one in (rewards.correctness, rewards.log_speedup)],
    )  # fmt: skip


def main() -> None:
    """Print one JSON line per trainer."""
    versions = {name.__name__: name.__version__ for name in (trl, transformers, torch)}
    sys.stdout.write(json.dumps(versions) + "\n")
    with tempfile.TemporaryDirectory() as name:
        for form, trainer_name, trainer in trained(Path(name), sys.argv[1:]):
            trainer.train()
            logged = next(entry for entry in trainer.state.log_history if "loss" in entry)
            means = {key: logged[key] for key in logged if key.startswith("rewards/") and key.endswith("/mean")}
            told = {"format": form, "trainer": trainer_name, "steps": trainer.state.global_step, "loss": logged["loss"]}
            sys.stdout.write(json.dumps(told | means) + "\n")


if __name__ == "__main__":
    main()
