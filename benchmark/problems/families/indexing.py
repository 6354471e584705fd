"""Indexing, data movement and selection: gathers, scatters, counts, layouts, sorted rows and largest values."""

from __future__ import annotations

import functools
import math

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    constant_rows,
    huge,
    large,
    negative,
    one_hot,
    shifted,
    small,
    sorted_rows,
    strided_rows,
    ties,
    wide,
    zero_rows,
)
from kbench.benchmark.problems.adversarial.changes import repeat_one, round_to
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import (
    Fill,
    Params,
    Sized,
    TensorSpec,
    distinct_in_row,
    integers,
    normal,
    tensors,
    with_numbers,
)
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

MOVED = (huge("x"), wide("x", decades=30.0), zero_rows("x"))
REPEATED_IDS = InputCase(
    "repeats", "One row asked for many times finds copies that assume distinct ones.", {"ids": repeat_one}, unit=0
)
# Sums of small multiples of 1/8 are exact in any order, however many meet in one row.
CROWDED_ROW = InputCase(
    "crowded", "Half of all sources in one row find lost updates.", {"index": repeat_one, "source": round_to(0.125)}
)


def all_alike(generator: Generator, x: Tensor) -> Tensor:
    """One of the drawn numbers everywhere."""
    chosen = torch.randint(x.numel(), (1,), generator=generator, device=x.device)
    return x.reshape(-1)[chosen].expand(x.numel()).reshape(x.shape)


ONE_BIN = InputCase(
    "one_bin", "All values in one bin find counters that wrap and bins that are dropped.", {"x": all_alike}, unit=0
)
CROWDED_BIN = InputCase(
    "crowded", "Half of all values in one bin find lost updates and narrow counters.", {"x": repeat_one}, unit=0
)


EXACT = Tolerance(0.0, 0.0, "values are moved or counted, never computed: exact")


def skewed_bins(bins: int) -> Fill:
    """Bin numbers whose frequency falls as the number rises, as in counts of real data."""

    def fill(spec_generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        drawn = torch.rand(spec.shape, generator=spec_generator, device=device, dtype=torch.float32)
        return (drawn * drawn * bins).to(getattr(torch, spec.dtype)).clamp_(max=bins - 1)

    return fill


def embedding_gather(ids: Tensor, table: Tensor) -> Tensor:
    return F.embedding(ids, table)


def _embedding_bytes(p: Params) -> int:
    # Repeated ids can be served from cache: count 98 % of the rows expected to be hit at least once.
    touched = 0.98 * p["vocab"] * (1.0 - math.exp(-p["tokens"] / p["vocab"]))
    return int(8 * p["tokens"] + 2 * p["dim"] * (p["tokens"] + touched))


def scatter_add(source: Tensor, index: Tensor, rows: int) -> Tensor:
    return source.new_zeros(rows, source.shape[1]).index_add_(0, index, source)


def histogram(x: Tensor, bins: int) -> Tensor:
    # Unlike bincount, histc with both ends given asks nothing of the device; on a CPU it counts floats only.
    numbers = x if x.is_cuda else x.double()
    return torch.histc(numbers, bins, min=0, max=bins).to(torch.int32)


def transpose(x: Tensor) -> Tensor:
    return x.t().contiguous()


def permute_4d(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()


problem = functools.partial(ProblemDefinition, family="indexing", flops=lambda p: 0, tolerance=EXACT)

INDEXING: tuple[ProblemDefinition, ...] = (
    problem(
        id="embedding_gather", title="Embedding lookup", reference=embedding_gather,
        description="Return the rows of a bfloat16 embedding table named by int64 token ids, in order.",
        inputs=tensors(
            "ids: int64[tokens]", "table: bfloat16[vocab,dim]", ids=Sized(lambda p: integers(0, p["vocab"])),
        ),
        outputs=tensors("rows: bfloat16[tokens,dim]"), min_bytes=_embedding_bytes,
        sizes=(
            Size("t16384_d4096", {"tokens": 16384, "vocab": 32000, "dim": 4096}),
            Size("t65536_d512", {"tokens": 65536, "vocab": 128256, "dim": 512}),
        ),
        tiny=Size("tiny", {"tokens": 11, "vocab": 50, "dim": 64}),
        cases=(REPEATED_IDS, sorted_rows("ids"), huge("table"), zero_rows("table")),
    ),
    problem(
        id="scatter_add", title="Add rows into places given by an index", reference=scatter_add,
        description="Start from zeros of shape [rows, dim] and add each float32 source row to the row its int64 index "
            "names; several sources may name the same row.",
        inputs=with_numbers(
            tensors("source[items,dim]", "index: int64[items]", index=Sized(lambda p: integers(0, p["rows"]))),
            rows="rows",
        ),
        outputs=tensors("sums[rows,dim]"), flops=lambda p: p["items"] * p["dim"],
        sizes=(Size("m262144_d128", {"items": 262144, "dim": 128, "rows": 32768}),),
        tiny=Size("tiny", {"items": 40, "dim": 32, "rows": 7}),
        tolerance=Tolerance(2e-5, 1e-5, "float32 sums of about 8 and at most some 30 terms of size 1, in any order"),
        cases=(CROWDED_ROW, large("source"), small("source"), sorted_rows("index"), one_hot("source")),
    ),
    problem(
        id="histogram", title="Histogram of bin numbers", reference=histogram,
        description="Count how often each number from 0 to bins - 1 occurs among int32 values; int32 counts.",
        inputs=with_numbers(tensors("x: int32[count]", x=Sized(lambda p: skewed_bins(p["bins"]))), bins="bins"),
        outputs=tensors("counts: int32[bins]"), flops=lambda p: p["count"],
        sizes=(
            Size("n33m_b256", {"count": 1 << 25, "bins": 256}), Size("n16m_b4096", {"count": 1 << 24, "bins": 4096}),
        ),
        tiny=Size("tiny", {"count": 1000, "bins": 16}),
        cases=(CROWDED_BIN, ONE_BIN, sorted_rows("x")),
    ),
    problem(
        id="transpose", title="Matrix transpose", reference=transpose,
        description="Transpose a float32 matrix into contiguous memory.",
        inputs=tensors("x[rows,cols]"), outputs=tensors("y[cols,rows]"),
        sizes=(Size("r8192_c4096", {"rows": 8192, "cols": 4096}), Size("r5000_c6000", {"rows": 5000, "cols": 6000})),
        tiny=Size("tiny", {"rows": 37, "cols": 53}),
        cases=MOVED,
    ),
    problem(
        id="permute_4d", title="Heads and channels before tokens", reference=permute_4d,
        description="Bring a bfloat16 tensor [batch, token, head, dim] to contiguous [batch, head, dim, token].",
        inputs=tensors("x: bfloat16[batch,length,heads,dim]"), outputs=tensors("y: bfloat16[batch,heads,dim,length]"),
        sizes=(Size("b16_s2048", {"batch": 16, "length": 2048, "heads": 16, "dim": 128}),),
        tiny=Size("tiny", {"batch": 2, "length": 40, "heads": 3, "dim": 16}),
        cases=MOVED,
    ),
)  # fmt: skip


# Drawn values lie in [-7, 7] on a grid that a shift by 8 keeps, so that they stay distinct.
NEGATIVE = InputCase(
    "negative", "Values below zero find selections that start from zero.", {"x": lambda generator, x: x - 8.0}, unit=0
)
FAR_BELOW = InputCase(
    "far_below",
    "Values far below zero find selections that start from a constant such as -1e30.",
    {"x": lambda generator, x: (x - 8.0) * 2.0**110},
    unit=0,
)
EVEN_NOISE = InputCase(
    "rare_tokens",
    "Noise that spans twelve powers of ten lets unlikely tokens win and finds probabilities that underflow.",
    {"noise": lambda generator, x: x.pow(4.0)},
    unit=0,
)


def exponential(spec_generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Exponential values with mean 1, never zero."""
    drawn = torch.rand(spec.shape, generator=spec_generator, device=device, dtype=torch.float32)
    return -torch.log1p(-drawn.clamp_(min=1e-7))


def sort(x: Tensor) -> Tensor:
    return torch.sort(x, dim=-1).values


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, places = torch.topk(x, k, dim=-1)
    return values, places.to(torch.int32)


def sampling_softmax(logits: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    log_probs = torch.log_softmax(logits / temperature, dim=-1)
    tokens = (log_probs.exp() / noise).argmax(dim=-1, keepdim=True)
    return tokens.squeeze(1).to(torch.int32), log_probs.gather(1, tokens).squeeze(1)


sorting_problem = functools.partial(ProblemDefinition, family="sorting")

SORTING: tuple[ProblemDefinition, ...] = (
    sorting_problem(
        id="sort", title="Sort rows", reference=sort,
        description="Sort every row of a float32 matrix in rising order; rows are a power of two long.",
        inputs=tensors("x[rows,cols]"), outputs=tensors("y[rows,cols]"), flops=lambda p: 0,
        sizes=(Size("r4096_c1024", {"rows": 4096, "cols": 1024}), Size("r16384_c256", {"rows": 16384, "cols": 256})),
        tiny=Size("tiny", {"rows": 3, "cols": 64}),
        tolerance=Tolerance(0.0, 0.0, "values are moved, never computed: exact"),
        # Minima and maxima by which networks exchange two values may flush subnormal ones.
        ends=False,
        cases=(ties("x"), sorted_rows("x"), constant_rows("x"), huge("x", factor=1e35), negative("x")),
    ),
    sorting_problem(
        id="top_k", title="Largest k of every row", reference=top_k,
        description="Return the k largest values of every row of a float32 matrix in falling order, and their int32 "
            "places. Values within a row are distinct.",
        inputs=with_numbers(tensors("x[rows,cols]", x=distinct_in_row), k="k"),
        outputs=tensors("values[rows,k]", "places: int32[rows,k]"),
        flops=lambda p: p["rows"] * p["cols"],
        sizes=(
            Size("r2048_c8192_k16", {"rows": 2048, "cols": 8192, "k": 16}),
            Size("r8192_c1024_k8", {"rows": 8192, "cols": 1024, "k": 8}),
        ),
        tiny=Size("tiny", {"rows": 3, "cols": 128, "k": 4}),
        tolerance=Tolerance(0.0, 0.0, "values are moved and places are distinct: exact"),
        cases=(NEGATIVE, FAR_BELOW, sorted_rows("x"), strided_rows("x"), huge("x", factor=2.0**100)),
    ),
    sorting_problem(
        id="sampling_softmax", title="Draw a token from softmax probabilities", reference=sampling_softmax,
        description="Divide each row of float32 logits by the temperature and take its softmax; the drawn token is the "
            "place of the largest probability / noise, where noise holds given exponential random numbers. Return the "
            "int32 token and its float32 log probability.",
        inputs=with_numbers(
            tensors("logits noise[rows,vocab]", logits=normal(2.0), noise=exponential), temperature=0.8
        ),
        outputs=tensors("tokens: int32[rows]", "log_probs[rows]"),
        flops=lambda p: 5 * p["rows"] * p["vocab"],
        sizes=(Size("r512_v32000", {"rows": 512, "vocab": 32000}),), tiny=Size("tiny", {"rows": 5, "vocab": 200}),
        tolerance=Tolerance(
            1e-4, 1e-5,
            "float32 log of a sum over 32,000 terms; two leading quotients may be equal to float32 in a rare row",
            mismatch_share=0.005,
        ),
        cases=(
            shifted("logits", by=100.0, atol_scale=2.0), large("logits", factor=20.0, atol_scale=2.0),
            sorted_rows("logits"), EVEN_NOISE,
        ),
    ),
)  # fmt: skip


PROBLEMS: tuple[ProblemDefinition, ...] = (*INDEXING, *SORTING)
