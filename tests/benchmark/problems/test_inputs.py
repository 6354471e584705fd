"""Tensors declared by text."""

from __future__ import annotations

import pytest

from kbench.benchmark.problems.inputs import TensorSpec, booleans, tensors


def test_a_text_states_name_type_and_dimensions() -> None:
    declared = tensors("x[rows,4]", "mask: bool[rows]", "total: int32[]", mask=booleans())
    assert declared({"rows": 7}) == (
        TensorSpec("x", (7, 4)),
        TensorSpec("mask", (7,), "bool"),
        TensorSpec("total", (), "int32"),
    )


@pytest.mark.parametrize("text", ["x", "x[rows, cols]", "x: [rows]", "x[rows]y"])
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write name: dtype"):
        tensors(text)


def test_a_fill_of_no_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="mask"):
        tensors("x[rows]", mask=booleans())
