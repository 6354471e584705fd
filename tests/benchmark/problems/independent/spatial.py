"""Independent formulations of the convolution, pooling and stencil problems: float64, windows gathered one by one."""

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Check = Callable[..., Tensor]


def windows(x: Tensor, kernel: Sequence[int], stride: int, padding: int, dilation: int, outside: float) -> Tensor:
    """[taps, n, c, *extents]: for every tap, the values it meets at every window, gathered along each axis in turn."""
    axes = range(2, x.dim())
    padded = torch.full((*x.shape[:2], *(x.shape[a] + 2 * padding for a in axes)), outside, dtype=torch.float64)
    padded[(..., *(slice(padding, padding + x.shape[a]) for a in axes))] = x
    taps = []
    for offsets in itertools.product(*(range(k) for k in kernel)):
        gathered = padded
        for axis, size, offset in zip(axes, kernel, offsets, strict=True):
            count = (padded.shape[axis] - dilation * (size - 1) - 1) // stride + 1
            gathered = gathered.index_select(axis, torch.arange(count) * stride + offset * dilation)
        taps.append(gathered)
    return torch.stack(taps)


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, dilation: int = 1) -> Tensor:
    """Products of gathered windows with flattened filters, summed by one einsum."""
    gathered = windows(x, weight.shape[2:], stride, 0, dilation, 0.0)
    summed = torch.einsum("tnc...,oct->no...", gathered, weight.flatten(2))
    if bias is not None:
        summed += bias.view(-1, *(1,) * (x.dim() - 2))
    return summed


def depthwise(x: Tensor, weight: Tensor) -> Tensor:
    """Each channel with its own filter."""
    gathered = windows(x, weight.shape[2:], 1, 0, 1, 0.0)
    return torch.einsum("tnc...,ct->nc...", gathered, weight.flatten(1))


def scatter(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int = 1) -> Tensor:
    """Transposed convolution by its definition: every input position adds its filter into the output."""
    kernel, extents = weight.shape[2:], x.shape[2:]
    full = [(e - 1) * stride + k for e, k in zip(extents, kernel, strict=True)]
    per_in, per_out = x.shape[1] // groups, weight.shape[1]
    out = torch.zeros((x.shape[0], groups * per_out, *full), dtype=torch.float64)
    for group in range(groups):
        inner = slice(group * per_in, (group + 1) * per_in)
        outer = slice(group * per_out, (group + 1) * per_out)
        for position in itertools.product(*(range(e) for e in extents)):
            patch = torch.tensordot(x[(slice(None), inner, *position)], weight[inner], dims=1)
            where = tuple(slice(i * stride, i * stride + k) for i, k in zip(position, kernel, strict=True))
            out[(slice(None), outer, *where)] += patch
    return out[(..., *(slice(padding, size - padding) for size in full))]


def largest(x: Tensor, kernel: int, stride: int, padding: int, dilation: int) -> Tensor:
    """Maximum over gathered windows."""
    return windows(x, [kernel] * (x.dim() - 2), stride, padding, dilation, -torch.inf).amax(0)


def mean(x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """Mean over gathered windows, zeros outside counted."""
    return windows(x, [kernel] * (x.dim() - 2), stride, padding, 1, 0.0).mean(0)


def mish(v: Tensor) -> Tensor:
    """v · tanh(softplus(v)), with tanh(softplus(v)) written as a ratio of exponentials."""
    squared = (1 + torch.exp(v)) ** 2
    return v * (squared - 1) / (squared + 1)


def relu_hardswish(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Hard swish of a rectified convolution, by cases: 0, the parabola, the identity from 3 on."""
    v = convolve(x, weight, bias).clamp_min(0)
    return torch.where(v >= 3, v, v * (v + 3) / 6)


def pool_sigmoid_sum(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One sum per image of sigmoids of 2×2 means."""
    pooled = mean(convolve(x, weight, bias), 2, 2, 0)
    return (1 / (1 + torch.exp(-pooled))).flatten(1).sum(1)


def tanh_pool(x: Tensor, weight: Tensor, conv_bias: Tensor, bias: Tensor) -> Tensor:
    """Tanh through exponentials, then the largest of 4×4."""
    v = convolve(x, weight, conv_bias)
    squashed = 1 - 2 / (torch.exp(2 * v) + 1)
    return largest(2 * squashed + bias, 4, 4, 0, 1)


def scale_tanh_multiply_sigmoid(x: Tensor, weight: Tensor, conv_bias: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Both squashing functions through exponentials."""
    v = convolve(x, weight, conv_bias) * scale
    squashed = (1 - 2 / (torch.exp(2 * v) + 1)) * bias
    return 1 / (1 + torch.exp(-squashed))


def heat(u: Tensor, diffusivity: Tensor) -> Tensor:
    """The Laplacian as second-difference matrices from both sides."""
    return u + diffusivity * (second_difference(u.shape[0]) @ u + u @ second_difference(u.shape[1]))


def second_difference(count: int) -> Tensor:
    """Tridiagonal (1, −2, 1)."""
    ones = torch.ones(count - 1, dtype=torch.float64)
    return torch.diag(ones, 1) + torch.diag(ones, -1) - 2 * torch.eye(count, dtype=torch.float64)


def wave(u: Tensor, previous: Tensor, courant: float) -> Tensor:
    """Fourth-order second-difference matrices applied along each axis."""
    result = 2 * u - previous
    for axis, count in enumerate(u.shape):
        bands = ((-2, -1 / 12), (-1, 4 / 3), (0, -2.5), (1, 4 / 3), (2, -1 / 12))
        matrix = sum(torch.diag(torch.full((count - abs(at),), value).double(), at) for at, value in bands)
        result = result + courant * torch.tensordot(matrix, u, dims=([1], [axis])).movedim(0, axis)
    return result


def causal(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Position by position: the last tap meets the present, earlier taps the past."""
    out = bias.view(1, -1, 1).expand(x.shape).clone()
    for position, tap in itertools.product(range(x.shape[2]), range(weight.shape[1])):
        source = position - (weight.shape[1] - 1) + tap
        if source >= 0:
            out[..., position] += x[..., source] * weight[:, tap]
    return out / (1 + torch.exp(-out))


CHECKS: dict[str, Check] = {
    "conv1d": convolve,
    "conv1d_dilated_strided": lambda x, w: convolve(x, w, stride=3, dilation=4),
    "conv2d_square": convolve,
    "conv2d_asymmetric": convolve,
    "conv3d": convolve,
    "depthwise_conv2d": depthwise,
    "depthwise_separable_conv2d": lambda x, d, p: convolve(depthwise(x, d), p),
    "pointwise_conv2d": lambda x, w: torch.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]),
    "transposed_conv1d": lambda x, w: scatter(x, w, 2, 1),
    "transposed_conv2d": lambda x, w: scatter(x, w, 1, 0),
    "transposed_conv3d_grouped": lambda x, w: scatter(x, w, 2, 1, groups=4),
    "max_pool1d": lambda x: largest(x, 4, 2, 2, 3),
    "max_pool2d": lambda x: largest(x, 2, 2, 1, 3),
    "max_pool3d": lambda x: largest(x, 3, 2, 1, 3),
    "avg_pool2d": lambda x: mean(x, 3, 3, 0),
    "avg_pool3d": lambda x: mean(x, 3, 2, 1),
    "conv2d_relu_bias_add": lambda x, w, c, b: convolve(x, w, c).clamp_min(0) + b,
    "conv2d_mish_mish": lambda x, w, c: mish(mish(convolve(x, w, c))),
    "conv2d_relu_hardswish": relu_hardswish,
    "conv2d_avg_pool_sigmoid_sum": pool_sigmoid_sum,
    "conv2d_tanh_scaling_bias_max_pool": tanh_pool,
    "conv2d_scaling_min": lambda x, w, c: -((-2 * convolve(x, w, c)).amax(1, keepdim=True)),
    "conv3d_scaling_tanh_multiply_sigmoid": scale_tanh_multiply_sigmoid,
    "stencil_2d": heat,
    "stencil_3d": wave,
    "causal_conv1d": causal,
}
