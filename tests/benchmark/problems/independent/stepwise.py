"""Second formulations of recurrences, serving steps, optimizers and sparse products: one token or element at a time."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from formulas import conv_nhwc, rounded, shifted, silu, swiglu, turned
from torch import Tensor

GRAD = torch.autograd.grad


def leaf(x: Tensor) -> Tensor:
    return x.clone().requires_grad_()


def rmsnorm_backward(x: Tensor, weight: Tensor, rstd: Tensor, dy: Tensor, dresidual: Tensor) -> tuple[Tensor, Tensor]:
    rows = []
    for one, size, given, beside in zip(x, rstd, dy, dresidual, strict=True):
        jacobian = torch.eye(len(one)) - torch.outer(one * size, one * size) / len(one)
        rows.append(size * jacobian @ (given * weight) + beside)
    return torch.stack(rows), torch.einsum("th,th,t->h", dy, x, rstd)


def swiglu_backward(both: Tensor, dy: Tensor) -> Tensor:
    x = leaf(both)
    return GRAD((swiglu(x) * dy).sum(), x)[0]


def qk_norm_rope_backward(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    leaves = [leaf(x), leaf(weight)]
    unit = leaves[0] / (leaves[0].square().mean(-1, keepdim=True) + 1e-6).sqrt() * leaves[1]
    return GRAD((turned(unit, cos[:, None], sin[:, None]) * dy).sum(), leaves)


def recurrent(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Mamba-2's states, one token at a time."""
    state, out = torch.zeros(x.shape[0], *x.shape[2:], b.shape[3], dtype=torch.float64), []
    for t in range(x.shape[1]):
        y, state = mamba2_token(state, x[:, t], dt[:, t], a, b[:, t], c[:, t])
        out.append(y)
    return torch.stack(out, 1)


def mamba2_token(state: Tensor, x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    b, c = (v.repeat_interleave(x.shape[1] // v.shape[1], 1) for v in (b, c))
    new = state * (dt * a).exp()[..., None, None] + torch.einsum("bhp,bhn,bh->bhpn", x, b, dt)
    return torch.einsum("bhpn,bhn->bhp", new, c), new


def mamba2_scan(x: Tensor, *inputs: Tensor) -> Tensor:
    return recurrent(x, *inputs[:-1]) + inputs[-1][:, None] * x


def mamba2_scan_backward(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    leaves = [leaf(v) for v in (x, b, c)]
    return GRAD((recurrent(leaves[0], dt, a, *leaves[1:]) * dy).sum(), leaves)


def mamba2_decode(state: Tensor, x: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    y, new = mamba2_token(state, x, *inputs[:-1])
    return y + inputs[-1][:, None] * x, new


def convolved(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One sequence (token, channel) through the causal convolution, before the activation."""
    padded = torch.cat((x.new_zeros(3, x.shape[1]), x))
    return torch.stack([(padded[t : t + 4] * weight.T).sum(0) + bias for t in range(len(x))])


def conv_varlen(x: Tensor, weight: Tensor, bias: Tensor, starts: Tensor) -> Tensor:
    ends = itertools.pairwise(starts.tolist())
    return silu(torch.cat([convolved(x[a:b], weight, bias) for a, b in ends if b > a]))


def conv_backward(x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    leaves = [leaf(v) for v in (x, weight, bias)]
    z = torch.stack([convolved(row, leaves[1], leaves[2]) for row in leaves[0]])
    return GRAD((silu(z) * dy).sum(), leaves)


def delta_tokens(state: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """The delta rule on (batch, token, head, ...) tensors with matrices: S ← (I − β k kᵀ) diag(exp g) S + β k vᵀ."""
    q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
    out = []
    for t in range(v.shape[1]):
        key, step = k[:, t], beta[:, t, :, None]
        state = g[:, t].exp().reshape(*g.shape[:1], v.shape[2], -1, 1) * state
        read = torch.einsum("bhk,bhkv->bhv", key, state)
        state = state + torch.einsum("bhk,bhv->bhkv", key, step * (v[:, t] - read))
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state) / math.sqrt(k.shape[3]))
    return torch.stack(out, 1), state


def delta_prefill(q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
    return delta_tokens(torch.zeros(v.shape[0], v.shape[2], k.shape[3], v.shape[3]), q, k, v, *gates)[0]


def delta_decode(state: Tensor, *token: Tensor) -> tuple[Tensor, Tensor]:
    out, new = delta_tokens(state, *(x[:, None] for x in token))
    return out[:, 0], new


def decay_attention(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
    place = torch.arange(q.shape[1])
    distance = (place[:, None] - place).double()
    kept = torch.where(distance >= 0, (-slope[:, None, None] * distance).exp(), 0.0)
    return torch.einsum("bthd,bshd,hts,bshe->bthe", q, k, kept, v)


def rope_write(qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, slots: Tensor, kv: int) -> tuple[Tensor, ...]:
    heads, out, at = qkv.shape[1] - 2 * kv, qkv.clone(), positions.long()
    out[:, : heads + kv] = turned(qkv[:, : heads + kv], cos[at][:, None], sin[at][:, None])
    back = slots.long().argsort()
    return out[:, :heads], out[back, heads : heads + kv], out[back, heads + kv :]


def rmsnorm_quantise(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    hidden = (x + residual).bfloat16().double()
    unit = torch.stack([row / math.sqrt(float(row @ row) / len(row) + 1e-6) * weight for row in hidden])
    codes, scales = rounded(unit, unit.shape[1])
    return codes, scales[:, 0], hidden


def first_above(weights: list[float], share: float) -> int:
    total, running = sum(weights), 0.0
    for place, weight in enumerate(weights):
        running += weight
        if running > share * total:
            return place
    return 0


def top_p(logits: Tensor, limits: Tensor, drawn: Tensor) -> Tensor:
    tokens = []
    for row, limit, share in zip(logits, limits.tolist(), drawn.tolist(), strict=True):
        p = ((row - row.max()).exp() / (row - row.max()).exp().sum()).tolist()
        kept, mass = [0.0] * len(p), 0.0
        for token in sorted(range(len(p)), key=lambda i: -p[i]):
            if mass >= limit:
                break
            kept[token], mass = p[token], mass + p[token]
        tokens.append(first_above(kept, share))
    return torch.tensor(tokens, dtype=torch.int32)


def verify(draft: Tensor, target: Tensor, tokens: Tensor, accepts: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    counts, nexts = [], []
    for b in range(len(draft)):
        n = 0
        while n < draft.shape[1]:
            token = int(tokens[b, n])
            if not float(target[b, n, token]) > float(accepts[b, n]) * float(draft[b, n, token]):
                break
            n += 1
        rest = target[b, n] - (draft[b, n] if n < draft.shape[1] else 0)
        counts.append(n)
        nexts.append(first_above(rest.clamp(min=0).tolist(), float(drawn[b])))
    return torch.tensor(counts, dtype=torch.int32), torch.tensor(nexts, dtype=torch.int32)


def adapters(x: Tensor, base: Tensor, a: Tensor, b: Tensor, which: list[int]) -> Tensor:
    return torch.stack([base[t] + b[g] @ (a[g] @ x[t]) for t, g in enumerate(which)])


def lora_prefill(x: Tensor, base: Tensor, a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    return adapters(x, base, a, b, [sum(int(end) <= t for end in offsets) for t in range(len(x))])


def adamw(weight: Tensor, grad: Tensor, m: Tensor, v: Tensor, ends: Tensor, *each: Tensor) -> tuple[Tensor, ...]:
    sizes = torch.tensor([int(end) for end in ends]).diff(prepend=torch.zeros(1, dtype=torch.int64))
    rate, decay = (one.repeat_interleave(sizes) for one in each)
    m, v = m + 0.1 * (grad - m), v + 0.05 * (grad**2 - v)
    step = m / (1 - 0.9**100) / ((v / (1 - 0.95**100)) ** 0.5 + 1e-8)
    return weight * (1 - rate * decay) - rate * step, m, v


def adam_int8(*inputs: Tensor) -> tuple[Tensor, ...]:
    """Runs of 256 at once, each with the scale of its first and of its second moment."""
    weight, grad, m, m_scale, v, v_scale = (x.reshape(len(inputs[3]), -1) for x in inputs)
    first = 0.9 * m * m_scale / 127 + 0.1 * grad
    root = (0.999 * (v * v_scale / 255) ** 2 + 0.001 * grad**2).sqrt()
    tops = [x.abs().amax(1, keepdim=True) for x in (first, root)]
    codes = (127 * first / tops[0]).round().to(torch.int8), (255 * root / tops[1]).round().to(torch.uint8)
    found = (weight - 1e-3 * first / (root + 1e-6), codes[0], tops[0], codes[1], tops[1])
    return tuple(x.flatten() for x in found)


def newton_schulz(grad: Tensor) -> Tensor:
    """The polynomial on the singular values."""
    u, s, vt = torch.linalg.svd(grad, full_matrices=False)
    s = s / s.norm(dim=1, keepdim=True)
    for _ in range(5):
        s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
    return u * s[:, None] @ vt * math.sqrt(grad.shape[2])


def sparse24(x: Tensor, values: Tensor, places: Tensor) -> Tensor:
    weight = torch.zeros(len(values), 2 * values.shape[1], dtype=torch.float64)
    for n in range(len(values)):
        for i in range(values.shape[1]):
            nibble = int(places[n, i // 4]) >> (4 * (i // 2 % 2)) & 15
            weight[n, 4 * (i // 2) + (nibble >> (2 * (i % 2)) & 3)] = values[n, i]
    return x @ weight.T


def block_sparse(x: Tensor, blocks: Tensor, starts: Tensor, columns: Tensor) -> Tensor:
    weight = torch.zeros(64 * (len(starts) - 1), x.shape[1], dtype=torch.float64)
    for r in range(len(starts) - 1):
        for i in range(int(starts[r]), int(starts[r + 1])):
            c = int(columns[i])
            weight[64 * r : 64 * r + 64, 64 * c : 64 * c + 64] += blocks[i]
    return x @ weight.T


def sparse_attention(q: Tensor, k: Tensor, v: Tensor, chosen: Tensor) -> Tensor:
    out, group = torch.empty(q.shape, dtype=torch.float64), q.shape[0] // k.shape[0]
    for h in range(q.shape[0]):
        for i in range(q.shape[1]):
            names = [c for c in chosen[h, i // 64].tolist() if c >= 0]
            keys = torch.tensor([64 * c + j for c in names for j in range(64) if 64 * c + j <= i])
            weights = (k[h // group, keys] @ q[h, i] / math.sqrt(q.shape[2])).softmax(0)
            out[h, i] = weights @ v[h // group, keys]
    return out


def wgrad_nhwc(x: Tensor, dy: Tensor) -> Tensor:
    taps = [torch.einsum("nyxc,nyxo->oc", shifted(x, i, j, 1), dy) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return torch.stack(taps, 1).unflatten(1, (3, 3))


def stride2_dgrad_nhwc(dy: Tensor, weight: Tensor) -> Tensor:
    n, height, width, _ = dy.shape
    x = torch.zeros(n, 2 * height, 2 * width, weight.shape[3], dtype=torch.float64, requires_grad=True)
    return GRAD((conv_nhwc(x, weight)[:, ::2, ::2] * dy).sum(), x)[0]


def depthwise_nhwc(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    parts = [shifted(x, i - 3, j - 3, 3) * weight[i, j] for i in range(7) for j in range(7)]
    return torch.stack(parts).sum(0) + bias


CHECKS: dict[str, Callable[..., Any]] = {
    "rmsnorm_backward": rmsnorm_backward, "swiglu_backward": swiglu_backward,
    "qk_norm_rope_backward": qk_norm_rope_backward,
    "mamba2_scan": mamba2_scan, "mamba2_scan_backward": mamba2_scan_backward, "mamba2_decode": mamba2_decode,
    "causal_conv1d_varlen": conv_varlen, "causal_conv1d_backward": conv_backward,
    "gated_delta_prefill": delta_prefill, "gated_delta_decode": delta_decode, "channel_delta_decode": delta_decode,
    "delta_verify": delta_tokens, "decay_attention_prefill": decay_attention,
    "rope_cache_write": rope_write, "rmsnorm_quantise": rmsnorm_quantise,
    "swiglu_quantise": lambda both: rounded(swiglu(both)),
    "top_p_sampling": top_p, "speculative_sampling": verify, "lora_prefill": lora_prefill,
    "adamw_step": adamw, "adam_int8_step": adam_int8, "newton_schulz": newton_schulz,
    "sparse24_linear": sparse24, "block_sparse_linear": block_sparse, "block_sparse_attention": sparse_attention,
    "conv3x3_nhwc": conv_nhwc, "conv3x3_wgrad_nhwc": wgrad_nhwc, "conv3x3_stride2_dgrad_nhwc": stride2_dgrad_nhwc,
    "depthwise7x7_nhwc": depthwise_nhwc,
    "lora_decode": lambda x, base, a, b, adapter: adapters(x, base, a, b, adapter.tolist()),
}  # fmt: skip
"""Independent formulation by problem id: takes the problem's inputs, gives its outputs (floats in float64)."""
