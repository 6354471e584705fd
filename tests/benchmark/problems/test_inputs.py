"""Tensors declared by text."""

from __future__ import annotations

import pytest
import torch

from kbench.benchmark.problems.inputs import TensorSpec, booleans, distinct_in_row, tensors


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


def test_values_of_a_row_are_distinct_and_their_low_bits_tell_no_column() -> None:
    drawn = distinct_in_row(torch.Generator().manual_seed(1), TensorSpec("x", (50, 256)), "cpu")
    assert (drawn.sort(dim=1).values.diff(dim=1) > 0).all()
    fractions = (drawn * 2.0**19).long() % 256
    assert (fractions.sort(dim=1).values == torch.arange(256)).all()
    assert (fractions == torch.arange(256)).double().mean() < 0.02
