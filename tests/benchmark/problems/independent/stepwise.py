"""Second formulations of recurrences, serving steps, optimizers and sparse products: one token or element at a time."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from formulas import eighth, rounded, shifted, silu
from torch import Tensor

GRAD = torch.autograd.grad


def leaf(x: Tensor) -> Tensor:
    return x.double().requires_grad_()


def rmsnorm_backward(x: Tensor, weight: Tensor, rstd: Tensor, dy: Tensor, dresidual: Tensor) -> tuple[Tensor, Tensor]:
    rows = []
    for i in range(len(x)):
        u, w = x[i].double() * float(rstd[i]), dy[i].double() * weight.double()
        jacobian = torch.eye(len(u)) - torch.outer(u, u) / len(u)
        rows.append(float(rstd[i]) * jacobian @ w + dresidual[i].double())
    return torch.stack(rows), torch.einsum("th,th,t->h", dy.double(), x.double(), rstd.double())


def swiglu_backward(both: Tensor, dy: Tensor) -> Tensor:
    x = leaf(both)
    gate, up = x.chunk(2, 1)
    (gradient,) = GRAD((silu(gate) * up * dy.double()).sum(), x)
    return gradient


def qk_norm_rope_backward(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    leaves = [leaf(x), leaf(weight)]
    unit = leaves[0] / (leaves[0].square().mean(-1, keepdim=True) + 1e-6).sqrt() * leaves[1]
    half = x.shape[-1] // 2
    angle = torch.complex(cos.double(), sin.double())[:, None]
    turned = torch.complex(unit[..., :half], unit[..., half:]) * angle
    return GRAD((torch.cat((turned.real, turned.imag), -1) * dy.double()).sum(), leaves)


def recurrent(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Mamba-2's states, one token at a time."""
    group = x.shape[2] // b.shape[2]
    state, out = torch.zeros(x.shape[0], x.shape[2], x.shape[3], b.shape[3], dtype=torch.float64), []
    for t in range(x.shape[1]):
        heads = [v[:, t].repeat_interleave(group, 1) for v in (b, c)]
        state = state * (dt[:, t] * a).exp()[..., None, None]
        state = state + torch.einsum("bhp,bhn,bh->bhpn", x[:, t], heads[0], dt[:, t])
        out.append(torch.einsum("bhpn,bhn->bhp", state, heads[1]))
    return torch.stack(out, 1)


def mamba2_scan(*inputs: Tensor) -> Tensor:
    x, dt, a, b, c, skip = (v.double() for v in inputs)
    return recurrent(x, dt, a, b, c) + skip[:, None] * x


def mamba2_scan_backward(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    leaves = [leaf(v) for v in (x, b, c)]
    y = recurrent(leaves[0], dt.double(), a.double(), leaves[1], leaves[2])
    return GRAD((y * dy.double()).sum(), leaves)


def mamba2_decode(*inputs: Tensor) -> tuple[Tensor, Tensor]:
    state, x, dt, a, b, c, skip = (v.double() for v in inputs)
    new, y = state.clone(), x * skip[:, None]
    for h in range(x.shape[1]):
        g = h * b.shape[1] // x.shape[1]
        new[:, h] = state[:, h] * (dt[:, h] * a[h]).exp()[:, None, None]
        new[:, h] += torch.einsum("bp,bn->bpn", x[:, h] * dt[:, h, None], b[:, g])
        y[:, h] += torch.einsum("bpn,bn->bp", new[:, h], c[:, g])
    return y, new


def convolved(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One sequence (token, channel) through the causal convolution, before the activation."""
    padded = torch.cat((x.new_zeros(3, x.shape[1]), x))
    return torch.stack([(padded[t : t + 4] * weight.T).sum(0) + bias for t in range(len(x))])


def conv_varlen(x: Tensor, weight: Tensor, bias: Tensor, starts: Tensor) -> Tensor:
    ends = itertools.pairwise(starts.tolist())
    return silu(torch.cat([convolved(x[a:b].double(), weight.double(), bias.double()) for a, b in ends if b > a]))


def conv_backward(x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    leaves = [leaf(v) for v in (x, weight, bias)]
    z = torch.stack([convolved(row, leaves[1], leaves[2]) for row in leaves[0]])
    return GRAD((silu(z) * dy.double()).sum(), leaves)


def delta_tokens(state: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """The delta rule on (batch, token, head, ...) tensors with matrices: S ← (I − β k kᵀ) diag(exp g) S + β k vᵀ."""
    state, q, k, v, beta, g = (x.double() for x in (state, q, k, v, beta, g))
    out = torch.empty(v.shape, dtype=torch.float64)
    state, group, width = state.clone(), v.shape[2] // k.shape[2], k.shape[3]
    for b in range(v.shape[0]):
        for h in range(v.shape[2]):
            for t in range(v.shape[1]):
                key = k[b, t, h // group]
                forget = torch.eye(width) - beta[b, t, h] * torch.outer(key, key)
                state[b, h] = forget.double() @ (g[b, t, h].exp().reshape(-1, 1) * state[b, h])
                state[b, h] += beta[b, t, h] * torch.outer(key, v[b, t, h])
                out[b, t, h] = q[b, t, h // group] @ state[b, h] / math.sqrt(width)
    return out, state


def delta_prefill(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor) -> Tensor:
    zero = torch.zeros(v.shape[0], v.shape[2], k.shape[3], v.shape[3])
    return delta_tokens(zero, q, k, v, beta, g)[0]


def delta_decode(state: Tensor, *token: Tensor) -> tuple[Tensor, Tensor]:
    out, new = delta_tokens(state, *(x[:, None] for x in token))
    return out[:, 0], new


def decay_attention(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
    place = torch.arange(q.shape[1])
    distance = (place[:, None] - place).double()
    kept = torch.where(distance >= 0, (-slope.double()[:, None, None] * distance).exp(), 0.0)
    return torch.einsum("bthd,bshd,hts,bshe->bthe", q.double(), k.double(), kept, v.double())


def rope_write(qkv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, slots: Tensor, kv: int) -> tuple[Tensor, ...]:
    half, heads = qkv.shape[2] // 2, qkv.shape[1] - 2 * kv
    out = qkv.double().clone()
    for t in range(len(qkv)):
        angle = torch.complex(cos[int(positions[t])].double(), sin[int(positions[t])].double())
        turned = torch.complex(out[t, : heads + kv, :half], out[t, : heads + kv, half:]) * angle
        out[t, : heads + kv] = torch.cat((turned.real, turned.imag), -1)
    back = slots.long().argsort()
    return out[:, :heads], out[back, heads : heads + kv], out[back, heads + kv :]


def rmsnorm_quantise(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    hidden = (x + residual).double()
    rows = [eighth(row / math.sqrt(float(row @ row) / len(row) + 1e-6) * weight.double()) for row in hidden]
    return torch.stack([row[0] for row in rows]), torch.tensor([row[1] for row in rows], dtype=torch.float64), hidden


def swiglu_quantise(both: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = both.double().chunk(2, 1)
    return rounded(silu(gate) * up)


def first_above(weights: list[float], share: float) -> int:
    total, running = sum(weights), 0.0
    for place, weight in enumerate(weights):
        running += weight
        if running > share * total:
            return place
    return 0


def top_p(logits: Tensor, limits: Tensor, drawn: Tensor) -> Tensor:
    tokens = []
    for row, limit, share in zip(logits.double(), limits.tolist(), drawn.tolist(), strict=True):
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
        rest = target[b, n].double() - (draft[b, n].double() if n < draft.shape[1] else 0)
        counts.append(n)
        nexts.append(first_above(rest.clamp(min=0).tolist(), float(drawn[b])))
    return torch.tensor(counts, dtype=torch.int32), torch.tensor(nexts, dtype=torch.int32)


def adapters(x: Tensor, base: Tensor, a: Tensor, b: Tensor, which: list[int]) -> Tensor:
    rows = [base[t].double() + b[g].double() @ (a[g].double() @ x[t].double()) for t, g in enumerate(which)]
    return torch.stack(rows)


def lora_prefill(x: Tensor, base: Tensor, a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    return adapters(x, base, a, b, [sum(int(end) <= t for end in offsets) for t in range(len(x))])


def adamw(*inputs: Tensor) -> tuple[Tensor, ...]:
    weight, grad, m, v, ends, rate, decay = (x.double() for x in inputs)
    out = [x.clone() for x in (weight, m, v)]
    start = 0
    for i, end in enumerate(int(end) for end in ends):
        part = slice(start, end)
        out[1][part] += 0.1 * (grad[part] - m[part])
        out[2][part] += 0.05 * (grad[part] ** 2 - v[part])
        step = out[1][part] / (1 - 0.9**100) / ((out[2][part] / (1 - 0.95**100)) ** 0.5 + 1e-8)
        out[0][part] *= 1 - rate[i] * decay[i]
        out[0][part] -= rate[i] * step
        start = end
    return tuple(out)


def adam_int8(*inputs: Tensor) -> tuple[Tensor, ...]:
    """Runs of 256 at once, each with the scale of its first and of its second moment."""
    weight, grad, m, m_scale, v, v_scale = (x.double().reshape(len(inputs[3]), -1) for x in inputs)
    first = 0.9 * m * m_scale / 127 + 0.1 * grad
    root = (0.999 * (v * v_scale / 255) ** 2 + 0.001 * grad**2).sqrt()
    tops = [x.abs().amax(1, keepdim=True) for x in (first, root)]
    codes = (127 * first / tops[0]).round().to(torch.int8), (255 * root / tops[1]).round().to(torch.uint8)
    found = (weight - 1e-3 * first / (root + 1e-6), codes[0], tops[0], codes[1], tops[1])
    return tuple(x.flatten() for x in found)


def newton_schulz(grad: Tensor) -> Tensor:
    """The polynomial on the singular values."""
    u, s, vt = torch.linalg.svd(grad.double(), full_matrices=False)
    s = s / s.norm(dim=1, keepdim=True)
    for _ in range(5):
        s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
    return u * s[:, None] @ vt * math.sqrt(grad.shape[2])


def sparse24(x: Tensor, values: Tensor, places: Tensor) -> Tensor:
    weight = torch.zeros(len(values), 2 * values.shape[1], dtype=torch.float64)
    for n in range(len(values)):
        for i in range(values.shape[1]):
            group = i // 2
            nibble = int(places[n, group // 2]) >> (4 * (group % 2)) & 15
            weight[n, 4 * group + (nibble >> (2 * (i % 2)) & 3)] = values[n, i].double()
    return x.double() @ weight.T


def block_sparse(x: Tensor, blocks: Tensor, starts: Tensor, columns: Tensor) -> Tensor:
    weight = torch.zeros(64 * (len(starts) - 1), x.shape[1], dtype=torch.float64)
    for r in range(len(starts) - 1):
        for i in range(int(starts[r]), int(starts[r + 1])):
            c = int(columns[i])
            weight[64 * r : 64 * r + 64, 64 * c : 64 * c + 64] += blocks[i].double()
    return x.double() @ weight.T


def sparse_attention(q: Tensor, k: Tensor, v: Tensor, chosen: Tensor) -> Tensor:
    out, group = torch.empty(q.shape, dtype=torch.float64), q.shape[0] // k.shape[0]
    for h in range(q.shape[0]):
        for i in range(q.shape[1]):
            names = [c for c in chosen[h, i // 64].tolist() if c >= 0]
            keys = torch.tensor([64 * c + j for c in names for j in range(64) if 64 * c + j <= i])
            weights = (k[h // group, keys].double() @ q[h, i].double() / math.sqrt(q.shape[2])).softmax(0)
            out[h, i] = weights @ v[h // group, keys].double()
    return out


def conv_nhwc(x: Tensor, weight: Tensor) -> Tensor:
    taps = [(shifted(x, i - 1, j - 1, 1), weight[:, i, j].double()) for i in range(3) for j in range(3)]
    return sum((torch.einsum("nyxc,oc->nyxo", *tap) for tap in taps), torch.zeros(()))


def wgrad_nhwc(x: Tensor, dy: Tensor) -> Tensor:
    taps = [torch.einsum("nyxc,nyxo->oc", shifted(x, i, j, 1), dy.double()) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return torch.stack(taps, 1).unflatten(1, (3, 3))


def stride2_dgrad_nhwc(dy: Tensor, weight: Tensor) -> Tensor:
    n, height, width, _ = dy.shape
    x = torch.zeros(n, 2 * height, 2 * width, weight.shape[3], dtype=torch.float64, requires_grad=True)
    y = conv_nhwc(x, weight)[:, ::2, ::2]
    (dx,) = GRAD((y * dy.double()).sum(), x)
    return dx


def depthwise_nhwc(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    parts = [shifted(x, i - 3, j - 3, 3) * weight[i, j].double() for i in range(7) for j in range(7)]
    return torch.stack(parts).sum(0) + bias.double()


CHECKS: dict[str, Callable[..., Any]] = {
    "rmsnorm_backward": rmsnorm_backward, "swiglu_backward": swiglu_backward,
    "qk_norm_rope_backward": qk_norm_rope_backward,
    "mamba2_scan": mamba2_scan, "mamba2_scan_backward": mamba2_scan_backward, "mamba2_decode": mamba2_decode,
    "causal_conv1d_varlen": conv_varlen, "causal_conv1d_backward": conv_backward,
    "gated_delta_prefill": delta_prefill, "gated_delta_decode": delta_decode, "channel_delta_decode": delta_decode,
    "delta_verify": delta_tokens, "decay_attention_prefill": decay_attention,
    "rope_cache_write": rope_write, "rmsnorm_quantise": rmsnorm_quantise, "swiglu_quantise": swiglu_quantise,
    "top_p_sampling": top_p, "speculative_sampling": verify, "lora_prefill": lora_prefill,
    "adamw_step": adamw, "adam_int8_step": adam_int8, "newton_schulz": newton_schulz,
    "sparse24_linear": sparse24, "block_sparse_linear": block_sparse, "block_sparse_attention": sparse_attention,
    "conv3x3_nhwc": conv_nhwc, "conv3x3_wgrad_nhwc": wgrad_nhwc, "conv3x3_stride2_dgrad_nhwc": stride2_dgrad_nhwc,
    "depthwise7x7_nhwc": depthwise_nhwc,
    "lora_decode": lambda x, base, a, b, adapter: adapters(x, base, a, b, adapter.tolist()),
}  # fmt: skip
"""Independent formulation by problem id: takes the problem's inputs, gives its outputs (floats in float64)."""
