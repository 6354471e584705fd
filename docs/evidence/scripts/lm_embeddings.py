"""What a small language model makes of every kernel, for the second scorer of reward_model.py.

    python docs/evidence/scripts/lm_embeddings.py tokens --model MODEL --out KERNELS.npz.xz      # needs the dataset
    python docs/evidence/scripts/lm_embeddings.py embed KERNELS.npz.xz --model MODEL --out EMBEDDINGS.npz     # a GPU

Each kernel is asked about against the reference, as `lm` asks. Its embedding is the mean state of the candidate's
half of the prompt beside the state after its last token, turned to the directions in which training kernels vary most.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from kbench.benchmark.surrogates.language.local.prompt import VERSION, prompt_tokens
from kbench.benchmark.surrogates.language.local.weights import digit_tokens, load_network, load_tokenizer
from kbench.benchmark.training.lm.prompts import Prompts

DIRECTIONS = 96
BATCH_TOKENS = 65536


@click.group()
def main() -> None:
    """Tokens first, then embeddings."""


@main.command()
@click.option("--model", required=True)
@click.option("--out", required=True, type=click.Path(path_type=Path))
def tokens(model: str, out: Path) -> None:
    """Write the prompt of every kernel."""
    from reward_model import of_corpus, queries

    from kbench.benchmark.tasks.versions import benchmark_of
    from kbench.loaders.corpus.corpus import Corpus

    stated = Corpus.open()
    kernels = list(of_corpus(stated))
    tokenizer = load_tokenizer(model)
    known: dict[str, list[int]] = {}

    def encode(text: str) -> list[int]:
        if text not in known:
            known[text] = tokenizer.encode(text, add_special_tokens=False)
        return known[text]

    asked = queries(kernels, benchmark_of(stated))
    found = [np.array(prompt_tokens(query, encode), dtype=np.uint32) for query in asked]
    trained = {row["kernel_id"] for row in stated.table("kernels", columns=["kernel_id"], split="train").to_pylist()}
    Prompts(
        version=VERSION,
        dataset=stated.fingerprint,
        digit_tokens=np.asarray(digit_tokens(tokenizer, model)),
        tokens=np.concatenate(found),
        ends=np.cumsum([len(each) for each in found]),
        query_id=np.array([kernel.kernel_id for kernel in kernels]),
        split=np.array(["train" if kernel.kernel_id in trained else "other" for kernel in kernels]),
        bin=np.zeros(len(kernels), dtype=np.int64),
    ).write(out)
    click.echo(f"{len(kernels):,} prompts of {sum(map(len, found)):,} tokens")


@main.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--model", required=True)
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--device", default="auto")
def embed(file: Path, model: str, out: Path, device: str) -> None:
    """Read every prompt and keep its embedding."""
    import torch

    prompts = Prompts.open(file)
    network = load_network(model, device)
    order = np.argsort(prompts.lengths(np.arange(len(prompts.query_id))), kind="stable")
    states = np.zeros((len(order), 2 * network.config.hidden_size), dtype=np.float32)
    with torch.no_grad():
        for places in batches(order, prompts):
            states[places] = embedded(network, [prompts[place] for place in places])
    scale = states[prompts.split == "train"]
    center, spread = scale.mean(axis=0), scale.std(axis=0) + 1e-6
    states = (states - center) / spread
    _, _, directions = np.linalg.svd(states[prompts.split == "train"], full_matrices=False)
    turned = (states @ directions[:DIRECTIONS].T).astype(np.float16)
    np.savez_compressed(out, kernel_id=prompts.query_id, dataset=prompts.dataset, embedding=turned)
    click.echo(f"{len(turned):,} embeddings of {turned.shape[1]} numbers")


def batches(order: Any, prompts: Prompts) -> list[Any]:
    """Prompts of about the same length, as many as fit."""
    found: list[list[int]] = [[]]
    for place in order.tolist():
        if found[-1] and (len(found[-1]) + 1) * len(prompts[place]) > BATCH_TOKENS:
            found.append([])
        found[-1].append(place)
    return found


def embedded(network: Any, given: list[Any]) -> Any:
    """Mean state of each prompt's second half, where the candidate stands, and the state after its last token."""
    import torch

    lengths = torch.tensor([len(one) for one in given], device=network.device)
    ids = torch.zeros(len(given), int(lengths.max()), dtype=torch.long)
    for row, one in zip(ids, given, strict=True):
        row[: len(one)] = torch.as_tensor(one.astype(np.int64))
    states = network.base_model(input_ids=ids.to(network.device)).last_hidden_state.float()
    at = torch.arange(ids.shape[1], device=network.device)[None]
    second = ((at >= lengths[:, None] // 2) & (at < lengths[:, None])).float()
    mean = (states * second[..., None]).sum(1) / second.sum(1, keepdim=True)
    last = states[torch.arange(len(given), device=network.device), lengths - 1]
    return torch.cat([mean, last], dim=1).cpu().numpy()


if __name__ == "__main__":
    main()
