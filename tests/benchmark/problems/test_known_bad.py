"""Kernels that are right on drawn inputs and wrong by specification: each must fail a case, and names which."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name every torch user knows
from torch import Tensor

from kbench.benchmark.problems import InputCase, ProblemDefinition, Size, problem
from kbench.benchmark.problems.compare import compare

Bad = tuple[str, str, Callable[..., Any]]


def softmax_without_maximum(x: Tensor) -> Tensor:
    return x.exp() / x.exp().sum(1, keepdim=True)


def instance_norm_in_one_pass(x: Tensor) -> Tensor:
    mean = x.mean((2, 3), keepdim=True)
    variance = (x * x).mean((2, 3), keepdim=True) - mean * mean
    return (x - mean) * (variance + 1e-5).rsqrt()


def rmsnorm_residual_without_eps(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    hidden = x + residual
    wide = hidden.float()
    return (wide * wide.square().mean(-1, keepdim=True).rsqrt() * weight).to(x.dtype), hidden


def tanh_through_exponentials(x: Tensor) -> Tensor:
    return (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1)


def sigmoid_through_exp_of_x(x: Tensor) -> Tensor:
    return x.exp() / (1 + x.exp())


def gelu_tanh_through_exponentials(x: Tensor) -> Tensor:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + tanh_through_exponentials(inner))


def cumprod_by_division(x: Tensor) -> Tensor:
    totals = x.double().flip(1).cumprod(1).flip(1)
    return (totals[:, :1] / totals * x.double()).float()


def cross_entropy_without_maximum(logits: Tensor, targets: Tensor) -> Tensor:
    picked = logits.gather(1, targets.unsqueeze(1)).squeeze(1)
    return (logits.exp().sum(1).log() - picked).mean()


def triplet_without_hinge_at_zero(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    near, far = (F.pairwise_distance(anchor, other).clamp(max=50.0) for other in (positive, negative))
    return (near - far + 1).clamp(min=0).mean()


def product_of_float16(a: Tensor, b: Tensor) -> Tensor:
    # Two halves keep 22 bits of every operand, so drawn inputs pass; the exponent of float16 does not.
    def halves(x: Tensor) -> tuple[Tensor, Tensor]:
        high = x.half().float()
        return high, (x - high).half().float()

    (a1, a2), (b1, b2) = halves(a), halves(b)
    return a1 @ b1 + a1 @ b2 + a2 @ b1


def product_of_clipped(a: Tensor, b: Tensor) -> Tensor:
    return a.clamp(-10.0, 10.0) @ b


def attention_without_maximum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])).exp()
    return (scores / scores.sum(-1, keepdim=True) @ v.float()).to(q.dtype)


def paged_attention_of_full_pages(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    """Sums whole splits of 64 tokens and assumes that the first is full."""
    return problem("paged_attention_decode").reference(q, k, v, table, lengths.clamp(min=64))


def chunk_outputs_with_split_decay(q: Tensor, k: Tensor, v: Tensor, h: Tensor, g: Tensor) -> Tensor:
    batch, length, heads, width = q.shape

    def by_chunk(x: Tensor) -> Tensor:
        return x.view(batch, length // 64, 64, heads, -1).transpose(2, 3)

    queries, keys, values, decay = by_chunk(q), by_chunk(k), by_chunk(v), by_chunk(g.unsqueeze(-1))
    within = ((queries * decay.exp()) @ (keys * (-decay).exp()).transpose(-1, -2)).tril() @ values
    return (((queries * decay.exp()) @ h + within) * width**-0.5).transpose(2, 3).reshape(v.shape)


def sort_by_distinct_ranks(x: Tensor) -> Tensor:
    """Every value goes to the number of smaller ones: equal values meet in one place."""
    ranks = (x.unsqueeze(1) < x.unsqueeze(2)).sum(2)
    return torch.zeros_like(x).scatter(1, ranks, x)


def top_k_above_zero(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, places = torch.topk(torch.where(x > 0, x, 0.0), k, dim=-1)
    return values, places.to(torch.int32)


def routing_above_zero(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, experts = torch.topk(logits.clamp(min=0.0), k, dim=-1)
    return torch.softmax(values, -1), experts.to(torch.int32)


def quantised_without_a_floor(x: Tensor, group: int) -> tuple[Tensor, Tensor]:
    wide = x.float().view(x.shape[0], -1, group)
    scales = wide.abs().amax(-1) / 448.0
    return (wide / scales.unsqueeze(-1)).view(x.shape).to(torch.float8_e4m3fn), scales


def grouped_gemm_of_full_groups(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """Gives every row to the first group whose end is beyond it, but counts ends by their distinct values."""
    ends = offsets.unique()
    group = torch.searchsorted(ends, torch.arange(x.shape[0], dtype=ends.dtype), right=True)
    return torch.einsum("tk,tkn->tn", x.float(), weight.float()[group]).to(x.dtype)


def forces_without_softening_of_close_pairs(positions: Tensor, masses: Tensor, softening: float) -> Tensor:
    gap = positions.unsqueeze(0) - positions.unsqueeze(1)
    squared = gap.square().sum(-1)
    weight = masses * (squared + softening).pow(-1.5) * squared / squared
    weight.fill_diagonal_(0.0)
    return (gap * weight.unsqueeze(-1)).sum(1)


def scatter_add_of_few(source: Tensor, index: Tensor, rows: int) -> Tensor:
    """Keeps at most sixteen sources a row."""
    rank = (index.unsqueeze(0) == index.unsqueeze(1)).tril(-1).sum(1)
    kept = rank < 16
    return source.new_zeros(rows, source.shape[1]).index_add_(0, index[kept], source[kept])


def scan_with_a_short_exponential(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
    """A polynomial that is good from -0.4 to 0."""
    state, found = u.new_zeros(*u.shape[:2], a.shape[1]), []
    for t in range(u.shape[2]):
        x = delta[..., t, None] * a
        decay = (((0.03418207 * x + 0.16414226) * x + 0.49964601) * x + 0.9999825) * x + 0.99999986
        state = decay * state + (delta[..., t] * u[..., t]).unsqueeze(-1) * b[:, None, :, t]
        found.append((state * c[:, None, :, t]).sum(-1))
    return torch.stack(found, -1) + skip[:, None] * u


def experts_of_limited_size(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """A grid with room for two thirds of all rows in one group."""
    product, start = x.new_zeros(x.shape[0], weight.shape[2]), 0
    for group, end in enumerate(offsets.tolist()):
        last = min(end, start + 2 * x.shape[0] // 3)
        product[start:last] = x[start:last] @ weight[group]
        start = end
    gate, up = product.float().chunk(2, -1)
    return (F.silu(gate) * up).to(x.dtype)


def trimul_with_a_polynomial_for_its_gates(*inputs: Tensor) -> Tensor:
    def powers(x: Tensor) -> Tensor:
        return torch.stack([x**degree for degree in range(1, 12, 2)], -1)

    range_of_draws = torch.linspace(-7.0, 7.0, 1001, dtype=torch.float64)
    fitted = torch.linalg.lstsq(powers(range_of_draws), range_of_draws.sigmoid() - 0.5).solution

    def sigmoid(x: Tensor) -> Tensor:
        return 0.5 + powers(x) @ fitted.to(x.dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "sigmoid", sigmoid)
        return problem("trimul").reference(*inputs)


def recomputed_with_an_assumed_diagonal(
    k: Tensor, v: Tensor, beta: Tensor, a: Tensor, g: Tensor
) -> tuple[Tensor, Tensor]:
    row = torch.arange(a.shape[1], device=a.device)[None, :, None, None] % 64
    unit = torch.where(torch.arange(64) == row, 1.0, a)
    return problem("gdn_recompute_w_u").reference(k, v, beta, unit, g)


def argmax_of_bits(x: Tensor) -> Tensor:
    """Compares the bits of floats as whole numbers, by which the two zeros differ."""
    bits, length = x.view(torch.int32).long(), x.shape[1]
    ordered = torch.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)
    return (ordered * length + torch.arange(length - 1, -1, -1)[:, None]).argmax(1)


def attention_without_small_shares(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    shares = torch.softmax(torch.einsum("bhd,bhtd->bht", q.float(), k.float()) * q.shape[-1] ** -0.5, -1)
    return torch.einsum("bht,bhtd->bhd", shares * (shares > 2.5e-4), v.float()).to(q.dtype)


BAD: tuple[Bad, ...] = (
    ("softmax", "softmax_without_maximum", softmax_without_maximum),
    ("log_softmax", "log_softmax_without_maximum", lambda x: x - x.exp().sum(1, keepdim=True).log()),
    ("instance_norm", "instance_norm_with_eps_outside_the_root",
     lambda x: (x - x.mean((2, 3), keepdim=True)) / (x.var((2, 3), correction=0, keepdim=True).sqrt() + 1e-5)),
    ("rms_norm", "rms_norm_in_float16_squares",
     lambda x: x * ((x.clamp(-250, 250) ** 2).mean(1, keepdim=True) + 1e-5).rsqrt()),
    ("rmsnorm_residual", "rmsnorm_residual_without_eps", rmsnorm_residual_without_eps),
    ("tanh", "tanh_clamped_too_early", lambda x: torch.where(x.abs() < 12.0, torch.tanh(x), x / 12.0)),
    ("sigmoid", "sigmoid_through_exp_of_x", sigmoid_through_exp_of_x),
    ("softplus", "softplus_without_threshold", lambda x: torch.log(1 + torch.exp(x))),
    ("gelu_tanh", "gelu_tanh_through_exponentials", gelu_tanh_through_exponentials),
    ("max_reduce", "max_from_zero", lambda x: x.amax(1).clamp(min=0.0)),
    ("argmax", "argmax_of_the_last", lambda x: x.shape[1] - 1 - x.flip(1).argmax(1)),
    ("cumprod", "cumprod_through_logarithms", lambda x: x.double().log().cumsum(1).exp().float()),
    ("cumprod", "cumprod_by_division", cumprod_by_division),
    ("prefix_sum", "prefix_sum_in_float32",
     lambda x: x.clamp(-32768, 32767).to(torch.int16).float().cumsum(0).to(torch.int32)),
    ("cross_entropy_loss", "cross_entropy_without_maximum", cross_entropy_without_maximum),
    ("triplet_margin_loss", "triplet_without_hinge_at_zero", triplet_without_hinge_at_zero),
    ("matmul_square", "product_of_float16", product_of_float16),
    ("matmul_square", "product_of_clipped", product_of_clipped),
    ("attention_prefill", "attention_without_maximum", attention_without_maximum),
    ("paged_attention_decode", "paged_attention_of_full_pages", paged_attention_of_full_pages),
    ("gdn_chunk_fwd_o", "chunk_outputs_with_split_decay", chunk_outputs_with_split_decay),
    ("sort", "sort_by_distinct_ranks", sort_by_distinct_ranks),
    ("top_k", "top_k_above_zero", top_k_above_zero),
    ("moe_topk_routing", "routing_above_zero", routing_above_zero),
    ("fp8_quant", "quantised_without_a_floor", quantised_without_a_floor),
    ("grouped_gemm", "grouped_gemm_of_full_groups", grouped_gemm_of_full_groups),
    ("nbody_forces", "forces_without_softening_of_close_pairs", forces_without_softening_of_close_pairs),
    ("scatter_add", "scatter_add_of_few", scatter_add_of_few),
    ("selective_scan", "scan_with_a_short_exponential", scan_with_a_short_exponential),
    ("moe_swiglu_up", "experts_of_limited_size", experts_of_limited_size),
    ("trimul", "trimul_with_a_polynomial_for_its_gates", trimul_with_a_polynomial_for_its_gates),
    ("argmax", "argmax_of_bits", argmax_of_bits),
    ("gdn_recompute_w_u", "recomputed_with_an_assumed_diagonal", recomputed_with_an_assumed_diagonal),
    ("attention_decode", "attention_without_small_shares", attention_without_small_shares),
)  # fmt: skip
"""Problem, what is wrong with the kernel, and the kernel."""


def passes(
    definition: ProblemDefinition, kernel: Callable[..., Any], size: Size, seed: int, case: InputCase | None = None
) -> bool:
    inputs = definition.draw(size, seed) if case is None else definition.draw_case(case, size, seed)
    tolerance = definition.tolerance if case is None else definition.tolerance_of(case)
    return compare(kernel(*inputs), definition.expected(inputs), tolerance, definition.outputs(size.params)).ok


@pytest.mark.parametrize(("problem_id", "kernel"), [pytest.param(p, k, id=name) for p, name, k in BAD])
def test_a_kernel_that_is_right_on_drawn_inputs_fails_a_case(problem_id: str, kernel: Callable[..., Any]) -> None:
    definition = problem(problem_id)
    assert passes(definition, kernel, definition.tiny, 0), "not a kernel that drawn inputs let pass"
    tried = [(case, seed) for case in definition.cases for seed in (0, 1)]
    assert not all(passes(definition, kernel, definition.tiny, seed, case) for case, seed in tried)


def test_a_variance_in_one_float32_pass_is_good_enough() -> None:
    """For the means that are specified."""
    definition = problem("instance_norm")
    for case in definition.every_case:
        assert passes(definition, instance_norm_in_one_pass, definition.tiny, 3, case), case.name


def best_of_buckets(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The five largest of each of 128 interleaved buckets, and of these the largest k."""
    rows = x.shape[0]
    values, places = x.reshape(rows, -1, 128).topk(min(5, x.shape[1] // 128), dim=1)
    columns = places * 128 + torch.arange(128)
    best = values.reshape(rows, -1).topk(k, dim=1)
    return best.values, columns.reshape(rows, -1).gather(1, best.indices).to(torch.int32)


def rows_cut_short(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    """A sparse product that leaves out all but the first 2,048 entries of a row."""
    lengths = starts.diff().long()
    row = torch.repeat_interleave(torch.arange(lengths.numel()), lengths)
    place = torch.arange(columns.numel()) - starts.long()[row]
    kept = torch.where(place < 2048, values * x[columns.long()], 0.0)
    return x.new_zeros(lengths.numel()).index_add_(0, row, kept)


def half_of_the_levels(*inputs: Tensor) -> Tensor:
    """Cyclic reduction that stops when rows are sixteen apart."""
    return cyclic_reduction(inputs, 4)


def cyclic_reduction(inputs: tuple[Tensor, ...], levels: int) -> Tensor:
    a, b, c, d = (tensor.clone() for tensor in inputs)
    a[:, 0] = 0
    c[:, -1] = 0
    for stride in (2**level for level in range(levels)):
        filled = ((a, 0.0), (b, 1.0), (c, 0.0), (d, 0.0))
        before = [F.pad(tensor, (stride, 0), value=value)[:, :-stride] for tensor, value in filled]
        after = [F.pad(tensor, (0, stride), value=value)[:, stride:] for tensor, value in filled]
        up, down = -a / before[1], -c / after[1]
        b = b + up * before[2] + down * after[0]
        d = d + up * before[3] + down * after[3]
        a, c = up * before[0], down * after[2]
    return d / b


def product_in_float16(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    """Sums of float16, although the problem promises float32."""
    total = torch.zeros(x.shape[0], weight.shape[0], dtype=torch.float16)
    for at in range(0, x.shape[1], 32):
        total = (total.float() + x[:, at : at + 32].float() @ weight[:, at : at + 32].float().t()).half()
    return (total.float() * x_scale[:, None] * weight_scale[None, :]).to(torch.bfloat16)


def paged_attention_without_small_shares(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    found = torch.empty_like(q)
    for at, length in enumerate(lengths.tolist()):
        keys, values = (pages[table[at].long()].flatten(0, 1)[:length].float() for pages in (k, v))
        shares = torch.softmax(torch.einsum("hd,thd->ht", q[at].float(), keys) * q.shape[-1] ** -0.5, -1)
        found[at] = torch.einsum("ht,thd->hd", shares * (shares > 4e-5), values).to(q.dtype)
    return found


BAD_WHEN_LARGE: list[tuple[str, str, Callable[..., Any], dict[str, int]]] = [
    ("top_k", "strided", best_of_buckets, {"rows": 512}),
    ("spmv_csr", "long_row", rows_cut_short, {}),
    ("tridiagonal_solve", "barely_dominant", half_of_the_levels, {"systems": 512}),
    ("fp8_gemm", "large", product_in_float16, {"m": 128, "n": 128}),
    ("paged_attention_decode", "sinks", paged_attention_without_small_shares, {"batch": 4, "heads": 4}),
]
"""What is independent is cut short: rows, images, heads."""


@pytest.mark.parametrize(
    ("problem_id", "case", "kernel", "fewer"), [pytest.param(*bad, id=bad[2].__name__) for bad in BAD_WHEN_LARGE]
)
def test_a_kernel_that_is_wrong_only_on_large_inputs_fails_its_case_there(
    problem_id: str, case: str, kernel: Callable[..., Any], fewer: dict[str, int]
) -> None:
    definition = problem(problem_id)
    declared = definition.case(case)
    for whole in definition.sizes:
        assert fewer.keys() <= whole.params.keys()
        size = Size(whole.name, {**whole.params, **fewer})
        assert passes(definition, kernel, size, 3)
        assert passes(definition, definition.reference, size, 3, declared)
        assert not passes(definition, kernel, size, 3, declared)


def l2_norm_with_an_epsilon(x: Tensor) -> Tensor:
    return x / (x.square().sum(1, keepdim=True) + 1e-4).sqrt()


SAMPLING: list[tuple[str, Callable[..., Any], Callable[..., Any], dict[str, int]]] = [
    ("softmax", softmax_without_maximum, lambda x: x[0].abs().max() < 16, {"rows": 128, "cols": 512}),
    ("gelu_tanh", gelu_tanh_through_exponentials, lambda x: x[:2].abs().max() < 16, {"rows": 128, "cols": 512}),
    ("l2_norm", l2_norm_with_an_epsilon, lambda x: 1 < x[0].square().mean() < 16, {"rows": 128, "cols": 512}),
    ("matmul_square", product_of_clipped, lambda a, b: 1 < a[0].abs().max() < 9, {"n": 128}),
    ("attention_prefill", attention_without_maximum, lambda q, k, v: q[0, 0, 0].abs().max() < 8, {}),
    (
        "tridiagonal_solve", half_of_the_levels,
        lambda low, diagonal, up, rhs: (diagonal[0] - low[0].abs() - up[0].abs()).median() > 0.8,
        {"systems": 64, "n": 256},
    ),
]  # fmt: skip
"""Honest unless a sample of the inputs looks as drawn ones do."""


@pytest.mark.parametrize(
    ("problem_id", "kernel", "usual", "params"), [pytest.param(*bad, id=bad[1].__name__) for bad in SAMPLING]
)
def test_a_kernel_that_recognises_drawn_inputs_by_a_sample_fails_mixed_cases_alone(
    problem_id: str, kernel: Callable[..., Any], usual: Callable[..., Any], params: dict[str, int]
) -> None:
    definition = problem(problem_id)
    size = Size("here", {**definition.tiny.params, **params})

    def sampling(*inputs: Any) -> Any:
        return (kernel if usual(*inputs) else definition.reference)(*inputs)

    assert passes(definition, sampling, size, 1)
    for case in definition.cases:
        assert passes(definition, sampling, size, 1, case), case.name
    mixed = [case for case in definition.every_case if case.mixed]
    refused = [not all(passes(definition, sampling, size, seed, case) for case in mixed) for seed in range(10)]
    assert sum(refused) >= 8
