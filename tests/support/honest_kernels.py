"""The honest kernels that tests begin with, and changes of them."""

import dataclasses
from pathlib import Path

from kbench.harness.kernel.sources import read_kernel
from kbench.schemas import KernelSource

FOLDER = Path(__file__).parents[1] / "harness" / "kernels"
KERNELS = 30
"""How many a session that is killed again and again measures."""
TRITON, CUDA = FOLDER / "gelu_triton.py", FOLDER / "gelu_cuda.py"


def gelu(path: Path = TRITON, old: str = "", new: str = "") -> KernelSource:
    """One of them, with a change that must apply."""
    kernel = read_kernel(path, "gelu_tanh")
    assert old in kernel.source
    return dataclasses.replace(kernel, source=kernel.source.replace(old, new))


def numbered(number: int) -> KernelSource:
    """One of them with an identity of its own."""
    kernel = gelu()
    return dataclasses.replace(kernel, source=f"# {number}\n{kernel.source}")
