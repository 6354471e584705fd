"""Tokens that similarity of kernels is counted in."""

from __future__ import annotations

import re

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
GRAM = 5
"""Tokens of a run; two kernels are as alike as the sets of their runs."""
