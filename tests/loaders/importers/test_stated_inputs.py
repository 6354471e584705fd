"""Shapes read from the text of `get_inputs` and `generate_input`, without running it."""

import pytest

from kbench.loaders.importers.stated_inputs import workload_of

HEAD = "import torch\nbatch, dim = 16, 4 * 8\nshape = (dim, 3)\n\n"


def inputs(body: str, *, head: str = HEAD) -> list[str] | None:
    text = "".join(f"    {line}\n" for line in body.splitlines())
    found = workload_of(f"{head}def get_inputs():\n{text}")
    return None if found is None else list(found["inputs"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return [torch.randn(batch, *shape)]", ["float32[16,32,3]"]),
        ("x = torch.rand(batch, dim, device='cuda').half()\nreturn [x.T, 3.14]", ["float16[32,16]", "float32[]"]),
        ("return [torch.randint(0, 9, (batch,)), torch.zeros((dim,), dtype=torch.bfloat16)]",
         ["int64[16]", "bfloat16[32]"]),
        ("a = torch.randn(batch, 1) * torch.rand(dim)\nreturn a > 0, torch.softmax(a, dim=-1)",
         ["bool[16,32]", "float32[16,32]"]),
    ],
)  # fmt: skip
def test_shapes_and_types_follow_from_the_text(body: str, expected: list[str]) -> None:
    assert inputs(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "return [torch.randn(unknown, 4)]",
        "for n in range(3):\n    pass\nreturn [torch.randn(4)]",
        "return [__import__('os').system('true')]",
        "return [torch.randn(10 ** 9 ** 9)]",
        "return [torch.randn(-1)]",
        "return [torch.arange(), torch.randn(4)]",
        "return [torch.randn(4).transpose(1, 7)]",
        "return []",
        "return " + "(" * 300 + "1" + ")" * 300,
    ],
)
def test_what_is_not_plain_to_see_is_no_workload(body: str) -> None:
    assert inputs(body) is None


def test_branches_on_stated_arguments_are_followed() -> None:
    source = (
        "import torch\n\ndef generate_input(size: int, masked: bool, seed: int):\n"
        "    weights = {}\n    weights['w'] = torch.randn(size, 2 * size)\n"
        "    if masked:\n        mask = torch.ones(size)\n    else:\n        mask = torch.zeros(size, size)\n"
        "    return mask, weights\n"
    )
    found = workload_of(source, "generate_input", "case_0", {"size": 8, "masked": True, "seed": 1})
    assert list(found["inputs"]) == ["float32[8]", "float32[8,16]"]
    assert found["min_bytes"] == 4 * (8 + 128)
