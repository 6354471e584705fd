"""Mixture of experts: choosing experts per token, and bringing tokens into expert order."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, huge, sorted_rows
from kbench.benchmark.problems.adversarial.changes import repeat_one, scale, some_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import Sized, distinct_in_row, integers, tensors, with_numbers
from kbench.benchmark.problems.lazy_torch import Tensor, torch

SHARP_LOGITS = InputCase(
    "large",
    "Logits beyond the range of exp find a softmax without the maximum.",
    {"logits": scale(32.0)},
    # Of a whole row, so that values stay distinct.
    unit=1,
)
# Drawn logits lie in [-7, 7] on a grid that a shift by 8 keeps, so that they stay distinct.
NEGATIVE_LOGITS = InputCase(
    "negative",
    "Values below zero find selections that start from zero.",
    {"logits": lambda generator, x: x - 8.0},
    unit=0,
)
CROWDED_EXPERT = InputCase(
    "crowded", "One expert with most of the tokens finds buffers sized for an even load.", {"experts": repeat_one}
)
ONE_EXPERT_PER_TOKEN = InputCase(
    "repeats",
    "Tokens that name one expert k times find orders that assume distinct choices.",
    {"experts": some_rows(lambda generator, x: x[:, :1].expand(x.shape))},
)


def moe_topk_routing(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    chosen, experts = torch.topk(torch.softmax(logits, dim=-1), k, dim=-1)
    return chosen / chosen.sum(-1, keepdim=True), experts.to(torch.int32)


def moe_permute(x: Tensor, experts: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    flat = experts.flatten()
    order = torch.argsort(flat, stable=True)
    tokens = order // experts.shape[1]
    # Unlike bincount, histc with both ends given asks nothing of the device; on a CPU it counts floats only.
    counts = torch.histc(flat if flat.is_cuda else flat.double(), num_experts, min=0, max=num_experts)
    return x[tokens], tokens.to(torch.int32), counts.to(torch.int32)


problem = functools.partial(ProblemDefinition, family="mixture_of_experts")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="moe_topk_routing", title="Expert routing: softmax and top-k", reference=moe_topk_routing,
        description="For every token take the softmax over its float32 router logits, keep the k largest in falling "
            "order, divide them by their sum, and return these weights with the int32 numbers of their experts. Logits "
            "within a row are distinct.",
        inputs=with_numbers(tensors("logits[tokens,experts]", logits=distinct_in_row), k="k"),
        outputs=tensors("weights[tokens,k]", "experts: int32[tokens,k]"),
        flops=lambda p: 3 * p["tokens"] * p["experts"],
        sizes=(
            Size("t65536_e128_k8", {"tokens": 65536, "experts": 128, "k": 8}),
            Size("t65536_e64_k6", {"tokens": 65536, "experts": 64, "k": 6}),
        ),
        tiny=Size("tiny", {"tokens": 9, "experts": 32, "k": 4}),
        tolerance=Tolerance(1e-6, 1e-4, "float32 exponentials and a sum over at most 8 of them"),
        cases=(SHARP_LOGITS, NEGATIVE_LOGITS, sorted_rows("logits")),
    ),
    problem(
        id="moe_permute", title="Bring tokens into expert order", reference=moe_permute,
        description="Each token goes to k experts (with possible repeats). Sort the (token, choice) pairs by expert, "
            "keeping token order within an expert (a stable sort of the flattened int32 expert matrix). Return the "
            "tokens' bfloat16 rows in that order, the int32 source token of each row, and how many rows each expert "
            "gets.",
        inputs=with_numbers(
            tensors(
                "x: bfloat16[tokens,hidden]", "experts: int32[tokens,k]",
                experts=Sized(lambda p: integers(0, p["experts"])),
            ),
            num_experts="experts",
        ),
        outputs=tensors(
            "permuted: bfloat16[tokens*k,hidden]", "source_tokens: int32[tokens*k]", "counts: int32[experts]",
        ),
        flops=lambda p: 0,
        sizes=(Size("t8192_h2048_k4", {"tokens": 8192, "hidden": 2048, "k": 4, "experts": 64}),),
        tiny=Size("tiny", {"tokens": 24, "hidden": 64, "k": 2, "experts": 5}),
        tolerance=Tolerance(0.0, 0.0, "values are moved and counted, never computed: exact"),
        cases=(CROWDED_EXPERT, ONE_EXPERT_PER_TOKEN, sorted_rows("experts", dim=0), huge("x")),
    ),
)  # fmt: skip
