"""Retired problems: once listed, too like another one to be worth new kernels.

Their definitions, kernels, splits and scores stay as they are, and whoever names one gets it; new campaigns over all
problems leave them out. Likeness is measured on kernels of dataset 1: for six sampled correct kernels per problem and
backend, the 5-gram Jaccard similarity of their tokens (numbers masked, comments removed) with the nearest of six of
the other problem's, averaged. Only problems of the training split are retired, so that no test question loses its
listed problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Retirement(NamedTuple):
    """Why a problem is listed no more."""

    like: str
    """The listed problem whose kernels its own are most like."""
    similarity: float
    reason: str


RETIRED: Mapping[str, Retirement] = MappingProxyType(
    {
        "matmul_standard": Retirement("matmul_square", 0.74, "the same fp32 product with three unequal sides"),
        "matmul_large_k": Retirement("matmul_square", 0.78, "the same fp32 product; decode layers ask for split sums"),
        "matmul_tall_skinny": Retirement("matmul_small_k", 0.81, "k = 16 instead of 32, the output the same"),
        "matmul_lower_triangular": Retirement("matmul_small_k", 0.84, "upper triangles ask for the same skipped tiles"),
        "matmul_transposed_both": Retirement("matmul_square", 0.67, "the same fp32 product, read by other strides"),
        "linear_mish_mish": Retirement("linear_divide_gelu", 0.62, "another pointwise function after a linear layer"),
        "linear_logsumexp_leaky_gelu": Retirement(
            "linear_divide_gelu", 0.63, "a row sum after a linear layer, as in linear_sigmoid_sum; no model's layer"
        ),
        "fp8_gemm": Retirement("int8_gemm", 0.64, "fp8_linear_rowwise asks the same at three real layers"),
        "sigmoid": Retirement("relu", 0.77, "another pointwise function on the same sizes, bound by memory"),
        "swish": Retirement("relu", 0.78, "another pointwise function on the same sizes, bound by memory"),
        "softplus": Retirement("relu", 0.69, "another pointwise function on the same sizes, bound by memory"),
        "softsign": Retirement("relu", 0.73, "another pointwise function on the same sizes, bound by memory"),
        "l2_norm": Retirement("log_softmax", 0.64, "a row reduction and a division, as in the other norms of rows"),
        "mean_reduce": Retirement("sum_reduce", 0.74, "the sum with one division"),
        "argmin": Retirement("argmax", 0.66, "argmax with the comparison turned round"),
        "cumsum_reverse": Retirement("cumsum", 0.57, "cumsum from the other end"),
        "masked_cumsum": Retirement("cumsum", 0.56, "cumsum of a product with a mask"),
        "kl_div_loss": Retirement("huber_loss", 0.73, "another pointwise function summed over two matrices"),
        "conv2d_asymmetric": Retirement("conv2d_relu_hardswish", 0.61, "conv2d_square with five taps on one side"),
        "pointwise_conv2d": Retirement("conv2d_square", 0.67, "a convolution that is a product; see conv1x1 in fp16"),
        "avg_pool2d": Retirement("max_pool2d", 0.69, "max_pool2d with a sum in place of the maximum"),
        "avg_pool3d": Retirement("max_pool3d", 0.65, "max_pool3d with a sum in place of the maximum"),
        "conv2d_mish_mish": Retirement(
            "conv2d_relu_hardswish", 0.70, "another pointwise function after the same layer"
        ),
        "conv2d_scaling_min": Retirement("conv2d_relu_hardswish", 0.59, "another reduction after the same layer"),
    }
)
"""By problem, in registry order."""
