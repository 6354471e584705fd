"""Kernels of other suites, counted without a GPU, in this process; their text is our own."""

import json
from pathlib import Path
from typing import Any

import pytest

from kbench.harness.device.target import H200, Target
from kbench.harness.plan.foreign import chosen, count_foreign
from kbench.harness.plan.planner import Planned
from kbench.schemas import Backend, KernelSource

HEAD = "import torch\nimport torch.nn.functional as F\n\n"
SQUARE = ("float16[256,256]", "float16[256,256]")


@pytest.fixture(autouse=True)
def settled_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    # Triton warns where this is not set, and warnings are errors here.
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def counted(tmp_path: Path, text: str, inputs: tuple[str, ...] = SQUARE) -> Planned:
    workload = {"name": "one", "inputs": list(inputs), "min_bytes": 0}
    kernel = KernelSource("elsewhere", Backend.TORCH, HEAD + text, json.dumps([workload]))
    return count_foreign(kernel, Target(9, 0), H200, tmp_path)


def launches(planned: Planned) -> dict[str, dict[str, Any]]:
    assert planned.error is None, planned.error
    ((work,),) = planned.work.values()
    return {one["function"]: one for one in work["launches"]}


def test_operators_of_torch_become_launches(tmp_path: Path) -> None:
    found = launches(counted(tmp_path, "def run(x, y):\n    return F.relu(x @ y) + 1\n"))
    assert list(found) == ["mm", "relu", "add"]
    blocks = found["mm"]["grid"]
    assert found["mm"]["per_block"]["flops_16"] * blocks[0] * blocks[1] * blocks[2] == pytest.approx(2 * 256**3)


def test_what_is_compiled_is_fused_between_products(tmp_path: Path) -> None:
    text = (
        "@torch.compile\ndef tail(x):\n    return (F.relu(x) + 1).float()\n\ndef run(x, y):\n    return tail(x @ y)\n"
    )
    found = launches(counted(tmp_path, text))
    assert list(found) == ["mm", "fused"]
    assert sum(one["stores"] for one in found["fused"]["traffic"]) * found["fused"]["grid"][0] == 4 * 256**2


@pytest.mark.parametrize(
    "text",
    [
        "class ModelNew(torch.nn.Module):\n    def forward(self, x, y):\n        return x @ y\n",
        "class Model(torch.nn.Module):\n    def forward(self, x, y):\n        return x @ y\n",
        "def custom_kernel(data):\n    x, y = data\n    return x @ y\n",
        "def run(x, y):\n    with torch.cuda.stream(torch.cuda.Stream()):\n"
        "        return torch.einsum('ab,bc->ac', x, y)\n",
    ],
)
def test_every_entry_function_is_called(tmp_path: Path, text: str) -> None:
    assert any(one["per_block"]["flops_16"] for one in launches(counted(tmp_path, text)).values())


def test_a_replayed_graph_counts_what_was_captured(tmp_path: Path) -> None:
    text = (
        "graph = torch.cuda.CUDAGraph()\nstate = {}\n\ndef run(x, y):\n    if not state:\n"
        "        with torch.cuda.graph(graph):\n            state['out'] = x @ y\n"
        "    graph.replay()\n    return state['out']\n"
    )
    assert list(launches(counted(tmp_path, text))) == ["mm"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def run(x, y):\n    return x if x.sum().item() > 0 else y\n", "asks for a tensor's values"),
        ("from torch.utils.cpp_extension import load_inline\ntry:\n    load_inline('a', '')\n"
         "except Exception:\n    pass\ndef run(x, y):\n    return x @ y\n", "compiles a torch extension"),
        ("def run(x, y):\n    return x.unheard_of()\n", "unheard_of"),
        ("def other(x):\n    return x\n", "defines no function `run`"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_has_no_work_and_a_reason(tmp_path: Path, text: str, message: str) -> None:
    found = counted(tmp_path, text)
    assert found.work is None
    assert message in str(found.error)


def test_triton_kernels_for_amd_are_compiled_with_what_torch_calls_beside_them(tmp_path: Path) -> None:
    text = (
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef double(x, out, n, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)\n\n"
        "def run(x, y):\n    z = x @ y\n    out = torch.empty_like(z)\n"
        "    double[(256,)](z, out, z.numel(), BLOCK=256, waves_per_eu=2, num_warps=4)\n    return out\n"
    )
    found = launches(counted(tmp_path, text))
    assert set(found) == {"double", "mm"}
    assert found["double"]["error"] is None
    assert found["double"]["per_block"]["load_bytes"] == 512


def test_few_workloads_stand_for_many_and_those_without_inputs_for_none() -> None:
    many = [{"name": f"w{n}", "inputs": ["float32[1]"] if n else [], "min_bytes": n} for n in range(20)]
    assert [one["name"] for one in chosen(many)] == ["w5", "w15"]
    assert chosen(many[:1]) == []
