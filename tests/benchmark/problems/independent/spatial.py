"""Independent formulations of the convolution, pooling and stencil problems: float64, windows gathered one by one."""

import itertools
from collections.abc import Callable, Sequence

import torch
from formulas import silu
from torch import Tensor

Check = Callable[..., Tensor]


def windows(x: Tensor, kernel: Sequence[int], stride: int, padding: int, dilation: int, outside: float) -> Tensor:
    """[taps, n, c, *extents]: for every tap, the values it meets at every window, gathered along each axis in turn."""
    axes, taps = range(2, x.dim()), []
    padded = torch.nn.functional.pad(x, (padding, padding) * len(axes), value=outside)
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
    return summed if bias is None else summed + bias.view(-1, *(1,) * (x.dim() - 2))


def depthwise(x: Tensor, weight: Tensor) -> Tensor:
    """Each channel with its own filter."""
    gathered = windows(x, weight.shape[2:], 1, 0, 1, 0.0)
    return torch.einsum("tnc...,ct->nc...", gathered, weight.flatten(1))


def scatter(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int = 1) -> Tensor:
    """Transposed convolution as the gradient of the convolution that it turns round."""
    full, parts = [(e - 1) * stride + k for e, k in zip(x.shape[2:], weight.shape[2:], strict=True)], []
    for part, filters in zip(x.chunk(groups, 1), weight.chunk(groups), strict=True):
        y = torch.zeros(len(x), weight.shape[1], *full, dtype=torch.float64, requires_grad=True)
        parts.append(torch.autograd.grad((convolve(y, filters, stride=stride) * part).sum(), y)[0])
    return torch.cat(parts, 1)[(..., *(slice(padding, size - padding) for size in full))]


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


def banded(count: int, *values: float) -> Tensor:
    """A symmetric matrix with these values on its diagonal and beside it."""
    away = (torch.arange(count)[:, None] - torch.arange(count)).abs()
    return torch.tensor([*values, 0.0], dtype=torch.float64)[away.clamp(max=len(values))]


def heat(u: Tensor, diffusivity: Tensor) -> Tensor:
    """The Laplacian as second-difference matrices from both sides."""
    return u + diffusivity * (banded(u.shape[0], -2, 1) @ u + u @ banded(u.shape[1], -2, 1))


def wave(u: Tensor, previous: Tensor, courant: float) -> Tensor:
    """Fourth-order second-difference matrices applied along each axis."""
    result = 2 * u - previous
    for axis, count in enumerate(u.shape):
        matrix = banded(count, -2.5, 4 / 3, -1 / 12)
        result = result + courant * torch.tensordot(matrix, u, dims=([1], [axis])).movedim(0, axis)
    return result


def causal(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The last tap meets the present, earlier taps the past."""
    past = torch.nn.functional.pad(x, (weight.shape[1] - 1, 0))
    return silu(depthwise(past, weight[:, None]) + bias[:, None])


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
