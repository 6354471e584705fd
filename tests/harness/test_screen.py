"""Advice on a kernel's text: what will certainly not be planned, and silence on everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.harness.kernel.screen import advice

KERNELS = Path(__file__).parent / "kernels"
PUBLISHED = Path(__file__).parents[1] / "fixtures" / "published"
JIT = "import triton\n@triton.jit\ndef k(x):\n    pass\n"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def run(x:\n", "does not parse"),
        (f"{JIT}def launch(x):\n    return x\n", "defines no function `run`"),
        ("import torch\ndef run(x):\n    return torch.relu(x)\n", "the kernel must compute, not torch"),
        ("def custom_kernel(data):\n    return data[0].relu()\n", "the kernel must compute, not torch"),
        (f"{JIT}def run(x):\n    n = x.max().item()\n    return x\n", "line 6 calls .item()"),
        (f"{JIT}def run(x):\n    return x.cpu()\n", "line 6 calls .cpu()"),
        (f"{JIT}def run(x):\n    return sorted(x.tolist())\n", "line 6 calls .tolist()"),
    ],
)
def test_what_cannot_be_planned_is_said_with_its_line(source: str, words: str) -> None:
    assert words in (advice(source) or "")


@pytest.mark.parametrize("path", [*sorted(KERNELS.glob("*.py")), *sorted(PUBLISHED.glob("*.py"))], ids=lambda p: p.name)
def test_nothing_is_said_of_honest_kernels_in_any_form(path: Path) -> None:
    assert advice(path.read_text()) is None


@pytest.mark.parametrize("source", ["import os\n", "table = {}\n", "def jit(f):\n    return f\n"])
def test_no_name_is_held_against_a_kernel(source: str) -> None:
    assert advice(f"{source}{JIT}def run(x):\n    return k\n") is None
