"""Sparse weights and sparse attention: two of four, blocks of a matrix, chosen blocks of keys."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.attention import BF16_ATTENTION
from kbench.benchmark.problems.families.shared import (
    bf16,
    one_token_sequences,
    packed_starts,
    product_flops,
    sequence_of,
    sized,
    wide,
)
from kbench.benchmark.problems.families.weight_quantised import LAYER_CASES
from kbench.benchmark.problems.inputs import Params, Sized, TensorSpec, integers, normal, parameters, tensors
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

SIDE = 64
"""Rows and columns of a block of a weight, and tokens of a block of keys."""
SPARSE_SUMS = Tolerance(
    1.5e-2, 1.5e-2, "fp32 sums of exact products, rounded to bfloat16 (2^-9 relative) once or twice"
)


def sparse24_linear(x: Tensor, values: Tensor, places: Tensor) -> Tensor:
    rows, groups = values.shape[0], values.shape[1] // 2
    nibbles = torch.stack((places & 15, places >> 4), dim=-1).view(rows, groups)
    index = torch.stack((nibbles & 3, nibbles >> 2), dim=-1).long()
    weight = values.new_zeros(rows, groups, 4).scatter(2, index, values.view(rows, groups, 2))
    return F.linear(x, weight.view(rows, -1))


def block_sparse_linear(x: Tensor, blocks: Tensor, starts: Tensor, columns: Tensor) -> Tensor:
    rows = starts.shape[0] - 1
    row = sequence_of(starts, blocks.shape[0])
    pieces = x.view(x.shape[0], -1, SIDE).transpose(0, 1)[columns.long()]
    products = wide(torch.bmm(pieces, blocks.transpose(1, 2)))
    total = products.new_zeros(rows, x.shape[0], SIDE).index_add(0, row, products)
    return bf16(total.transpose(0, 1).reshape(x.shape[0], -1))


def _block_oracle(x: Tensor, blocks: Tensor, starts: Tensor, columns: Tensor) -> Tensor:
    row, y = sequence_of(starts, blocks.shape[0]), []
    for number in range(starts.shape[0] - 1):
        mine = (row == number).nonzero().squeeze(1)
        pieces = x.view(x.shape[0], -1, SIDE)[:, columns[mine].long()].double()
        y.append(torch.einsum("mcj,cij->mi", pieces, blocks[mine].double()))
    return torch.cat(y, dim=1)


def chosen_mask(chosen: Tensor, length: int) -> Tensor:
    """(head, query, key): whether the block of the key is chosen for that of the query, and not later than it."""
    blocks = length // SIDE
    seen = torch.zeros(*chosen.shape[:2], blocks + 1, dtype=torch.bool, device=chosen.device)
    seen = seen.scatter(2, torch.where(chosen < 0, blocks, chosen).long(), True)[..., :blocks]
    seen = seen.repeat_interleave(SIDE, dim=1).repeat_interleave(SIDE, dim=2)
    place = torch.arange(length, device=chosen.device)
    return seen & (place[:, None] >= place[None, :])


def block_sparse_attention(q: Tensor, k: Tensor, v: Tensor, chosen: Tensor) -> Tensor:
    group = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0)
    mask = chosen_mask(chosen, q.shape[1]).unsqueeze(0)
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask).squeeze(0)


def _attention_oracle(q: Tensor, k: Tensor, v: Tensor, chosen: Tensor) -> Tensor:
    group, answers = q.shape[0] // k.shape[0], []
    for h in range(q.shape[0]):
        scores = q[h].double() @ k[h // group].double().T * q.shape[2] ** -0.5
        scores = scores.masked_fill(~chosen_mask(chosen[h : h + 1], q.shape[1])[0], float("-inf"))
        answers.append(torch.softmax(scores, dim=1) @ v[h // group].double())
    return torch.stack(answers)


def two_of_four(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """A byte for two groups of four, the first in its low bits: two rising places of two bits each."""
    pairs = torch.tensor([first | second << 2 for first in range(4) for second in range(first + 1, 4)], device=device)
    drawn = pairs[torch.randint(6, (*spec.shape, 2), generator=generator, device=device)]
    return (drawn[..., 0] | drawn[..., 1] << 4).to(torch.uint8)


def chosen_blocks(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """For each block of queries its own block and earlier ones, all different and in random order; -1 for none."""
    heads, blocks, count = spec.shape
    drawn = torch.rand((heads, blocks, blocks), generator=generator, device=device)
    place = torch.arange(blocks, device=device)
    later = place[None, :] > place[:, None]
    drawn = drawn.masked_fill(later, -1.0).masked_fill(place[None, :] == place[:, None], 2.0)
    best = drawn.topk(count, dim=-1)
    picked = torch.where(best.values < 0, -1, best.indices)
    order = torch.rand(spec.shape, generator=generator, device=device).argsort(dim=-1)
    return picked.gather(2, order).to(torch.int32)


def few_lonely(generator: Generator, chosen: Tensor) -> Tensor:
    """About a quarter of the blocks of queries keep their own block alone."""
    own = torch.arange(chosen.shape[1], device=chosen.device)[None, :, None]
    picked = torch.rand((*chosen.shape[:2], 1), generator=generator, device=chosen.device) < 0.25
    return torch.where(picked & (chosen != own), -1, chosen)


def _attention_flops(p: Params) -> int:
    """The diagonal counts half; the first rows have fewer blocks than they may choose."""
    blocks, count = p["length"] // SIDE, p["count"]
    pairs = sum(min(row + 1, count) - 0.5 for row in range(blocks)) * SIDE**2
    return int(4 * p["heads"] * p["dim"] * pairs)


def _blocks(m: int, n: int, k: int, share: float) -> dict[str, int]:
    return {"m": m, "n": n, "k": k, "blocks": int(n // SIDE * (k // SIDE) * share)}


_sized = parameters("heads kv_heads length dim count")
problem = functools.partial(
    ProblemDefinition, family="sparse", outputs=tensors("y: bfloat16[m,n]"), tolerance=SPARSE_SUMS, compute_unit="bf16",
)  # fmt: skip


PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="sparse24_linear", title="Linear layer with two of four weights", reference=sparse24_linear,
        description="y = x @ W.T in bfloat16 with fp32 sums, where two of every four neighbours of a row of W are "
            "stored and the others zero. values[n, 2g] and values[n, 2g+1] are those of group g; a byte of places "
            "holds groups 2j (low four bits) and 2j+1, each as the "
            "place of the first (low two bits) and of the second value.",
        inputs=tensors(
            "x: bfloat16[m,k]", "values: bfloat16[n,k/2]", "places: uint8[n,k/8]",
            values=Sized(lambda p: normal((p["k"] / 2) ** -0.5)), places=two_of_four,
        ),
        flops=lambda p: product_flops(p) // 2,
        sizes=(
            Size("llama3_8b_m1024", sized(1024, 28672, 4096), "Llama-3-8B MLP gate and up projections, 1024 tokens"),
            Size("llama3_70b_m16", sized(16, 57344, 8192), "Llama-3-70B MLP gate and up projections, 16 tokens"),
            Size("qwen3_32b_m128", sized(128, 5120, 25600), "Qwen3-32B MLP down projection, 128 tokens"),
        ),
        tiny=Size("tiny", sized(10, 48, 128)), cases=(*LAYER_CASES, zero_rows("values")),
    ),
    problem(
        id="block_sparse_linear", title="Linear layer with a block-sparse weight", reference=block_sparse_linear,
        oracle=_block_oracle,
        description=f"y = x @ W.T in bfloat16 with fp32 sums, where W consists of blocks of {SIDE} × {SIDE}, the "
            f"others zero. Blocks starts[r] to starts[r + 1] (int32) lie in block row r (outputs {SIDE} r onwards) at "
            "block columns `columns` (int32, in no order); blocks at the same place add up. Rows have "
            "uneven numbers of blocks.",
        inputs=tensors(
            "x: bfloat16[m,k]", f"blocks: bfloat16[blocks,{SIDE},{SIDE}]", f"starts: int32[n/{SIDE}+1]",
            "columns: int32[blocks]", blocks=Sized(lambda p: normal((p["blocks"] / (p["n"] // SIDE) * SIDE) ** -0.5)),
            starts=Sized(lambda p: packed_starts(p["blocks"])), columns=Sized(lambda p: integers(0, p["k"] // SIDE)),
        ),
        flops=lambda p: 2 * p["m"] * p["blocks"] * SIDE**2,
        sizes=(
            Size("llama3_8b_quarter", _blocks(2048, 14336, 4096, 0.25), "Llama-3-8B MLP up projection, a quarter kept"),
            Size("llama3_8b_tenth", _blocks(4096, 14336, 4096, 0.1), "Llama-3-8B MLP up projection, a tenth kept"),
            Size("llama3_70b_m128", _blocks(128, 28672, 8192, 0.25), "Llama-3-70B MLP up projection, 128 tokens"),
        ),
        tiny=Size("tiny", _blocks(9, 256, 320, 0.5)),
        cases=(
            *LAYER_CASES,
            InputCase(
                "mixed_starts", "Rows of one block among long ones find grids made for even rows.",
                {"starts": one_token_sequences}, atol_scale=2.0, mixed=True,
            ),
        ),
    ),
    problem(
        id="block_sparse_attention", title="Causal attention to chosen blocks of keys",
        reference=block_sparse_attention, oracle=_attention_oracle,
        description=f"Grouped-query attention in bfloat16 over one prompt (head, token, dim), where the {SIDE} queries "
            f"of a block see the blocks of {SIDE} keys that chosen[head, block] (int32, in no order, -1 for none) "
            "names, and of these the keys up to themselves. A block's own keys are always among them.",
        inputs=tensors(
            "q: bfloat16[heads,length,dim]", "k v: bfloat16[kv_heads,length,dim]",
            f"chosen: int32[heads,length/{SIDE},count]", q=normal(2.0), chosen=chosen_blocks,
        ),
        outputs=tensors("o: bfloat16[heads,length,dim]"), flops=_attention_flops,
        tolerance=BF16_ATTENTION,
        sizes=(
            Size("llama3_8b_4k", _sized(32, 8, 4096, 128, 16), "Llama-3-8B prefill, 4096 tokens, 16 blocks each"),
            Size("qwen3_30b_8k", _sized(16, 2, 8192, 128, 16), "Qwen3-30B-A3B on one of 2 GPUs, 8192 tokens"),
            Size("llama3_70b_tp8_16k", _sized(8, 1, 16384, 128, 32), "Llama-3-70B on one of 8 GPUs, 16,384 tokens"),
        ),
        tiny=Size("tiny", _sized(2, 1, 3 * SIDE, 32, 2)),
        cases=(
            large("q", factor=16.0), outliers("v", factor=16.0), one_hot("q"),
            InputCase("lonely", "Blocks that see themselves alone find fixed loops.", {"chosen": few_lonely}),
        ),
    ),
)  # fmt: skip
