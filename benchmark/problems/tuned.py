"""Problems whose kernels are tuned shape by shape: problems of the benchmark at sizes dense in the batch dimension.

They are unlisted: no search or question has them. A tuned kernel must be correct at every size.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from kbench.benchmark.problems.definition import ProblemDefinition, Size
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.benchmark.problems.registry import known

PREFIX = "tuned_"
DECODE = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256)
PREFILL = (16, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)
SEQUENCES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)
ROWS = (1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


@dataclasses.dataclass(frozen=True, slots=True)
class Shapes:
    """The sizes a problem's kernels are tuned for: all batch sizes at the first width, every third at the others."""

    batch: str
    """The parameter that varies most: rows, tokens or sequences."""
    batches: Sequence[int]
    widths: Sequence[Mapping[str, int]]

    def sizes(self) -> Iterator[Size]:
        """The sizes, named by the parameters in which they differ."""
        differing = [key for key in self.widths[0] if len({width[key] for width in self.widths}) > 1]
        for number, width in enumerate(self.widths):
            for batch in self.batches if number == 0 else self.batches[number % 3 :: 3]:
                params = {self.batch: batch, **width}
                yield Size("_".join(f"{key}{params[key]}" for key in (self.batch, *differing)), params)


def _layers(*sides: tuple[int, int]) -> tuple[dict[str, int], ...]:
    return tuple({"n": n, "k": k} for n, k in sides)


def _grid(**choices: Sequence[int]) -> tuple[dict[str, int], ...]:
    """Widths of which the i-th takes the i-th choice of each parameter; a single choice holds for all."""
    count = max(map(len, choices.values()))
    return tuple({key: values[i % len(values)] for key, values in choices.items()} for i in range(count))


LAYERS = _layers((4096, 14336), (6144, 4096), (8192, 8192))
GATED = _layers((14336, 4096), (28672, 8192), (25600, 5120))
NARROW = _layers((28672, 4096), (57344, 8192), (51200, 5120))
EXPERTS = _grid(experts=(128, 8), n=(1536, 14336), k=(2048, 4096))
PAGED = _grid(heads=(32, 8), kv_heads=(8, 1), dim=(128,), longest=(4096, 8192))
ROUTED = _grid(experts=(256, 128), chosen=(8,), hidden=(7168, 2048), n=(2048,))
HIDDEN = _grid(hidden=(4096, 8192, 2048))

SHAPES: Mapping[str, Shapes] = {
    "linear_residual_bf16": Shapes("m", PREFILL, LAYERS),
    "fp8_linear_rowwise": Shapes("m", PREFILL, LAYERS),
    "int8_linear_relu": Shapes("m", (32, *PREFILL[1:]), LAYERS),  # torch._int_mm takes no fewer than 17 rows
    "linear_dgrad": Shapes("m", PREFILL, LAYERS),
    "linear_wgrad_accumulate": Shapes("m", PREFILL, LAYERS),
    "swiglu_up_bf16": Shapes("m", PREFILL, GATED),
    "linear_decode_bf16": Shapes("m", DECODE, NARROW),
    "int8_weight_linear": Shapes("m", DECODE, NARROW),
    "fp8_weight_linear": Shapes("m", DECODE, NARROW),
    "int8_weight_swiglu": Shapes("m", DECODE, GATED),
    "int4_zero_point_linear": Shapes("m", DECODE, NARROW),
    "fp8_linear_blockwise": Shapes("m", PREFILL, _layers((4096, 7168), (7168, 2048), (24576, 1536))),
    "fp8_block_decode": Shapes("m", DECODE, _layers((7168, 16384), (36864, 7168), (7168, 18432))),
    "moe_layer": Shapes("tokens", DECODE, _grid(experts=(128, 8), chosen=(8, 2), hidden=(2048, 4096), n=(768, 14336))),
    "moe_layer_fp8": Shapes(
        "tokens", DECODE, _grid(experts=(128, 64), chosen=(8, 6), hidden=(2048, 2048), n=(768, 1408))
    ),
    "moe_layer_int4": Shapes(
        "tokens", DECODE, _grid(experts=(128, 8), chosen=(8, 2), hidden=(2048, 4096), n=(768, 14336))
    ),
    "moe_swiglu_up": Shapes("rows", (*PREFILL[1:], 8192), _grid(experts=(128, 8), n=(768, 14336), k=(2048, 4096))),
    "moe_weighted_down": Shapes("rows", (*PREFILL[1:], 8192), _grid(experts=(128, 8), n=(2048, 4096), k=(768, 14336))),
    "grouped_fp8_linear": Shapes("rows", (*PREFILL[1:], 8192), EXPERTS),
    "grouped_wgrad": Shapes("rows", (*PREFILL[3:], 8192, 12288, 16384), EXPERTS),
    "gqa_ragged_decode": Shapes(
        "batch", SEQUENCES, _grid(heads=(32, 28), kv_heads=(8, 4), dim=(128,), length=(4096, 8192))
    ),
    "paged_gqa_decode": Shapes("batch", SEQUENCES, PAGED),
    "paged_fp8_decode": Shapes("batch", SEQUENCES, PAGED),
    "mla_decode": Shapes("batch", SEQUENCES, _grid(heads=(128, 16), length=(2048, 4096), width=(576,))),
    "mla_paged_decode": Shapes("batch", SEQUENCES, _grid(heads=(128, 16), longest=(4096, 8192), width=(576,))),
    "causal_gqa_attention": Shapes(
        "length", (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096),
        _grid(batch=(1, 4), heads=(32, 16), kv_heads=(8, 4), dim=(128,)),
    ),
    "attention_varlen_prefill": Shapes(
        "tokens", (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192),
        _grid(count=(8, 3), heads=(32, 64), kv_heads=(8,), dim=(128,)),
    ),
    "attention_backward_gqa": Shapes(
        "length", (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096),
        _grid(batch=(1, 2), heads=(32, 16), kv_heads=(8, 4), dim=(128,)),
    ),
    "layer_norm": Shapes("tokens", ROWS, HIDDEN),
    "layer_norm_residual": Shapes("tokens", ROWS, HIDDEN),
    "rmsnorm_quantise": Shapes("tokens", ROWS, HIDDEN),
    "rmsnorm_backward": Shapes("tokens", ROWS[2:], HIDDEN),
    "swiglu_quantise": Shapes("tokens", ROWS, _grid(hidden=(14336, 18432, 2048))),
    "swiglu_backward": Shapes("tokens", ROWS, _grid(hidden=(14336, 18432, 2048))),
    "token_log_probs": Shapes("tokens", (*DECODE[::2], 384, 512, 1024, 2048), _grid(vocab=(128256, 151936, 32000))),
    "causal_conv1d_varlen": Shapes("tokens", ROWS[2:], _grid(channels=(5376, 8192, 10240), count=(8, 16, 4))),
    "mamba2_decode": Shapes(
        "batch", SEQUENCES, _grid(length=(1,), heads=(80, 128), groups=(1, 8), width=(64,), states=(128,))
    ),
    "gated_delta_decode": Shapes(
        "batch", SEQUENCES, _grid(length=(1,), heads=(32, 8), key_heads=(16, 4), width=(128,))
    ),
    "mamba2_scan": Shapes(
        "length", (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192),
        _grid(batch=(1, 4), heads=(80, 32), groups=(1,), width=(64,), states=(128,)),
    ),
    "rope_cache_write": Shapes("tokens", ROWS, _grid(heads=(32, 64), kv_heads=(8,), dim=(128,), longest=(8192,))),
    "lora_decode": Shapes("tokens", SEQUENCES, _grid(adapters=(16, 64), rank=(64, 16), n=(8192, 4096), k=(8192, 4096))),
    "moe_combine": Shapes("tokens", ROWS[:-1], ROUTED),
    "moe_gather_quantise": Shapes("tokens", ROWS[:-1], ROUTED),
    "adamw_step": Shapes(
        "n", (1_000_000, 2_000_000, 4_000_000, 6_000_000, 8_000_000, 12_000_000, 16_000_000, 24_000_000, 32_000_000),
        _grid(count=(16, 146)),
    ),
}  # fmt: skip
"""Shapes by problem of the benchmark."""


GROUPED = ("moe_swiglu_up", "moe_weighted_down", "grouped_fp8_linear")
"""Products of rows with the matrices of their experts, which have fewer rows here than experts at some sizes."""


def tuned(problem_id: str) -> ProblemDefinition:
    """A problem of the benchmark at the sizes for which its kernels are tuned."""
    base, sizes = known()[problem_id], tuple(SHAPES[problem_id].sizes())
    names = {name: len(list(same)) for name, same in itertools.groupby(sorted(size.name for size in sizes))}
    assert max(names.values()) == 1, f"{problem_id}: sizes share a name"
    fewest = functools.partial(_bytes_of_used_experts, base) if problem_id in GROUPED else base.min_bytes
    return dataclasses.replace(base, id=PREFIX + problem_id, sizes=sizes, aliases=(), min_bytes=fewest)


def _bytes_of_used_experts(base: ProblemDefinition, p: Mapping[str, int]) -> int:
    """Fewest bytes a kernel moves: matrices of experts that surely have rows, and everything else.

    Shares of the rows run from a quarter to one and three quarters of the mean, in random order. An expert whose share
    is a whole row has one, and no expert has more rows than the largest share, rounded up.
    """
    rows, experts = p["rows"], p["experts"]
    mean = rows / experts
    whole = sum(mean * (0.25 + 1.5 * place / (experts - 1)) >= 1.0 for place in range(experts))
    used = min(experts, max(whole, -(-rows // (math.floor(1.75 * mean) + 1))))
    tensors = [spec for spec in base.inputs(p) if isinstance(spec, TensorSpec)]
    matrices = sum(spec.nbytes for spec in tensors if spec.name.startswith("weight"))
    return base.count_bytes(p) - matrices * (experts - used) // experts


PROBLEMS: tuple[ProblemDefinition, ...] = tuple(map(tuned, SHAPES))
