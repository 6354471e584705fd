"""What the row norms compute, told once for both backends: the statistics of a row and its longest length."""

from __future__ import annotations

STATISTICS = {
    "softmax": "lse", "log_softmax": "lse", "l2_norm": "squares", "rmsnorm_residual": "squares",
    "instance_norm": "moments", "group_norm": "moments",
}  # fmt: skip
"""`lse`: maximum and sum of exponentials; `squares`: sum of squares; `moments`: mean and variance."""

LONGEST = {
    "softmax": 16384, "log_softmax": 32768, "l2_norm": 16384, "rmsnorm_residual": 8192,
    "instance_norm": 65536, "group_norm": 524288,
}  # fmt: skip
"""Longest row of any workload, rounded up to a power of two: bounds what a block may hold at once."""
